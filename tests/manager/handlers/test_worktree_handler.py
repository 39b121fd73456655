"""Worktrees listed, recreated, finished, applied, merged, removed, imported, run."""

import os
import shutil
from functools import partial
from pathlib import Path

import anyio
import pytest

from rookery.errors import CommandRejected
from rookery.manager import requests as asked
from rookery.manager.handlers import worktree_handler as finishing
from rookery.manager.handlers.worktree_scripts import AgreedScripts
from rookery.manager.shown_rows import WorktreeRow, WorktreeStats
from rookery.platform.git_folders import NOTE_OF_WORKTREE
from rookery.platform.worktree_values import WorktreeState
from support.manager_project import PATIENCE, SPEAKS_LONG, WRITES, Project
from support.worktree_folders import git, put
from support.worktree_requests import (
    DONE,
    WorktreeManager,
    killed,
    until,
    with_repository,
    worktree_manager,
    write,
)

pytestmark = pytest.mark.anyio

COMMITS = """\
- calls:
  - {tool: write_to_file, arguments: {path: made.txt, content: "one\\n"}}
- calls:
  - {tool: attempt_completion, arguments: {result: "Done."}}
- calls:
  - {tool: execute_command, arguments: {command: "git commit -qm 'feat: made it'"}}
- calls:
  - {tool: attempt_completion, arguments: {result: "Committed."}}
"""


@pytest.fixture
def project(project: Project) -> Project:
    return with_repository(project)


async def worked(at: WorktreeManager, script: str = WRITES) -> WorktreeRow:
    """A worktree with a new file."""
    await at.completed(script)
    (row,) = await at.worktrees()
    return row


async def made(at: WorktreeManager, branch: str = "agent/work") -> WorktreeRow:
    """An unused worktree with one new file."""
    git(at.project.path, "branch", branch)
    row = await at.do(asked.ImportWork(branch=branch))
    put(Path(row.path), {"made.txt": b"one\n"})
    return row


async def removed(
    at: WorktreeManager, row: WorktreeRow, *, delete_branch: bool = False
) -> tuple[str, ...]:
    plan = await at.do(asked.PlanRemoval(worktree_id=row.id))
    request = asked.RemoveWorktree(
        worktree_id=row.id, token=plan.token, delete_branch=delete_branch
    )
    return (await at.do(request)).notes


async def test_worktree_changes_can_be_counted_applied_finished_and_merged(project: Project):
    async with worktree_manager(project) as at:
        row = await made(at)
        stats = await at.do(asked.ReadStats(worktree_id=row.id))
        assert stats == WorktreeStats(files=1, added=1, removed=0, uncommitted=1)
        with pytest.raises(CommandRejected, match="No such worktree"):
            await at.do(asked.ReadStats(worktree_id="nowhere"))
        put(project.path, {"made.txt": b"mine\n"})
        plan = await at.do(asked.PlanApply(worktree_id=row.id))
        assert (plan.conflicts, plan.paths, plan.token) == (("made.txt",), (), "")
        assert (project.path / "made.txt").read_bytes() == b"mine\n"
        (project.path / "made.txt").unlink()
        plan = await at.do(asked.PlanApply(worktree_id=row.id))
        assert plan.paths == ("made.txt",)
        put(Path(row.path), {"later.txt": b"later\n"})
        for token in (plan.token, "", "x"):
            with pytest.raises(CommandRejected):
                await at.do(asked.ApplyWorktree(worktree_id=row.id, token=token))
        assert not (project.path / "made.txt").exists()
        plan = await at.do(asked.PlanApply(worktree_id=row.id, paths=("made.txt",)))
        await at.do(asked.ApplyWorktree(worktree_id=row.id, paths=("made.txt",), token=plan.token))
        assert (project.path / "made.txt").read_text() == "one\n"
        assert not (project.path / "later.txt").exists()
        (project.path / "made.txt").unlink()
        with pytest.raises(CommandRejected, match="finish it first"):
            await at.do(asked.MergeWorktree(worktree_id=row.id))
        done = await at.do(asked.FinishWorktree(worktree_id=row.id, message="feat: one"))
        assert done.notes[0].startswith("Committed 2 files to agent/work")
        assert git(Path(row.path), "log", "-1", "--format=%s") == b"feat: one\n"
        with pytest.raises(CommandRejected, match="Nothing is left"):
            await at.do(asked.FinishWorktree(worktree_id=row.id))
        done = await at.do(asked.MergeWorktree(worktree_id=row.id))
        assert done.notes == ("agent/work was merged into main.",)
        assert (project.path / "made.txt").read_text() == "one\n"


