"""Agents that run side by side, in the real host: how they start, work, ask and end."""

import os
import uuid
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from rookery.core.asks import AskKind
from rookery.core.commands import Cancel, CloseTask
from rookery.core.facts import (
    Asked,
    Ending,
    OutputStreamed,
    TaskClosed,
    TaskOpened,
    ToolFinished,
)
from rookery.core.modes import Level
from rookery.core.settings import Settings
from rookery.protocol.attend import Response, Say
from support.agent_sessions import (
    TASK,
    Watch,
    edit,
    limited,
    reads,
    repository,
    run,
    say,
    script,
    start,
    tool,
    works,
    worktrees,
)
from support.processes import command_line, descendants
from support.protocol_hosts import workplace
from support.repositories import copy_of, git

pytestmark = pytest.mark.anyio


async def test_explorers_read_workers_change_their_worktree_and_results_come_in_order(
    tmp_path: Path,
):
    work = copy_of(repository, tmp_path / "work")
    parts = script(
        start(reads("scout"), works("fixer"), works("idle")),
        say("Done."),
        scout=[tool("write_to_file", path="z.txt", content="z\n"), say("There is a.txt.")],
        fixer=[
            edit("two", "TWO"),
            tool("execute_command", command="echo n > n.txt"),
            say("Fixed."),
        ],
        idle=[say("Nothing to do.")],
    )
    async with workplace(tmp_path, parts, level=Level.AUTO) as host:
        watch = Watch(host)
        report = await watch.play()
    heads = [line for line in report.splitlines() if line.startswith("# ")]
    assert heads == [
        "# scout (explorer): done, 2 requests, $0.0100",
        "# fixer (worker): done, 3 requests, $0.0100",
        "# idle (worker): done, 1 request, $0.0100",
    ]
    assert report.startswith("The agents have ended: 3 done.")
    assert "Fixed.\nChanged on branch agent/fixer-" in report
    assert "2 files changed, 2 insertions(+), 1 deletion(-)" in report
    assert "Nothing to do.\nIt changed no files." in report
    refused = [f for own, f in watch.facts if own == "scout" and isinstance(f, ToolFinished)]
    assert "Mode ask does not have write_to_file" in refused[0].text
    assert git(work, "status", "--porcelain") == ""
    assert worktrees(tmp_path) == ["agent-fixer"], "a clean worktree is removed"
    assert git(work, "branch", "--format=%(refname:short)").count("\n") == 1


async def test_one_question_starts_all_agents_and_no_starts_none(tmp_path: Path):
    copy_of(repository, tmp_path / "work")

    async def no(asked: Asked) -> Response:
        return Say("no", "not now")

    both = start(reads("scout"), works("fixer", budget="5 requests, $1, 2 min"))
    async with workplace(tmp_path, script(both, say("Done."))) as host:
        watch = Watch(host, no)
        assert "not now" in await watch.play()
    (asked,) = watch.asked
    assert asked.title == "Start 2 agents: scout, fixer"
    assert "scout: ask mode, only reads\nTask of scout." in asked.diff
    limits = "at most 5 requests, at most $1, at most 2 min"
    assert f"fixer: code mode, changes files in a worktree of its own, {limits}" in asked.diff
    assert "Workers start from the last commit" in " ".join(asked.notes)
    assert list(watch.ids) == [TASK]
    assert worktrees(tmp_path) == []


async def test_agents_work_at_the_same_time_and_ask_one_after_the_other(tmp_path: Path):
    copy_of(repository, tmp_path / "work")
    open_now: list[str] = []
    most = 0

    async def reply(asked: Asked) -> Response:
        nonlocal most
        open_now.append(asked.agent)
        most = max(most, len(open_now))
        if asked.agent == "one":
            await watch.until("three", TaskClosed)
        open_now.remove(asked.agent)
        return Say("yes")

    parts = script(
        start(works("one"), works("two"), reads("three")),
        say("Done."),
        one=[edit("one", "1"), say("1")],
        two=[edit("two", "2"), say("2")],
        three=[tool("read_file", path="a.txt"), say("3")],
    )
    async with workplace(tmp_path, parts) as host:
        watch = Watch(host, reply)
        assert "3 done" in await watch.play()
    assert most == 1
    assert sorted(asked.agent for asked in watch.asked) == ["", "one", "two"]


