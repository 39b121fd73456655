"""Sessions in worktrees of their own, and several versions of one."""

import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from rookery.errors import CommandRejected, StorageError
from rookery.manager.requests import (
    StartSessions,
    TrustProject,
)
from rookery.manager.sessions.session_folders import SessionFolders
from rookery.manager.sessions.session_record import ParallelMode
from rookery.manager.worktree_requests import (
    AgreeScript,
    ListScripts,
)
from rookery.permissions.trust import TrustStore
from support.manager_project import SPEAKS_LONG, WRITES, Project
from support.text_process import PLAINLY
from support.worktree_folders import git, put
from support.worktree_requests import DONE, AtDesk, at_desk, until, with_repository, write

pytestmark = pytest.mark.anyio


@pytest.fixture
def project(project: Project) -> Project:
    return with_repository(project)


async def test_a_local_session_works_in_the_project(project: Project):
    async with at_desk(project) as at:
        shown = await at.completed(where="local")
        assert shown.record.parallel_mode is None
        assert (project.path / "made.txt").read_text() == "one\n"
        assert await at.worktrees() == ()


async def test_a_session_begins_in_a_worktree_on_a_branch_named_by_its_prompt(
    project: Project,
):
    async with at_desk(project) as at:
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


async def test_its_process_knows_where_it_is_and_that_it_may_work_there(project: Project):
    project.environ |= PLAINLY
    async with at_desk(project) as at:
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


async def test_nothing_is_asked_of_git_in_a_folder_that_is_not_trusted(project: Project):
    TrustStore(project.places.trust_file).forget(project.path)
    async with at_desk(project) as at:
        with pytest.raises(CommandRejected, match="not trusted"):
            await at.start()
        assert at.supervisor.all() == []
    assert not (project.path / ".roo").exists()


async def test_trust_that_was_taken_back_is_asked_for_again_before_the_next_process(
    project: Project,
):
    async with at_desk(project) as at:
        shown = await at.completed(DONE)
        session_id = shown.record.session_id
        await at.supervisor.find(session_id).end()
        TrustStore(project.places.trust_file).forget(project.path)
        with pytest.raises(CommandRejected, match="no longer trusted"):
            await at.supervisor.send(session_id, "go on")
        assert at.watched.state(session_id) == "completed"
        TrustStore(project.places.trust_file).trust(project.path)
        await at.supervisor.send(session_id, "go on")
        await at.watched.result(session_id, "Done again.")


async def test_names_that_are_taken_get_a_number(project: Project):
    async with at_desk(project) as at:
        branches = [(await at.completed(DONE)).record.parallel_mode for _ in range(2)]
        assert [each.branch for each in branches if each] == [
            "agent/write-it-now",
            "agent/write-it-now-2",
        ]
        named = await at.completed(DONE, branch="Feature/Big Thing!")
        assert named.record.parallel_mode
        assert named.record.parallel_mode.branch == "feature/big-thing"


async def test_an_existing_branch_is_worked_on_and_joined(project: Project):
    git(project.path, "branch", "topic")
    async with at_desk(project) as at:
        first = await at.completed(DONE, branch="topic")
        second = await at.completed(DONE, branch="topic")
        assert at.place(first) == at.place(second)
        (row,) = await at.worktrees()
        third = await at.completed(DONE, where="local", worktree_id=row.id)
        assert at.place(third) == at.place(first)
        (row,) = await at.worktrees()
        assert (row.branch, len(row.sessions)) == ("topic", 3)
        with pytest.raises(CommandRejected, match="several versions need a new branch"):
            await at.start(branch="topic", versions=2)


async def test_whoever_joins_is_told_who_works_there(project: Project):
    async with at_desk(project) as at:
        await at.start(SPEAKS_LONG)
        (row,) = await at.worktrees()
        started = await at.start(DONE, worktree_id=row.id)
        assert started.notes == ("Other sessions work in the same folder: Write it now.",)