async def test_a_worktree_cannot_impersonate_another(project: Project):
    """An agent in a worktree can write the worktree's own metadata."""
    async with worktree_manager(project) as at:
        rows = [await made(at, branch) for branch in ("agent/one", "agent/two")]
        admin = project.path / ".git/worktrees"
        shutil.copy(*(admin / Path(row.path).name / NOTE_OF_WORKTREE for row in rows))
        for request in (
            asked.PlanApply,
            asked.PlanRemoval,
            asked.ReadStats,
            asked.RecreateWorktree,
        ):
            with pytest.raises(CommandRejected, match="Several worktrees"):
                await at.do(request(worktree_id=rows[0].id))


async def test_a_missing_worktree_is_reported_and_can_be_recreated(project: Project):
    async with worktree_manager(project) as at:
        row = await worked(at, DONE)
        (session_id,) = row.sessions
        await at.supervisor.find(session_id).end()
        shutil.rmtree(row.path)
        (missing,) = await at.worktrees()
        assert (missing.id, missing.state) == (row.id, WorktreeState.MISSING)
        for act in (partial(at.supervisor.send, text="on"), at.supervisor.resume):
            with pytest.raises(
                CommandRejected, match="Recreate the worktree, then resume the session"
            ):
                await act(session_id)
        assert at.watched.state(session_id) == "completed", "nothing has changed"
        assert os.listdir(os.path.dirname(row.path)) == []
        await at.do(asked.RecreateWorktree(worktree_id=row.id))
        await at.supervisor.send(session_id, "go on")
        await at.watched.result(session_id, "Done again.")
        await at.supervisor.find(session_id).end()
        git(project.path, "worktree", "remove", "--force", row.path)
        (missing,) = await at.worktrees()
        known = (missing.id, missing.state, missing.branch)
        assert known == (row.id, WorktreeState.MISSING, row.branch), "the session still names it"
        await at.do(asked.RecreateWorktree(worktree_id=row.id))
        (again,) = await at.worktrees()
        assert (again.id, again.path, again.state) == (row.id, row.path, WorktreeState.READY)
        git(project.path, "worktree", "remove", "--force", row.path)
        git(project.path, "branch", "-qD", row.branch)
        (lost,) = await at.worktrees()
        assert lost.state is WorktreeState.LOST
        with pytest.raises(CommandRejected, match="were removed"):
            await at.do(asked.RecreateWorktree(worktree_id=row.id))


