"""Worktrees listed, recreated, finished, applied, merged, removed, imported, run."""

import os
import shutil
from functools import partial
from pathlib import Path

import anyio
import pytest

from rookery.errors import CommandRejected
from rookery.manager.handlers import worktree_teardown as finishing
from rookery.manager.handlers.worktree_scripts import AgreedScripts
from rookery.manager.requests import (
    ListBranches,
)
from rookery.manager.shown_rows import WorktreeRow, WorktreeStats
from rookery.manager.worktree_requests import (
    ApplyWorktree,
    BringBack,
    CompareVersions,
    FinishWorktree,
    ImportWork,
    ListImportable,
    ListKept,
    MergeWorktree,
    PlanApply,
    PlanRemoval,
    ReadDiff,
    ReadStats,
    RecreateWorktree,
    RemoveWorktree,
    ReviewChanges,
    RunScript,
    StopScript,
)
from rookery.manager.worktrees.worktree_values import WorktreeState
from rookery.permissions.trust import TrustStore
from rookery.platform.git_folders import NOTE_OF_WORKTREE
from support.manager_project import PATIENCE, SPEAKS_LONG, WRITES, Project
from support.worktree_folders import git, put
from support.worktree_requests import DONE, AtDesk, at_desk, killed, until, with_repository, write

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


async def worked(at: AtDesk, script: str = WRITES) -> WorktreeRow:
    """A worktree with a file that was made in it."""
    await at.completed(script)
    (row,) = await at.worktrees()
    return row


async def made(at: AtDesk, branch: str = "agent/work") -> WorktreeRow:
    """A worktree that nobody has worked in, but for one file that is new in it."""
    git(at.project.path, "branch", branch)
    row = await at.do(ImportWork(branch=branch))
    put(Path(row.path), {"made.txt": b"one\n"})
    return row


async def removed(at: AtDesk, row: WorktreeRow, *, delete_branch: bool = False) -> tuple[str, ...]:
    plan = await at.do(PlanRemoval(worktree_id=row.id))
    request = RemoveWorktree(worktree_id=row.id, token=plan.token, delete_branch=delete_branch)
    return (await at.do(request)).notes


async def test_statistics_are_told(project: Project):
    async with at_desk(project) as at:
        row = await made(at)
        stats = await at.do(ReadStats(worktree_id=row.id))
        assert stats == WorktreeStats(files=1, added=1, removed=0, uncommitted=1)
        with pytest.raises(CommandRejected, match="No such worktree"):
            await at.do(ReadStats(worktree_id="nowhere"))


async def test_a_worktree_that_calls_itself_another_does_not_take_its_place(project: Project):
    """Whoever works in one can write what is noted of it."""
    async with at_desk(project) as at:
        first = await worked(at)
        await at.completed(WRITES)
        (second,) = [row for row in await at.worktrees() if row.id != first.id]
        admin = project.path / ".git/worktrees"
        notes = [admin / Path(row.path).name / NOTE_OF_WORKTREE for row in (first, second)]
        shutil.copy(notes[0], notes[1])
        for request in (PlanApply, PlanRemoval, ReadStats, RecreateWorktree):
            with pytest.raises(CommandRejected, match="Several worktrees"):
                await at.do(request(worktree_id=first.id))


async def test_a_missing_worktree_is_a_state_and_can_be_made_again(project: Project):
    async with at_desk(project) as at:
        shown = await at.completed(DONE)
        session_id, place = shown.record.session_id, at.place(shown)
        (row,) = await at.worktrees()
        await at.supervisor.find(session_id).end()
        shutil.rmtree(place)
        (missing,) = await at.worktrees()
        assert (missing.id, missing.state) == (row.id, WorktreeState.MISSING)
        for act in (partial(at.supervisor.send, text="on"), at.supervisor.resume):
            with pytest.raises(CommandRejected, match="recreate its worktree, then resume it"):
                await act(session_id)
        assert at.watched.state(session_id) == "completed", "nothing has changed"
        assert not place.exists()
        await at.do(RecreateWorktree(worktree_id=row.id))
        await at.supervisor.send(session_id, "go on")
        await at.watched.result(session_id, "Done again.")