async def test_the_rest_wait_and_no_session_starts_more_than_its_limit(tmp_path: Path):
    copy_of(repository, tmp_path / "work")
    three = start(*(reads(name) for name in ("one", "two", "three")))
    parts = script(three, three, say("Done."), one=[say("1")], two=[say("2")], three=[say("3")])
    settings = limited(agents_at_once=1, agents=4)
    async with workplace(tmp_path, parts, settings, level=Level.AUTO) as host:
        watch = Watch(host)
        assert "At most 1 more agents can be started." in await watch.play()
    steps = [(own, type(f)) for own, f in watch.facts if isinstance(f, TaskOpened | TaskClosed)]
    names = ["one", "two", "three"]
    turns = [(name, kind) for name in names for kind in (TaskOpened, TaskClosed)]
    assert [step for step in steps if step[0] != TASK] == turns


async def test_an_agent_ends_when_its_budget_or_its_model_does_and_the_others_go_on(
    tmp_path: Path,
):
    copy_of(repository, tmp_path / "work")
    parts = script(
        start(reads("poor", budget="1 request"), reads("broken"), reads("fine")),
        say("Done."),
        poor=[tool("read_file", path="a.txt"), say("never")],
        broken=[{"fail": {"kind": "rejected", "message": "No such thing."}}],
        fine=[say("I am fine.")],
    )
    async with workplace(tmp_path, parts, level=Level.AUTO) as host:
        report = await Watch(host).play()
    assert report.startswith("The agents have ended: 1 out of budget, 1 failed, 1 done.")
    assert "Reason: its budget of requests is used up." in report
    assert "Reason: No such thing." in report
    assert "I am fine." in report


async def test_requests_of_agents_count_for_the_session_at_once(tmp_path: Path):
    copy_of(repository, tmp_path / "work")
    reading = [tool("read_file", path=path) for path in ("a.txt", "b.txt") * 3]
    parts = script(start(reads("one"), reads("two")), say("Done."), one=reading, two=reading)
    asked: list[AskKind] = []

    async def reply(question: Asked) -> Response:
        asked.append(question.ask)
        return Say("yes")

    settings = replace(Settings(), max_requests=6)
    async with workplace(tmp_path, parts, settings, level=Level.AUTO) as host:
        watch = Watch(host, reply)
        report = await watch.play()
    assert report.startswith("The agents have ended: 2 out of budget.")
    assert asked == [AskKind.AUTO_APPROVAL_MAX_REQ_REACHED]
    assert set(watch.order(Asked)) == {TASK}, "only the session itself asks about its limit"


@pytest.mark.parametrize("word", ["yes", "message"])
async def test_cancelling_stops_all_and_they_go_on_unless_the_user_says_something_else(
    tmp_path: Path, word: Any
):
    copy_of(repository, tmp_path / "work")
    resumed = False

    async def reply(asked: Asked) -> Response:
        nonlocal resumed
        if asked.ask is AskKind.RESUME_TASK:
            resumed = True
            return Say(word, "Do it yourself." if word == "message" else "")
        if not resumed and asked.agent:
            await host.send(Cancel(task_id=TASK))
            await anyio.sleep_forever()
        return Say("yes")

    parts = script(
        start(works("one"), works("two")),
        say("Done."),
        one=[edit("one", "1"), say("1")],
        two=[edit("two", "2"), say("2")],
    )
    async with workplace(tmp_path, parts) as host:
        watch = Watch(host, reply)
        report = await watch.play()
    assert resumed
    assert report.startswith(f"The agents have ended: 2 {'done' if word == 'yes' else 'stopped'}.")
    assert worktrees(tmp_path) == (["agent-one", "agent-two"] if word == "yes" else [])


