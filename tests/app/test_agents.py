"""Agents that run side by side, in the real host: explorers, workers and what becomes of them."""

import os
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml
from msgspec.structs import replace

from rookery.core.asks import AskKind
from rookery.core.commands import Cancel, CloseTask, OpenTask, ReopenTask, RestoreFiles, Rewind
from rookery.core.facts import (
    Asked,
    ChildBegan,
    Ending,
    Event,
    Fact,
    OutputStreamed,
    TaskClosed,
    TaskOpened,
    ToolFinished,
)
from rookery.core.folds.points import last_change
from rookery.core.levels import Level
from rookery.core.settings import Settings
from rookery.core.settings_sections import LimitSettings
from rookery.protocol.attend import Response, Say, attend
from rookery.protocol.codec import Host
from support.processes import command_line, descendants
from support.protocol_hosts import workplace
from support.repositories import copy_of, git

pytestmark = pytest.mark.anyio
TASK, OTHER = "root", "other"
ENDS = (AskKind.COMPLETION_RESULT,)
Reply = Callable[[Asked], Awaitable[Response]]


def repository(folder: Path) -> None:
    git(folder, "init", "-q")
    (folder / "a.txt").write_text("one\ntwo\nthree\nfour\nfive\n")
    (folder / "b.txt").write_text("b\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")


def tool(name: str, **arguments: Any) -> dict[str, Any]:
    return {"calls": [{"tool": name, "arguments": arguments}]}


def start(*agents: dict[str, Any]) -> dict[str, Any]:
    return tool("run_agents", agents=list(agents))


def works(name: str, **more: Any) -> dict[str, Any]:
    return {"task": f"Task of {name}.", "name": name, "works": True, **more}


def reads(name: str, **more: Any) -> dict[str, Any]:
    return {"task": f"Task of {name}.", "name": name, **more}


def say(text: str) -> dict[str, Any]:
    return {"say": text, "usage": {"tokens_in": 10, "tokens_out": 1, "cost": 0.01}}


def edit(old: str, new: str, path: str = "a.txt") -> dict[str, Any]:
    return tool("edit", file_path=path, old_string=old, new_string=new)


def run(command: str) -> dict[str, Any]:
    return tool("execute_command", command=command)


def script(*root: dict[str, Any], **agents: list[dict[str, Any]]) -> str:
    parts = {"Go.": list(root)} | {f"Task of {name}.": each for name, each in agents.items()}
    return yaml.safe_dump(parts, sort_keys=False)


class Watch:
    """Follows a session and its agents, and answers their questions."""

    def __init__(self, host: Host, reply: Reply | None = None) -> None:
        self.host = host
        self.facts: list[tuple[str, Fact]] = []
        self.ids: dict[str, str] = {TASK: TASK}
        self.events: list[Event] = []
        self._reply = reply
        self.answers_completion = False
        self._grown = anyio.Event()

    def show(self, event: Event) -> None:
        self.events += [event] if event.fact.lasting else []
        self.show_of_child(TASK, event)

    def show_of_child(self, task_id: str, event: Event) -> None:
        if isinstance(event.fact, ChildBegan):
            self.ids[event.fact.name] = event.fact.task_id
        names = {own: name for name, own in self.ids.items()}
        self.facts.append((names.get(task_id, ""), event.fact))
        self._grown.set()
        self._grown = anyio.Event()

    async def until(self, name: str, kind: type[Fact]) -> None:
        while not any(own == name and isinstance(fact, kind) for own, fact in self.facts):
            await self._grown.wait()

    async def respond(self, asked: Asked) -> Response:
        if self._reply and (self.answers_completion or asked.ask not in ENDS):
            return await self._reply(asked)
        return Say("yes")

    async def play(self, task_id: str = TASK) -> str:
        """The result of the last call of the session."""
        await self.follow(OpenTask(task_id=task_id, text="Go."))
        return self.results[-1] if self.results else ""

    async def follow(self, first: OpenTask | ReopenTask) -> None:
        await self.host.send(first)
        with anyio.fail_after(60):
            await attend(self.host, first.task_id, display=self, respond=self.respond)

    @property
    def results(self) -> list[str]:
        return [f.text for own, f in self.facts if own == TASK and isinstance(f, ToolFinished)]

    def order(self, kind: type[Fact]) -> list[str]:
        return [own for own, fact in self.facts if isinstance(fact, kind)]

    @property
    def asked(self) -> list[Asked]:
        return [f for _, f in self.facts if isinstance(f, Asked) and f.ask is AskKind.TOOL]


async def yes(asked: Asked) -> Response:
    return Say("yes")


def worktrees(folder: Path) -> list[str]:
    place = folder / "work" / ".roo" / "worktrees"
    return (
        sorted(each.name.rpartition("-")[0] for each in place.iterdir()) if place.exists() else []
    )


def limited(**limits: int) -> Settings:
    return Settings(limits=LimitSettings(**limits))


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


async def test_what_agents_use_counts_for_the_session_at_once(tmp_path: Path):
    copy_of(repository, tmp_path / "work")
    reading = [tool("read_file", path="a.txt") for _ in range(6)]
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