async def test_a_worktree_that_git_has_forgotten_too_is_known_by_its_session(project: Project):
    async with at_desk(project) as at:
        row = await worked(at, DONE)
        git(project.path, "worktree", "remove", "--force", row.path)
        (missing,) = await at.worktrees()
        assert (missing.id, missing.state, missing.branch) == (
            row.id,
            WorktreeState.MISSING,
            row.branch,
        )
        await at.do(RecreateWorktree(worktree_id=row.id))
        (again,) = await at.worktrees()
        assert (again.id, again.path, again.state) == (row.id, row.path, WorktreeState.READY)
        git(project.path, "worktree", "remove", "--force", row.path)
        git(project.path, "branch", "-qD", row.branch)
        (lost,) = await at.worktrees()
        assert lost.state is WorktreeState.LOST
        with pytest.raises(CommandRejected, match="were removed"):
            await at.do(RecreateWorktree(worktree_id=row.id))


async def test_finishing_with_a_message_commits_everything(project: Project):
    async with at_desk(project) as at:
        row = await made(at)
        done = await at.do(FinishWorktree(worktree_id=row.id, message="feat: one"))
        assert done.notes[0].startswith("Committed 1 file to agent/work")
        assert git(Path(row.path), "log", "-1", "--format=%s") == b"feat: one\n"
        with pytest.raises(CommandRejected, match="Nothing is left"):
            await at.do(FinishWorktree(worktree_id=row.id))


async def test_the_agent_is_asked_for_a_message(project: Project):
    for key in ("user.name", "user.email"):
        git(project.path, "config", key, "somebody")
    async with at_desk(project) as at:
        row = await worked(at, COMMITS)
        done = await at.do(FinishWorktree(worktree_id=row.id))
        assert done.notes == ("The agent committed to agent/write-it-now.",)
        assert git(Path(row.path), "log", "-1", "--format=%s") == b"feat: made it\n"
        assert git(Path(row.path), "status", "--porcelain") == b""