async def test_the_set_up_script_runs_first_and_its_words_are_in_the_log(project: Project):
    put(project.path, {".env": b"KEY=1\n"})
    write(project, "setup-script", 'echo "in $WORKTREE_PATH"; printf "\\033[1mred\\n"; exit 3\n')
    async with at_desk(project) as at:
        started = await at.start()
        shown = await at.watched.at(started.session_ids[0], "completed")
        assert (at.place(shown) / ".env").read_text() == "KEY=1\n"
        assert shown.record.logs[:3] == (
            f"in {at.place(shown)}",
            "\\x1b[1mred",
            "The set-up script ended with status 3.",
        )
        assert started.notes == ("The set-up script ended with status 3.",)


async def test_a_project_is_trusted_by_its_very_path_before_anything_starts(
    project: Project,
):
    store = TrustStore(project.places.trust_file)
    store.forget(project.path)
    async with at_desk(project) as at:
        for path in ("", str(project.path.parent), f"{project.path}/"):
            with pytest.raises(CommandRejected, match="Nothing was trusted"):
                await at.do(TrustProject(path=path))
        with pytest.raises(CommandRejected, match="not trusted, so nothing was started"):
            await at.start(DONE)
        assert (store.trusts(project.path), at.supervisor.all()) == (False, [])
        await at.do(TrustProject(path=str(project.path)))
        assert store.trusts(project.path)
        await at.completed(DONE)


async def test_what_was_shown_and_agreed_to_runs_until_it_is_another(project: Project):
    write(project, "setup-script", "touch ran\n", agreed=False)
    async with at_desk(project) as at:
        (row,) = await at.do(ListScripts())
        assert (row.name, row.path, row.text) == (
            "setup-script",
            ".rookery/setup-script",
            "touch ran\n",
        )
        assert not row.agreed
        write(project, "setup-script", "touch other\n", agreed=False)
        with pytest.raises(CommandRejected, match="look again"):
            await at.do(AgreeScript(digest=row.digest))
        (row,) = await at.do(ListScripts())
        await at.do(AgreeScript(digest=row.digest))
        assert [each.agreed for each in await at.do(ListScripts())] == [True]
        assert (at.place(await at.completed(DONE)) / "other").exists()


async def test_a_script_that_nobody_has_agreed_to_is_not_run(project: Project):
    write(project, "setup-script", "touch ran\n")
    write(project, "setup-script", "touch ran; touch other\n", agreed=False)
    async with at_desk(project) as at:
        started = await at.start(DONE)
        shown = await at.watched.at(started.session_ids[0], "completed")
        assert not (at.place(shown) / "ran").exists()
        assert started.notes == (
            (
                ".rookery/setup-script was not run, because you have not agreed to it as "
                "it is now: rookery sessions worktrees scripts"
            ),
        )


async def test_versions_begin_side_by_side_each_with_its_model(project: Project):
    async with at_desk(project) as at:
        models = [f"scripted/{project.wish(DONE).model}" for _ in range(2)]
        started = await at.start(WRITES, versions=3, models=tuple(models))
        assert (len(started.session_ids), started.failed) == (3, ())
        shown = [await at.watched.at(each, "completed") for each in started.session_ids]
        assert [each.record.label for each in shown] == [
            "Write it now",
            "Write it now v2",
            "Write it now v3",
        ]
        assert [f"scripted/{each.record.model}" for each in shown[:2]] == models
        assert shown[2].record.model not in models
        branches = [each.record.parallel_mode.branch for each in shown if each.record.parallel_mode]
        assert branches == ["agent/write-it-now", "agent/write-it-now_v2", "agent/write-it-now_v3"]
        (group,) = {each.record.group_id for each in shown}
        assert {row.group_id for row in await at.worktrees()} == {group}
        assert [(at.place(each) / "made.txt").exists() for each in shown] == [False, False, True]


