"""Sessions in their own worktrees, and several versions of one session."""

import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from rookery.errors import CommandRejected, StorageError
from rookery.manager.requests import (
    AgreeScript,
    ImportWork,
    ListBranches,
    ListImportable,
    ListKept,
    ListScripts,
    ReadDiff,
    RevertFile,
    ReviewChanges,
    TrustProject,
)
from rookery.manager.sessions.session_folders import SessionFolders
from rookery.manager.sessions.session_record import ParallelMode
from rookery.manager.sessions.session_summary import SessionSummary
from rookery.permissions.trust import TrustStore
from support.manager_project import SPEAKS_LONG, WRITES, Project
from support.text_process import PLAINLY
from support.worktree_folders import git, put
from support.worktree_requests import (
    DONE,
    WorktreeManager,
    until,
    with_repository,
    worktree_manager,
    write,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def project(project: Project) -> Project:
    return with_repository(project)


async def test_a_session_works_in_the_project_or_in_a_worktree_named_by_its_prompt(
    project: Project,
):
    async with worktree_manager(project) as at:
        shown = await at.completed()
        own = shown.record.parallel_mode
        assert own
        assert (own.branch, own.parent_branch) == ("agent/write-it-now", "main")
        folder = project.path / ".roo/worktrees/agent-write-it-now"
        assert own.worktree_path == str(folder)
        assert (folder / "made.txt").read_text() == "one\n"
        assert not (project.path / "made.txt").exists()
        (row,) = await at.worktrees()
        assert (row.id, row.sessions) == (shown.record.worktree_id, (shown.record.session_id,))
        assert git(project.path, "status", "--porcelain") == b""
        local = await at.completed(where="local")
        assert local.record.parallel_mode is None
        assert (project.path / "made.txt").read_text() == "one\n"
        assert len(await at.worktrees()) == 1
        branches = {"": "agent/write-it-now-2", "Feature/Big Thing!": "feature/big-thing"}
        for said, branch in branches.items():
            mode = (await at.completed(DONE, branch=said)).record.parallel_mode
            assert mode
            assert mode.branch == branch


async def test_a_session_process_gets_its_worktree_and_trust(project: Project):
    project.environ |= PLAINLY
    async with worktree_manager(project) as at:
        (session_id,) = (await at.start(SPEAKS_LONG)).session_ids
        shown = await at.watched.at(session_id, "streaming")
        assert shown.record.pid
        environ = project.environ_of(shown.record.pid)
        (row,) = await at.worktrees()
        assert f"WORKTREE_PATH={row.path}" in environ
        assert f"REPO_PATH={project.path}" in environ
        assert f"WORKTREE_PORT={row.first_port}" in environ
        assert " --trust" in project.processes()[shown.record.pid]
        assert not TrustStore(project.places.trust_file).trusts(Path(row.path))


async def test_git_and_sessions_do_not_run_in_an_untrusted_project(project: Project):
    store = TrustStore(project.places.trust_file)
    store.forget(project.path)
    git_requests = (ListBranches(), ListImportable(), ListKept(), ImportWork(branch="main"))
    async with worktree_manager(project) as at:
        for path in ("", str(project.path.parent), f"{project.path}/"):
            with pytest.raises(CommandRejected, match="Nothing was trusted"):
                await at.do(TrustProject(path=path))
        with pytest.raises(CommandRejected, match="not trusted, so nothing was started"):
            await at.start(DONE)
        for request in git_requests:
            with pytest.raises(CommandRejected, match="not trusted"):
                await at.do(request)
        assert (store.trusts(project.path), at.supervisor.all()) == (False, [])
        assert not (project.path / ".roo").exists()
        await at.do(TrustProject(path=str(project.path)))
        assert store.trusts(project.path)
        local = (await at.completed(where="local")).record.session_id
        session_id = (await at.completed()).record.session_id
        await at.supervisor.find(session_id).end()
        store.forget(project.path)
        with pytest.raises(CommandRejected, match="no longer trusted"):
            await at.supervisor.send(session_id, "go on")
        assert at.watched.state(session_id) == "completed"
        for each in (local, session_id):
            for request in (
                ReviewChanges(session_id=each),
                ReadDiff(session_id=each, path="made.txt"),
                RevertFile(session_id=each, path="made.txt", digest=""),
            ):
                with pytest.raises(CommandRejected, match="not trusted"):
                    await at.do(request)
            assert (await at.do(ReviewChanges(session_id=each, scope="session"))).files
        store.trust(project.path)
        await at.supervisor.send(session_id, "go on")
        await at.watched.result(session_id, "Done again.")


async def test_joining_an_existing_branch_names_the_sessions_that_use_it(project: Project):
    git(project.path, "branch", "topic")
    async with worktree_manager(project) as at:
        (first,) = (await at.start(SPEAKS_LONG, branch="topic")).session_ids
        second = await at.completed(DONE, branch="topic")
        (row,) = await at.worktrees()
        started = await at.start(DONE, where="local", worktree_id=row.id)
        assert started.notes == ("Other sessions work in the same folder: Write it now.",)
        third = await at.watched.at(started.session_ids[0], "completed")
        assert {at.place(second), at.place(third)} == {Path(row.path)}
        (row,) = await at.worktrees()
        assert (row.branch, len(row.sessions), first in row.sessions) == ("topic", 3, True)
        with pytest.raises(CommandRejected, match="several versions need a new branch"):
            await at.start(branch="topic", versions=2)


async def test_only_an_approved_set_up_script_runs_and_its_processes_end(project: Project):
    put(project.path, {".env": b"KEY=1\n"})
    write(project, "setup-script", "touch ran\n")
    write(project, "setup-script", "touch ran; touch other\n", agreed=False)
    async with worktree_manager(project) as at:
        started = await at.start(DONE)
        shown = await at.watched.at(started.session_ids[0], "completed")
        assert not (at.place(shown) / "ran").exists()
        assert started.notes == (
            ".rookery/setup-script was not run, because you have not agreed to it as "
            "it is now: rookery sessions worktrees scripts",
        )
        (row,) = await at.do(ListScripts())
        known = (row.name, row.path, row.text, row.agreed)
        assert known == (
            *("setup-script", ".rookery/setup-script", "touch ran; touch other\n"),
            False,
        )
        says = 'echo "in $WORKTREE_PATH"; printf "\\033[1mred\\n"'
        text = f"sleep 600 & echo $! > pid; {says}; exit 3\n"
        write(project, "setup-script", text, agreed=False)
        with pytest.raises(CommandRejected, match="look again"):
            await at.do(AgreeScript(digest=row.digest))
        (row,) = await at.do(ListScripts())
        await at.do(AgreeScript(digest=row.digest))
        assert [each.agreed for each in await at.do(ListScripts())] == [True]
        started = await at.start(DONE)
        shown = await at.watched.at(started.session_ids[0], "completed")
        assert (at.place(shown) / ".env").read_text() == "KEY=1\n"
        failed = "The set-up script ended with status 3."
        assert shown.record.logs[:3] == (f"in {at.place(shown)}", "\\x1b[1mred", failed)
        assert started.notes == (failed,)
        pid = int((at.place(shown) / "pid").read_text())
        assert pid not in project.processes()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_versions_are_set_up_two_at_a_time_each_with_its_model(project: Project):
    write(
        project,
        "setup-script",
        'mkdir "../on-$$"; until [ -e ../met ]; do sleep 0.01; '
        "set -- ../on-*; [ $# = 1 ] || touch ../met; done; "
        'sleep 0.1; set -- ../on-*; echo $#; rmdir "../on-$$"\n',
    )
    async with worktree_manager(project) as at:
        models = [f"scripted/{project.start_options(DONE).model}" for _ in range(3)]
        started = await at.start(WRITES, versions=4, models=tuple(models))
        assert (len(started.session_ids), started.failed) == (4, ())
        shown = [await at.watched.at(each, "completed") for each in started.session_ids]
        name, branch = "Write it now", "agent/write-it-now"
        assert [each.record.label for each in shown] == [name, *(f"{name} v{n}" for n in (2, 3, 4))]
        assert [f"scripted/{each.record.model}" for each in shown[:3]] == models
        assert shown[3].record.model not in models
        branches = [each.record.parallel_mode.branch for each in shown if each.record.parallel_mode]
        assert branches == [branch, *(f"{branch}_v{n}" for n in (2, 3, 4))]
        (group,) = {each.record.group_id for each in shown}
        assert {row.group_id for row in await at.worktrees()} == {group}
        made = [(at.place(each) / "made.txt").exists() for each in shown]
        assert made == [False, False, False, True]
        assert max(int(each.record.logs[0]) for each in shown) == 2


async def test_a_failed_version_does_not_stop_the_others(project: Project):
    put(project.path, {".git/refs/heads/agent/write-it-now_v2.lock": b""})
    async with worktree_manager(project) as at:
        honest = at.supervisor.preparations.launch

        def full(session_id: str, **more: Any) -> None:
            if more["parallel_mode"].branch.endswith("_v3"):
                raise StorageError("The disk is full.")
            honest(session_id, **more)

        at.supervisor.preparations.launch = full  # type: ignore[method-assign]
        started = await at.start(DONE, versions=3)
        assert len(started.session_ids) == 1
        assert started.notes == ("1 of 3 versions have started.",)
        why, full_disk = started.failed
        assert "agent/write-it-now_v2 could not be created" in why
        assert full_disk == "The disk is full."
        shown = {each.record.label: each for each in at.supervisor.all()}
        failure = shown["Write it now v2"].record.failure
        assert failure
        assert failure.text == why
        assert [row.branch for row in await at.worktrees()] == ["agent/write-it-now"]


async def test_a_start_with_no_successful_version_fails_and_leaves_nothing(project: Project):
    refused = [
        *((f"1 to 4 versions, not {n}. Nothing was", {"versions": n}) for n in (-1, 0, 5)),
        *(("No such branch: nowhere", {"base": "nowhere", "versions": n}) for n in (1, 3)),
        ("Give a task", {"prompt": " "}),
    ]
    async with worktree_manager(project) as at:
        for why, given in refused:
            with pytest.raises(CommandRejected, match=why):
                await at.start(**given)
        assert at.supervisor.all() == []
        assert await at.worktrees() == ()


async def start_and_fail(at: WorktreeManager, why: str = "cancelled before it started.$") -> None:
    with pytest.raises(CommandRejected, match=why):
        await at.start()


async def waits(at: WorktreeManager) -> SessionSummary:
    """A session whose set-up script runs and does not end."""
    shown = await at.shows(lambda all_: any("waits" in s.record.logs for s in all_))
    return next(each for each in shown if "waits" in each.record.logs)


async def test_a_session_in_preparation_shows_steps_and_can_be_cancelled(project: Project):
    write(project, "setup-script", "while true; do echo waits; sleep 0.01; done\n")
    async with worktree_manager(project) as at:
        steps: list[str] = []
        honest = at.supervisor.preparations.set_step

        def received(session_id: str, step: str) -> None:
            steps.append(step)
            honest(session_id, step)

        at.supervisor.preparations.set_step = received  # type: ignore[method-assign]
        async with anyio.create_task_group() as group:
            group.start_soon(start_and_fail, at)
            shown = await waits(at)
            assert (shown.record.state, shown.step) == ("creating", "setup")
            await at.supervisor.cancel(shown.record.session_id)
        assert steps == ["syncing", "verifying", "fetching", "creating", "setup"]
        async with anyio.create_task_group() as group:
            group.start_soon(start_and_fail, at)
            await at.supervisor.remove((await waits(at)).record.session_id)
        await until(lambda: not any((project.path / ".roo/worktrees").iterdir()))
        assert at.supervisor.all() == []
        assert await at.worktrees() == ()
        assert git(project.path, "branch", "--format=%(refname:short)") == b"main\n"
        async with anyio.create_task_group() as group:
            group.start_soon(start_and_fail, at, "stays in the list")
            session_id = (await waits(at)).record.session_id
            await at.supervisor.send(session_id, "Mind the tabs.")
            await at.supervisor.cancel(session_id)
        (left,) = at.supervisor.all()
        assert left.record.state == "stopped"
        assert [each.message.text for each in left.undelivered] == ["Mind the tabs."], (
            "queued messages are kept"
        )
        assert await at.worktrees() == ()
    await until(lambda: project.processes() == {})


async def test_a_cancelled_version_does_not_cancel_the_others(project: Project):
    write(project, "setup-script", "echo waits; while [ ! -e go ]; do sleep 0.05; done\n")
    async with worktree_manager(project) as at, anyio.create_task_group() as group:
        ended: list[tuple[str, ...]] = []

        async def start() -> None:
            started = await at.start(DONE, versions=2)
            ended.append(started.failed)

        group.start_soon(start)
        first, second = await at.shows(
            lambda all_: len(all_) == 2 and all("waits" in s.record.logs for s in all_)
        )
        await at.supervisor.cancel(first.record.session_id)
        place = next(p for p in (project.path / ".roo/worktrees").iterdir() if "v2" in p.name)
        if not second.record.label.endswith("v2"):
            place = project.path / ".roo/worktrees/agent-write-it-now"
        (place / "go").touch()
        await at.watched.at(second.record.session_id, "completed")
        await until(lambda: bool(ended))
        assert ended == [("It was cancelled before it started.",)]


async def test_closing_the_page_does_not_stop_a_session_from_starting(project: Project):
    write(project, "setup-script", "echo waits; while [ ! -e ../go ]; do sleep 0.05; done\n")
    async with worktree_manager(project) as at:
        async with anyio.create_task_group() as page:
            page.start_soon(at.start)
            shown = await waits(at)
            page.cancel_scope.cancel()
        (project.path / ".roo/worktrees/go").touch()
        await at.watched.at(shown.record.session_id, "completed")


async def test_a_session_whose_worktree_was_never_created_does_not_run(project: Project):
    """As after a kill during preparation."""
    async with worktree_manager(project) as at:
        apart = project.start_options(DONE, parallel_mode=ParallelMode())
        session_id = await at.supervisor.start(apart)
        shown = await at.watched.at(session_id, "error")
        assert shown.record.failure
        assert "never created" in shown.record.failure.text
        folder = SessionFolders(project.places).of(session_id)
        assert folder.mark() is None


async def test_a_set_up_script_that_kills_its_parent_ends_no_other_session(project: Project):
    write(
        project,
        "setup-script",
        "echo waits; while [ ! -e ../go ]; do sleep 0.05; done; sleep 600 & kill -9 $PPID\n",
    )
    async with worktree_manager(project) as at, anyio.create_task_group() as group:
        group.start_soon(at.start)
        (first,) = await at.shows(lambda all_: any("waits" in s.record.logs for s in all_))
        other = await at.supervisor.start(project.start_options(SPEAKS_LONG))
        before = await at.watched.at(other, "streaming")
        (project.path / ".roo/worktrees/go").touch()
        shown = await at.watched.at(first.record.session_id, "completed")
        assert shown.record.logs[1] == "The set-up script ended with an unknown status."
        assert before.record.pid in project.processes()
        assert at.watched.state(other) == "streaming"