async def with_worker(folder: Path, *calls: dict[str, Any]) -> str:
    """Let a worker make some changes. Returns its branch."""
    copy_of(repository, folder / "work")
    parts = script(start(works("fixer")), say("Done."), fixer=[*calls, say("ok")])
    async with workplace(folder, parts, level=Level.AUTO) as host:
        await Watch(host).play()
    (place,) = (folder / "work" / ".roo" / "worktrees").glob("*")
    return place.name.replace("agent-", "agent/", 1)


async def test_the_work_of_a_worker_is_applied_as_one_change_and_undone(tmp_path: Path):
    commit = run("git commit -qam more")
    new = tool("write_to_file", path="c.txt", content="c\n")
    gone = run("rm b.txt")
    branch = await with_worker(tmp_path, edit("one", "ONE"), commit, new, gone)
    work = tmp_path / "work"
    (work / "a.txt").write_text("one\ntwo\nthree\nfour\nmine\n")
    files = [work / name for name in ("a.txt", "b.txt", "c.txt")]
    before = [each.read_text() if each.exists() else None for each in files]

    async def undo(asked: Asked) -> Response:
        if asked.ask is AskKind.COMPLETION_RESULT and not undone:
            undone.extend(each.read_text() if each.exists() else None for each in files)
            to = last_change(watch.events)
            assert to
            await host.send(RestoreFiles(task_id=OTHER, to=to))
            await anyio.sleep_forever()
        return Say("yes")

    undone: list[str | None] = []
    parts = script(tool("run_agents", apply=branch), say("Done."))
    async with workplace(tmp_path, parts) as host:
        watch = Watch(host, undo)
        watch.answers_completion = True
        await watch.play(OTHER)
    assert undone == ["ONE\ntwo\nthree\nfour\nmine\n", None, "c\n"]
    (asked,) = watch.asked
    assert asked.title == f"Apply the work of {branch}"
    assert "+ONE" in asked.diff
    assert [each.read_text() if each.exists() else None for each in files] == before
    assert worktrees(tmp_path) == ["agent-fixer"], "the work is kept where it was made"


async def test_work_that_conflicts_is_refused_as_a_whole(tmp_path: Path):
    branch = await with_worker(tmp_path, edit("one", "ONE"), edit("b", "B", "b.txt"))
    (tmp_path / "work" / "a.txt").write_text("1\ntwo\nthree\nfour\nfive\n")
    parts = script(tool("run_agents", apply=branch), say("Done."))
    async with workplace(tmp_path, parts, level=Level.AUTO) as host:
        result = await Watch(host).play(OTHER)
    assert "these files have changed on both sides: a.txt" in result
    assert (tmp_path / "work" / "b.txt").read_text() == "b\n"


async def test_workers_need_a_repository_and_agents_start_no_agents(tmp_path: Path):
    inner = start(reads("inner"))
    parts = script(
        start(works("fixer")),
        start(reads("outer")),
        say("Done."),
        outer=[inner, say("I did it myself.")],
    )
    async with workplace(tmp_path, parts, level=Level.AUTO) as host:
        watch = Watch(host)
        await watch.play()
    refused, report = watch.results
    assert "Workers need a git repository with a commit. Use new_task instead." in refused
    assert "I did it myself." in report
    assert "No agent can be started from here." in str(watch.facts)
    assert list(watch.ids) == [TASK, "outer"]


async def test_a_worker_that_the_user_reopens_stays_in_its_worktree(tmp_path: Path):
    work = copy_of(repository, tmp_path / "work")
    parts = script(
        start(works("fixer")),
        say("Done."),
        fixer=[edit("one", "ONE"), say("ok"), edit("two", "TWO"), say("ok")],
    )
    async with workplace(tmp_path, parts, level=Level.AUTO) as host:
        watch = Watch(host)
        await watch.play()
        again = Watch(host, go_on)
        await again.follow(ReopenTask(task_id=watch.ids["fixer"]))
    (place,) = (work / ".roo" / "worktrees").glob("*")
    assert (place / "a.txt").read_text().startswith("ONE\nTWO\n")
    assert git(work, "status", "--porcelain") == ""


async def go_on(asked: Asked) -> Response:
    return Say("message", "And two.") if asked.ask is AskKind.RESUME_COMPLETED_TASK else Say("yes")


BAD_CALLS: dict[str, dict[str, Any]] = {
    "Give either agents to start, or the branch to apply.": {},
    "No such mode: 'poet'.": {"agents": [{"task": "x", "mode": "poet"}]},
    "An agent has no task.": {"agents": [{"task": " "}]},
    "'much' is no budget. Write it as: 9 requests, $1, 5 min.": {
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


async def test_a_rewind_stops_the_agents_and_keeps_only_worktrees_with_changes(tmp_path: Path):
    copy_of(repository, tmp_path / "work")
    rewound = False

    async def reply(asked: Asked) -> Response:
        nonlocal rewound
        if asked.title == "Edit b.txt":
            rewound = True
            await host.send(Rewind(task_id=TASK, to=1))
            await anyio.sleep_forever()
        return Say("no") if asked.ask is AskKind.RESUME_TASK else Say("yes")

    parts = script(
        start(works("one"), works("two")),
        one=[edit("one", "1"), edit("b", "B", "b.txt"), say("1")],
        two=[tool("read_file", path="a.txt"), edit("b", "2", "b.txt"), say("2")],
    )
    async with workplace(tmp_path, parts, limited(agents_at_once=1)) as host:
        watch = Watch(host, reply)
        await watch.play()
    assert rewound
    assert worktrees(tmp_path) == ["agent-one"]