async def test_a_version_that_cannot_be_made_does_not_keep_the_others(project: Project):
    put(project.path, {".git/refs/heads/agent/write-it-now_v2.lock": b""})
    async with at_desk(project) as at:
        started = await at.start(DONE, versions=3)
        assert len(started.session_ids) == 2
        assert started.notes == ("2 of 3 versions have started.",)
        (why,) = started.failed
        assert "agent/write-it-now_v2 could not be created" in why
        shown = {each.record.label: each for each in at.supervisor.all()}
        failure = shown["Write it now v2"].session.failure
        assert failure
        assert failure.text == why
        assert len(await at.worktrees()) == 2


async def test_only_if_none_could_begin_it_is_an_error_and_nothing_is_left(project: Project):
    async with at_desk(project) as at:
        for versions in (1, 3):
            with pytest.raises(CommandRejected, match="No such branch: nowhere"):
                await at.start(versions=versions, base="nowhere")
        assert at.supervisor.all() == []
        assert await at.worktrees() == ()
        with pytest.raises(CommandRejected, match="Give a task"):
            await at.do(StartSessions(prompt=" ", where="worktree"))


@pytest.mark.parametrize("versions", [-1, 0, 5])
async def test_no_other_number_of_versions_is_started_than_was_asked_for(
    project: Project, versions: int
):
    async with at_desk(project) as at:
        with pytest.raises(CommandRejected, match=f"1 to 4 versions, not {versions}. Nothing was"):
            await at.start(versions=versions)
        assert at.supervisor.all() == []


async def start_in_vain(at: AtDesk, why: str = "cancelled before it started.$") -> None:
    with pytest.raises(CommandRejected, match=why):
        await at.start()


async def test_steps_are_shown_while_it_is_prepared_and_it_can_be_cancelled(project: Project):
    write(project, "setup-script", "echo waits; while [ ! -e go ]; do sleep 0.05; done\n")
    async with at_desk(project) as at:
        steps: list[str] = []
        honest = at.supervisor.preparations.preparing

        def heard(session_id: str, step: str) -> None:
            steps.append(step)
            honest(session_id, step)

        at.supervisor.preparations.preparing = heard  # type: ignore[method-assign]
        async with anyio.create_task_group() as group:
            group.start_soon(start_in_vain, at)
            (shown,) = await at.shows(lambda all_: any("waits" in s.record.logs for s in all_))
            assert shown.session.state == "creating"
            assert shown.step == "setup"
            await at.supervisor.cancel(shown.record.session_id)
        assert steps == ["syncing", "verifying", "fetching", "creating", "setup"]
        assert at.supervisor.all() == []
        assert await at.worktrees() == ()
        assert git(project.path, "branch", "--format=%(refname:short)") == b"main\n"
    await until(lambda: project.processes() == {})


async def test_words_to_a_session_that_is_cancelled_while_it_is_prepared_are_kept(
    project: Project,
):
    write(project, "setup-script", "echo waits; while [ ! -e go ]; do sleep 0.05; done\n")
    async with at_desk(project) as at:
        async with anyio.create_task_group() as group:
            group.start_soon(start_in_vain, at, "stays in the list")
            (shown,) = await at.shows(lambda all_: any("waits" in s.record.logs for s in all_))
            await at.supervisor.send(shown.record.session_id, "Mind the tabs.")
            await at.supervisor.cancel(shown.record.session_id)
        (left,) = at.supervisor.all()
        assert left.session.state == "stopped"
        assert [mail.letter.text for mail in left.mail] == ["Mind the tabs."]
        assert await at.worktrees() == ()


async def test_a_session_can_be_removed_while_it_is_prepared(project: Project):
    write(project, "setup-script", "while true; do echo waits; sleep 0.01; done\n")
    async with at_desk(project) as at, anyio.create_task_group() as group:
        group.start_soon(start_in_vain, at)
        (shown,) = await at.shows(lambda all_: any("waits" in s.record.logs for s in all_))
        await at.supervisor.remove(shown.record.session_id)
        await until(lambda: not any((project.path / ".roo/worktrees").iterdir()))
        assert at.supervisor.all() == []


