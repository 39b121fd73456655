"""What becomes of the work of workers: applied, refused, continued or kept."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from rookery.core.asks import AskKind
from rookery.core.commands import ReopenTask, RestoreFiles, Rewind
from rookery.core.facts import (
    Asked,
)
from rookery.core.folds.points import last_change
from rookery.core.modes import Level
from rookery.protocol.attend import Response, Say
from support.agent_sessions import (
    OTHER,
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
from support.protocol_hosts import workplace
from support.repositories import copy_of, git

pytestmark = pytest.mark.anyio


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


async def test_work_on_a_branch_that_the_worker_made_is_applied(tmp_path: Path):
    branch = await with_worker(tmp_path, run("git checkout -q -b mine"), edit("one", "ONE"))
    parts = script(tool("run_agents", apply=branch), say("Done."))
    async with workplace(tmp_path, parts, level=Level.AUTO) as host:
        await Watch(host).play(OTHER)
    assert (tmp_path / "work" / "a.txt").read_text().startswith("ONE\n")


async def test_work_that_conflicts_is_refused_as_a_whole(tmp_path: Path):
    branch = await with_worker(tmp_path, edit("one", "ONE"), edit("b", "B", "b.txt"))
    (tmp_path / "work" / "a.txt").write_text("1\ntwo\nthree\nfour\nfive\n")
    parts = script(tool("run_agents", apply=branch), say("Done."))
    async with workplace(tmp_path, parts, level=Level.AUTO) as host:
        result = await Watch(host).play(OTHER)
    assert "these files have changed on both sides: a.txt" in result
    assert (tmp_path / "work" / "b.txt").read_text() == "b\n"


async def test_no_worker_starts_in_a_folder_that_is_not_trusted(tmp_path: Path):
    copy_of(repository, tmp_path / "work")
    parts = script(start(works("fixer")), say("Done."))
    async with workplace(tmp_path, parts, trusted=False) as host:
        result = await Watch(host).play()
    assert "Workers need a trusted folder" in result
    assert worktrees(tmp_path) == []


async def test_a_worktree_of_the_user_is_not_applied(tmp_path: Path):
    copy_of(repository, tmp_path / "work")
    git(tmp_path / "work", "worktree", "add", "-q", "-b", "agent/mine-abc123", "../mine")
    (tmp_path / "mine" / "private.txt").write_text("not for the agent\n")
    parts = script(tool("run_agents", apply="agent/mine-abc123"), say("Done."))
    async with workplace(tmp_path, parts, level=Level.AUTO) as host:
        result = await Watch(host).play(OTHER)
    assert "No worktree has the branch 'agent/mine-abc123'" in result
    assert not (tmp_path / "work" / "private.txt").exists()


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
    assert "Workers need a trusted folder, and a git repository with a commit in it." in refused
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