async def test_cancelling_waits_for_the_processes_of_agents(tmp_path: Path):
    copy_of(repository, tmp_path / "work")
    mark = f"9{uuid.uuid4().int % 10**12:012d}"

    def running() -> list[int]:
        return [pid for pid in descendants(os.getpid()) if mark in command_line(pid).decode()]

    async def reply(asked: Asked) -> Response:
        assert asked.ask is AskKind.RESUME_TASK
        assert not running()
        return Say("message", "Stop it.")

    async def cancel() -> None:
        await watch.until("one", OutputStreamed)
        await watch.until("two", OutputStreamed)
        assert len(running()) >= 2
        await host.send(Cancel(task_id=TASK))

    long = [run(f"echo started; sleep {mark}"), say("never")]
    parts = script(start(works("one"), works("two")), say("Done."), one=long, two=long)
    async with workplace(tmp_path, parts, level=Level.AUTO) as host, anyio.create_task_group() as g:
        watch = Watch(host, reply)
        g.start_soon(cancel)
        assert "2 stopped" in await watch.play()


async def test_workers_that_commit_at_the_same_time_do_not_disturb_each_other(tmp_path: Path):
    work = copy_of(repository, tmp_path / "work")
    names = ("one", "two", "three")
    commit = [run("echo c >> b.txt; git commit -qam c; echo c >> b.txt; git commit -qam d")] * 2
    parts = script(
        start(*map(works, names)), say("Done."), **{name: [*commit, say("ok")] for name in names}
    )
    async with workplace(tmp_path, parts, level=Level.AUTO) as host:
        watch = Watch(host)
        assert "3 done" in await watch.play()
    ends = [f.ending for own, f in watch.facts if isinstance(f, ToolFinished) and own != TASK]
    assert ends == [Ending.DONE] * 6
    branches = git(work, "branch", "--format=%(refname:short)", "--list", "agent/*").split()
    assert [git(work, "rev-list", "--count", each) for each in branches] == ["5"] * 3


async def test_one_agent_is_stopped_alone(tmp_path: Path):
    copy_of(repository, tmp_path / "work")

    async def reply(asked: Asked) -> Response:
        if asked.agent == "one":
            await host.send(CloseTask(task_id=watch.ids["one"]))
            await anyio.sleep_forever()
        return Say("yes")

    parts = script(
        start(works("one"), works("two")),
        say("Done."),
        one=[edit("one", "1"), say("1")],
        two=[edit("two", "2"), say("2")],
    )
    async with workplace(tmp_path, parts) as host:
        watch = Watch(host, reply)
        report = await watch.play()
    assert report.startswith("The agents have ended: 1 stopped, 1 done.")


BAD_CALLS: dict[str, dict[str, Any]] = {
    "Give either agents to start, or the branch to apply.": {},
    "No such mode: 'poet'.": {"agents": [{"task": "x", "mode": "poet"}]},
    "An agent has no task.": {"agents": [{"task": " "}]},
    "'much' is not a budget. Write it as: 9 requests, $1, 5 min.": {
        "agents": [{"task": "x", "budget": "much"}]
    },
    "At most 16 more agents can be started.": {"agents": [{"task": "x"}] * 17},
    "No worktree has the branch 'main~1'.": {"apply": "main~1"},
    "Expected `str`": {"agents": [{"task": 1}]},
}


async def test_a_wrong_call_starts_nothing_and_says_why(tmp_path: Path):
    copy_of(repository, tmp_path / "work")
    calls = [tool("run_agents", **arguments) for arguments in BAD_CALLS.values()]
    settings = Settings(mistake_limit=0)
    async with workplace(tmp_path, script(*calls, say("Done.")), settings) as host:
        watch = Watch(host)
        await watch.play()
    for reason, result in zip(BAD_CALLS, watch.results, strict=True):
        assert reason in result
    assert list(watch.ids) == [TASK]