async def test_if_the_agent_does_not_commit_it_is_done_for_it(
    project: Project, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(finishing, "BETWEEN_LOOKS", 0.05)
    async with at_desk(project) as at:
        row = await worked(at)
        await at.do(FinishWorktree(worktree_id=row.id))
        assert git(Path(row.path), "log", "-1", "--format=%s") == b"chore: Write it now\n"


async def test_what_was_planned_is_applied_and_nothing_else(project: Project):
    async with at_desk(project) as at:
        row = await made(at)
        plan = await at.do(PlanApply(worktree_id=row.id))
        assert plan.paths == ("made.txt",)
        put(Path(row.path), {"later.txt": b"later\n"})
        for token in (plan.token, "", "x"):
            with pytest.raises(CommandRejected):
                await at.do(ApplyWorktree(worktree_id=row.id, token=token))
        assert not (project.path / "made.txt").exists()
        plan = await at.do(PlanApply(worktree_id=row.id, paths=("made.txt",)))
        await at.do(ApplyWorktree(worktree_id=row.id, paths=("made.txt",), token=plan.token))
        assert (project.path / "made.txt").read_text() == "one\n"
        assert not (project.path / "later.txt").exists()


async def test_conflicts_are_part_of_the_plan(project: Project):
    async with at_desk(project) as at:
        row = await made(at)
        put(project.path, {"made.txt": b"mine\n"})
        plan = await at.do(PlanApply(worktree_id=row.id))
        assert (plan.conflicts, plan.paths, plan.token) == (("made.txt",), (), "")
        assert (project.path / "made.txt").read_bytes() == b"mine\n"


async def test_a_finished_branch_is_merged(project: Project):
    async with at_desk(project) as at:
        row = await made(at)
        with pytest.raises(CommandRejected, match="finish it first"):
            await at.do(MergeWorktree(worktree_id=row.id))
        await at.do(FinishWorktree(worktree_id=row.id, message="feat: one"))
        done = await at.do(MergeWorktree(worktree_id=row.id))
        assert done.notes == ("agent/work was merged into main.",)
        assert (project.path / "made.txt").read_text() == "one\n"


async def test_removing_stops_whoever_works_there_and_keeps_what_is_not_committed(
    project: Project,
):
    write(project, "run-script", "echo $$ > pid; sleep 600\n")
    async with at_desk(project) as at:
        (session_id,) = (await at.start(SPEAKS_LONG)).session_ids
        await at.watched.at(session_id, "streaming")
        (row,) = await at.worktrees()
        await at.do(RunScript(worktree_id=row.id))
        folder = Path(row.path)
        await until(lambda: (folder / "pid").exists() and (folder / "pid").read_text() != "")
        pid = int((folder / "pid").read_text())
        put(folder, {"new.txt": b"precious\n"})
        plan = await at.do(PlanRemoval(worktree_id=row.id))
        assert "Will be stopped first: Write it now, its run script." in plan.text
        assert plan.paths == ("new.txt", "pid")
        put(folder, {"another.txt": b"came later\n"})
        with pytest.raises(CommandRejected, match="changed since"):
            await at.do(RemoveWorktree(worktree_id=row.id, token=plan.token))
        assert at.watched.state(session_id) == "streaming"
        (kept,) = await removed(at, row)
        assert "is saved as refs/rookery/keep/" in kept
        assert [each.state for each in await at.worktrees()] == []
        assert at.watched.state(session_id) == "stopped"
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        (work,) = await at.do(ListKept())
        back = await at.do(BringBack(ref=work.ref, branch="again"))
        assert (Path(back.path) / "new.txt").read_bytes() == b"precious\n"
        place = project.path / ".roo/worktrees"
        await until(lambda: [each.name for each in place.iterdir()] == ["again"])


async def test_a_session_of_a_removed_worktree_can_be_read_but_not_resumed(project: Project):
    async with at_desk(project) as at:
        shown = await at.completed(DONE)
        (row,) = await at.worktrees()
        notes = await removed(at, row, delete_branch=True)
        assert notes == ("The branch agent/write-it-now was deleted.",)
        with pytest.raises(CommandRejected, match=r"was removed\. The session can be read; start"):
            await at.supervisor.send(shown.record.session_id, "go on")
        assert at.watched.state(shown.record.session_id) == "completed"
        assert await at.worktrees() == ()


async def test_where_the_work_of_a_removed_version_is_kept_is_told_wherever_one_looks(
    project: Project,
):
    async with at_desk(project) as at:
        (session_id, other) = (await at.start(WRITES, versions=2)).session_ids
        await at.watched.at(session_id, "completed")
        await at.watched.at(other, "completed")
        row = next(each for each in await at.worktrees() if session_id in each.sessions)
        await removed(at, row)
        (kept,) = await at.do(ListKept())
        told = f"bring-back {kept.ref} BRANCH"
        look = ReadDiff(session_id=session_id, path="made.txt")
        for act in (
            partial(at.supervisor.send, session_id, "on"),
            partial(at.supervisor.resume, session_id),
            partial(at.do, look),
        ):
            with pytest.raises(CommandRejected, match="was removed") as refused:
                await act()
            assert told in str(refused.value)
        review = await at.do(ReviewChanges(session_id=session_id))
        own = await at.do(ReviewChanges(session_id=session_id, scope="session"))
        assert told in review.notes[0]
        assert told in own.notes[0]
        group = at.supervisor.find(session_id).record.group_id
        versions = {v.session_id: v for v in await at.do(CompareVersions(group_id=group))}
        assert told in versions[session_id].note
        assert versions[other].note == ""
        assert {each.session_id for each in at.supervisor.inbox()} == {other}


async def test_one_that_cannot_be_stopped_keeps_its_worktree(
    project: Project, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(finishing, "SECONDS_TO_STOP", 0.05)
    async with at_desk(project) as at:
        row = await worked(at)
        session = at.supervisor.find(row.sessions[0])
        monkeypatch.setattr(type(session), "end", lambda self: anyio.sleep_forever())
        with pytest.raises(CommandRejected, match="could not be stopped"):
            await removed(at, row)
        monkeypatch.undo()
        assert (Path(row.path) / "made.txt").exists()
        assert [each.state for each in await at.worktrees()] == [WorktreeState.READY]


async def test_nothing_begins_in_a_worktree_that_is_on_its_way_out(project: Project):
    async with at_desk(project) as at:
        row = await worked(at, DONE)
        shown = at.supervisor.session(row.sessions[0])
        assert shown
        assert at.supervisor.ready_to_run(shown.record) is None
        access = at.supervisor.ready_to_run.__self__  # type: ignore[attr-defined]
        access.closed.add(row.path)
        assert "being removed" in (at.supervisor.ready_to_run(shown.record) or "")


async def test_a_removal_that_was_broken_off_is_ended_at_the_next_opening(project: Project):
    async with at_desk(project) as at:
        row = await worked(at)
    os.rename(row.path, f"{os.path.dirname(row.path)}/.removing-agent-write-it-now-0")
    async with at_desk(project) as at:
        await at.shows(lambda _: bool(at.supervisor.notices))
        (notice,) = at.supervisor.notices
        assert "is saved as refs/rookery/keep/" in notice
        assert [each.state for each in await at.worktrees()] == [WorktreeState.MISSING]


async def test_branches_and_worktrees_are_imported(project: Project, tmp_path: Path):
    git(project.path, "branch", "topic")
    git(project.path, "branch", "other")
    git(project.path, "worktree", "add", "-q", str(tmp_path / "mine"), "other")
    async with at_desk(project) as at:
        assert await at.do(ListBranches()) == ("main", "other", "topic")
        found = await at.do(ListImportable())
        assert (found.branches, found.worktrees) == (("topic",), (str(tmp_path / "mine"),))
        topic = await at.do(ImportWork(branch="topic"))
        mine = await at.do(ImportWork(folder=str(tmp_path / "mine")))
        assert (topic.branch, topic.imported, mine.branch, mine.imported) == (
            *("topic", False),
            *("other", True),
        )
        for wrong in (ImportWork(), ImportWork(branch="a", folder="b"), ImportWork(folder="b")):
            with pytest.raises(CommandRejected):
                await at.do(wrong)
        await removed(at, mine)
        assert (tmp_path / "mine" / "a.txt").exists()


async def test_the_run_script_runs_once_and_is_stopped_with_all_it_started(project: Project):
    write(project, "run-script", 'sleep 600 & echo "$! $WORKTREE_PORT" > pid; wait\n')
    async with at_desk(project) as at:
        row = await made(at)
        await at.do(RunScript(worktree_id=row.id))
        file = Path(row.path) / "pid"
        await until(lambda: file.exists() and file.read_text().endswith("\n"))
        pid, port = map(int, file.read_text().split())
        assert port == row.first_port
        assert [each.running for each in await at.worktrees()] == [True]
        with pytest.raises(CommandRejected, match="already running"):
            await at.do(RunScript(worktree_id=row.id))
        await at.do(StopScript(worktree_id=row.id))
        assert [each.running for each in await at.worktrees()] == [False]
        await until(lambda: not _runs(pid))
        await at.do(StopScript(worktree_id=row.id))


async def test_a_run_script_outlives_the_manager_and_is_found_again(project: Project):
    write(project, "run-script", "touch runs; sleep 600\n")
    async with at_desk(project) as at:
        row = await made(at)
        await at.do(RunScript(worktree_id=row.id))
        await until((Path(row.path) / "runs").exists)
    async with at_desk(project) as at:
        assert [each.running for each in await at.worktrees()] == [True]
        await at.do(StopScript(worktree_id=row.id))
        assert [each.running for each in await at.worktrees()] == [False]


async def test_a_run_script_that_ends_by_itself_is_not_running(project: Project):
    write(project, "run-script", "echo said; exit 1\n")
    async with at_desk(project) as at:
        row = await made(at)
        (told,) = (await at.do(RunScript(worktree_id=row.id))).notes
        log = Path(told.removeprefix("Its output goes to ").removesuffix("."))
        await until(lambda: log.read_text() == "said\n")
        with anyio.fail_after(PATIENCE):
            while (await at.worktrees())[0].running:  # noqa: ASYNC110 (it tells nobody)
                await anyio.sleep(0.01)
        await at.do(RunScript(worktree_id=row.id))


async def test_a_run_script_that_nobody_has_agreed_to_is_not_run(project: Project):
    async with at_desk(project) as at:
        row = await made(at)
        with pytest.raises(CommandRejected, match="The project has no"):
            await at.do(RunScript(worktree_id=row.id))
        write(project, "run-script", "touch ran\n", agreed=False)
        with pytest.raises(CommandRejected, match="You have not agreed"):
            await at.do(RunScript(worktree_id=row.id))
        assert not (Path(row.path) / "ran").exists()


def test_an_agreement_is_to_the_text_that_was_shown_and_no_other(project: Project):
    write(project, "run-script", "echo one\n", agreed=False)
    agreed = AgreedScripts(project.path, project.places)
    (offered,) = agreed.offered()
    assert (offered.name, offered.script.text, offered.agreed) == (
        *("run-script", "echo one\n"),
        False,
    )
    write(project, "run-script", "echo two\n", agreed=False)
    with pytest.raises(CommandRejected, match="look again"):
        agreed.agree_to(offered.script.digest)
    write(project, "run-script", "echo one\n")
    assert [each.agreed for each in agreed.offered()] == [True]
    write(project, "run-script", "echo two\n", agreed=False)
    assert [each.agreed for each in agreed.offered()] == [False]
    elsewhere = AgreedScripts(project.folder, project.places)
    put(project.folder, {".roo/run-script": b"echo one\n"})
    assert [each.agreed for each in elsewhere.offered()] == [False]


@pytest.mark.parametrize("point", ["manager.script_spawned", "manager.script_marked"])
async def test_a_script_whose_manager_is_killed_before_it_is_let_go_does_not_run(
    project: Project, point: str
):
    write(project, "run-script", "touch ran; sleep 600\n")
    async with at_desk(project) as at:
        row = await made(at)
    killed(project, RunScript(worktree_id=row.id), point)
    await project.quiet()
    assert "ran" not in os.listdir(row.path)
    async with at_desk(project) as at:
        assert [each.running for each in await at.worktrees()] == [False]


async def test_a_project_that_is_not_trusted_is_not_looked_at(project: Project):
    TrustStore(project.places.trust_file).forget(project.path)
    async with at_desk(project) as at:
        for request in (ListBranches(), ListImportable(), ListKept(), ImportWork(branch="main")):
            with pytest.raises(CommandRejected, match="not trusted"):
                await at.do(request)


async def test_without_a_repository_the_reason_is_said(tmp_path: Path):
    bare = Project(tmp_path)
    async with at_desk(bare) as at:
        with pytest.raises(CommandRejected, match="not the root of a git repository"):
            await at.worktrees()
        with pytest.raises(CommandRejected, match="not the root of a git repository"):
            await at.start()
        assert at.supervisor.all() == []
    assert os.listdir(bare.path) == []


def _runs(pid: int) -> bool:
    try:
        said = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return False
    return said[0] != "Z"