async def test_a_session_that_cannot_be_kept_fails_and_the_manager_goes_on(project: Project):
    async with at_desk(project) as at:
        honest = at.supervisor.preparations.launch

        def full(session_id: str, **more: Any) -> None:
            if more["parallel_mode"].branch.endswith("_v2"):
                raise StorageError("The disk is full.")
            honest(session_id, **more)

        at.supervisor.preparations.launch = full  # type: ignore[method-assign]
        started = await at.start(DONE, versions=2)
        assert (len(started.session_ids), started.failed) == (1, ("The disk is full.",))
        assert [row.branch for row in await at.worktrees()] == ["agent/write-it-now"]


async def test_a_cancelled_version_does_not_cancel_the_others(project: Project):
    write(project, "setup-script", "echo waits; while [ ! -e go ]; do sleep 0.05; done\n")
    async with at_desk(project) as at, anyio.create_task_group() as group:
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


async def test_closing_the_page_does_not_keep_a_session_from_beginning(project: Project):
    write(project, "setup-script", "echo waits; while [ ! -e ../go ]; do sleep 0.05; done\n")
    async with at_desk(project) as at:
        async with anyio.create_task_group() as page:
            page.start_soon(at.start)
            (shown,) = await at.shows(lambda all_: any("waits" in s.record.logs for s in all_))
            page.cancel_scope.cancel()
        (project.path / ".roo/worktrees/go").touch()
        await at.watched.at(shown.record.session_id, "completed")


async def test_two_at_a_time_are_set_up(project: Project):
    write(
        project,
        "setup-script",
        'mkdir "../on-$$"; until [ -e ../met ]; do sleep 0.01; '
        "set -- ../on-*; [ $# = 1 ] || touch ../met; done; "
        'sleep 0.1; set -- ../on-*; echo $#; rmdir "../on-$$"\n',
    )
    async with at_desk(project) as at:
        started = await at.start(DONE, versions=4)
        shown = [at.supervisor.session(each) for each in started.session_ids]
        counts = [int(each.record.logs[0]) for each in shown if each]
        assert len(counts) == 4
        assert max(counts) == 2


async def test_a_session_whose_worktree_was_never_made_runs_nowhere(project: Project):
    """As after a kill while it was prepared."""
    async with at_desk(project) as at:
        apart = project.wish(DONE, parallel_mode=ParallelMode())
        session_id = await at.supervisor.start(apart)
        shown = await at.watched.at(session_id, "error")
        assert shown.session.failure
        assert "never created" in shown.session.failure.text
        folder = SessionFolders(project.places).of(session_id)
        assert folder.mark() is None


async def test_no_process_of_a_set_up_is_left(project: Project):
    write(project, "setup-script", "sleep 600 & echo $! > pid\n")
    async with at_desk(project) as at:
        shown = await at.completed(DONE)
        pid = int((at.place(shown) / "pid").read_text())
        assert pid not in project.processes()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_a_set_up_that_kills_its_warden_ends_nobody_else(project: Project):
    write(
        project,
        "setup-script",
        "echo waits; while [ ! -e ../go ]; do sleep 0.05; done; sleep 600 & kill -9 $PPID\n",
    )
    async with at_desk(project) as at, anyio.create_task_group() as group:
        group.start_soon(at.start)
        (first,) = await at.shows(lambda all_: any("waits" in s.record.logs for s in all_))
        other = await at.supervisor.start(project.wish(SPEAKS_LONG))
        before = await at.watched.at(other, "streaming")
        (project.path / ".roo/worktrees/go").touch()
        shown = await at.watched.at(first.record.session_id, "completed")
        assert shown.record.logs[1] == "The set-up script ended with an unknown status."
        assert before.record.pid in project.processes()
        assert at.watched.state(other) == "streaming"