async def test_the_agent_writes_the_commit_message(
    project: Project, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(finishing, "CHECK_SECONDS", 0.2)
    for key in ("user.name", "user.email"):
        git(project.path, "config", key, "somebody")
    async with worktree_manager(project) as at:
        row = await worked(at, COMMITS)
        done = await at.do(asked.FinishWorktree(worktree_id=row.id))
        assert done.notes == ("The agent committed to agent/write-it-now.",)
        assert git(Path(row.path), "log", "-1", "--format=%s") == b"feat: made it\n"
        assert git(Path(row.path), "status", "--porcelain") == b""


async def test_finish_commits_for_the_agent_and_removal_waits_for_its_stop(
    project: Project, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(finishing, "CHECK_SECONDS", 0.05)
    async with worktree_manager(project) as at:
        row = await worked(at)
        await at.do(asked.FinishWorktree(worktree_id=row.id))
        assert git(Path(row.path), "log", "-1", "--format=%s") == b"chore: Write it now\n"
        put(Path(row.path), {"new.txt": b"new\n"})
        session = at.supervisor.find(row.sessions[0])
        assert at.supervisor.start_obstacle(session.record) is None
        with monkeypatch.context() as stubborn:
            stubborn.setattr(finishing, "SECONDS_TO_STOP", 0.05)
            stubborn.setattr(type(session), "end", lambda self: anyio.sleep_forever())
            with pytest.raises(CommandRejected, match="could not be stopped"):
                await removed(at, row)
        assert (Path(row.path) / "new.txt").exists()
        assert [each.state for each in await at.worktrees()] == [WorktreeState.READY]
        access = at.supervisor.start_obstacle.__self__  # type: ignore[attr-defined]
        access.closed.add(row.path)
        assert "being removed" in (at.supervisor.start_obstacle(session.record) or "")
    os.rename(row.path, f"{os.path.dirname(row.path)}/.removing-agent-write-it-now-0")
    async with worktree_manager(project) as at:
        await at.shows(lambda _: bool(at.supervisor.notices))
        (notice,) = at.supervisor.notices
        assert "is saved as refs/rookery/keep/" in notice, "the interrupted removal is completed"
        assert [each.state for each in await at.worktrees()] == [WorktreeState.MISSING]


async def test_removal_stops_running_work_and_keeps_uncommitted_changes(project: Project):
    write(project, "run-script", "echo $$ > pid; sleep 600\n")
    async with worktree_manager(project) as at:
        (session_id,) = (await at.start(SPEAKS_LONG)).session_ids
        await at.watched.at(session_id, "streaming")
        (row,) = await at.worktrees()
        await at.do(asked.RunScript(worktree_id=row.id))
        folder = Path(row.path)
        await until(lambda: (folder / "pid").exists() and (folder / "pid").read_text() != "")
        pid = int((folder / "pid").read_text())
        put(folder, {"new.txt": b"precious\n"})
        plan = await at.do(asked.PlanRemoval(worktree_id=row.id))
        assert "Will be stopped first: Write it now, its run script." in plan.text
        assert plan.paths == ("new.txt", "pid")
        put(folder, {"another.txt": b"came later\n"})
        with pytest.raises(CommandRejected, match="changed since"):
            await at.do(asked.RemoveWorktree(worktree_id=row.id, token=plan.token))
        assert at.watched.state(session_id) == "streaming"
        (kept,) = await removed(at, row)
        assert "is saved as refs/rookery/keep/" in kept
        assert [each.state for each in await at.worktrees()] == []
        assert at.watched.state(session_id) == "stopped"
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        (work,) = await at.do(asked.ListKept())
        back = await at.do(asked.BringBack(ref=work.ref, branch="again"))
        assert (Path(back.path) / "new.txt").read_bytes() == b"precious\n"
        place = project.path / ".roo/worktrees"
        await until(lambda: [each.name for each in place.iterdir()] == ["again"])


async def test_comparing_versions_shows_where_removed_work_is_kept(project: Project):
    async with worktree_manager(project) as at:
        model = f"scripted/{project.start_options(DONE).model}"
        (session_id, other) = (await at.start(versions=2, models=("", model))).session_ids
        for each in (session_id, other):
            await at.watched.at(each, "completed")
        group = at.supervisor.find(session_id).record.group_id
        versions = await at.do(asked.CompareVersions(group_id=group))
        assert [(v.name, v.stats.files, v.result, v.state, v.note) for v in versions] == [
            ("Write it now", 1, "Done.", "completed", ""),
            ("Write it now v2", 0, "Done.", "completed", ""),
        ]
        assert versions[1].model == model
        with pytest.raises(CommandRejected, match="No such versions"):
            await at.do(asked.CompareVersions(group_id=""))
        rows = {row.sessions[0]: row for row in await at.worktrees()}
        await removed(at, rows[session_id])
        (kept,) = await at.do(asked.ListKept())
        reported = f"bring-back {kept.ref} BRANCH"
        for act in (
            partial(at.supervisor.send, session_id, "on"),
            partial(at.supervisor.resume, session_id),
            partial(at.do, asked.ReadDiff(session_id=session_id, path="made.txt")),
        ):
            with pytest.raises(CommandRejected, match="was removed") as refused:
                await act()
            assert reported in str(refused.value)
        for scope in ("branch", "session"):
            review = await at.do(asked.ReviewChanges(session_id=session_id, scope=scope))
            assert reported in review.notes[0]
        versions = await at.do(asked.CompareVersions(group_id=group))
        assert [reported in each.note for each in versions] == [True, False]
        assert {each.session_id for each in at.supervisor.inbox()} == {other}
        notes = await removed(at, rows[other], delete_branch=True)
        assert notes == ("The branch agent/write-it-now_v2 was deleted.",)
        with pytest.raises(CommandRejected, match=r"was removed\. The session can be read; start"):
            await at.supervisor.send(other, "go on")
        assert at.watched.state(other) == "completed"
        assert await at.worktrees() == ()


async def test_branches_and_worktrees_can_be_imported(project: Project, tmp_path: Path):
    git(project.path, "branch", "topic")
    git(project.path, "branch", "other")
    git(project.path, "worktree", "add", "-q", str(tmp_path / "mine"), "other")
    async with worktree_manager(project) as at:
        assert await at.do(asked.ListBranches()) == ("main", "other", "topic")
        found = await at.do(asked.ListImportable())
        assert (found.branches, found.worktrees) == (("topic",), (str(tmp_path / "mine"),))
        topic = await at.do(asked.ImportWork(branch="topic"))
        mine = await at.do(asked.ImportWork(folder=str(tmp_path / "mine")))
        assert (topic.branch, topic.imported, mine.branch, mine.imported) == (
            *("topic", False),
            *("other", True),
        )
        for wrong in (
            asked.ImportWork(),
            asked.ImportWork(branch="a", folder="b"),
            asked.ImportWork(folder="b"),
        ):
            with pytest.raises(CommandRejected):
                await at.do(wrong)
        await removed(at, mine)
        assert (tmp_path / "mine" / "a.txt").exists()


async def test_an_approved_run_script_runs_once_and_stops_with_its_processes(project: Project):
    async with worktree_manager(project) as at:
        row = await made(at)
        run, stop = asked.RunScript(worktree_id=row.id), asked.StopScript(worktree_id=row.id)
        with pytest.raises(CommandRejected, match="The project has no"):
            await at.do(run)
        write(project, "run-script", "touch ran\n", agreed=False)
        with pytest.raises(CommandRejected, match="You have not agreed"):
            await at.do(run)
        assert not (Path(row.path) / "ran").exists()
        write(project, "run-script", "echo said; exit 1\n")
        (reported,) = (await at.do(run)).notes
        log = Path(reported.removeprefix("Its output goes to ").removesuffix("."))
        await until(lambda: log.read_text() == "said\n")
        with anyio.fail_after(PATIENCE):
            while (await at.worktrees())[0].running:  # noqa: ASYNC110 (it sends no event)
                await anyio.sleep(0.01)
        write(project, "run-script", 'sleep 600 & echo "$! $WORKTREE_PORT" > pid; wait\n')
        await at.do(run)
        file = Path(row.path) / "pid"
        await until(lambda: file.exists() and file.read_text().endswith("\n"))
        pid, port = map(int, file.read_text().split())
        assert port == row.first_port
        with pytest.raises(CommandRejected, match="already running"):
            await at.do(run)
    async with worktree_manager(project) as at:
        assert [each.running for each in await at.worktrees()] == [True], "it outlives the manager"
        for _ in range(2):
            await at.do(stop)
            assert [each.running for each in await at.worktrees()] == [False]
        await until(lambda: not _runs(pid))


def test_script_approval_applies_only_to_the_text_that_was_shown(project: Project):
    write(project, "run-script", "echo one\n", agreed=False)
    agreed = AgreedScripts(project.path, project.places)
    (offered,) = agreed.offered()
    assert (offered.name, offered.text, offered.agreed) == (
        *("run-script", "echo one\n"),
        False,
    )
    write(project, "run-script", "echo two\n", agreed=False)
    with pytest.raises(CommandRejected, match="look again"):
        agreed.agree_to(offered.digest)
    write(project, "run-script", "echo one\n")
    assert [each.agreed for each in agreed.offered()] == [True]
    write(project, "run-script", "echo two\n", agreed=False)
    assert [each.agreed for each in agreed.offered()] == [False]
    elsewhere = AgreedScripts(project.folder, project.places)
    put(project.folder, {".roo/run-script": b"echo one\n"})
    assert [each.agreed for each in elsewhere.offered()] == [False]


async def test_a_script_does_not_run_if_the_manager_dies_before_its_release(project: Project):
    write(project, "run-script", "touch ran; sleep 600\n")
    async with worktree_manager(project) as at:
        row = await made(at)
    for point in ("manager.script_spawned", "manager.script_marked"):
        killed(project, asked.RunScript(worktree_id=row.id), point)
        await project.quiet()
        assert "ran" not in os.listdir(row.path), point
        async with worktree_manager(project) as at:
            assert [each.running for each in await at.worktrees()] == [False], point


async def test_without_a_repository_only_local_sessions_run_and_are_reviewed(tmp_path: Path):
    bare = Project(tmp_path)
    async with worktree_manager(bare) as at:
        for act in (at.worktrees, at.start):
            with pytest.raises(CommandRejected, match="not the root of a git repository"):
                await act()
        assert (at.supervisor.all(), os.listdir(bare.path)) == ([], [])
        session_id = (await at.completed(where="local")).record.session_id
        review = await at.do(asked.ReviewChanges(session_id=session_id))
        assert [each.path for each in review.files] == ["made.txt"]
        assert review.notes
        diff = await at.do(asked.ReadDiff(session_id=session_id, path="made.txt"))
        assert [(line.kind, line.html) for line in diff.lines] == [("added", "one")]


def _runs(pid: int) -> bool:
    try:
        said = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return False
    return said[0] != "Z"
