"""The managers of several projects in one process, with real session processes."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import anyio
import pytest

from rookery.errors import CommandRejected, StorageError
from rookery.manager.cli.sessions_common import ProjectDependencies
from rookery.manager.manager import Manager, open_manager
from rookery.manager.manager_socket import connect_manager
from rookery.manager.projects import Projects, open_projects, urgency
from rookery.manager.requests import ListSessions
from rookery.manager.schedule_requests import AddSchedule
from rookery.manager.sessions.session_record import SessionRecord
from rookery.manager.sessions.session_states import SessionState
from rookery.manager.sessions.session_store import SessionStore, manager_folder
from rookery.manager.shown_rows import ProjectRow
from support.manager_project import PATIENCE, WRITES, Project, Watched

pytestmark = pytest.mark.anyio


def hosting(project: Project) -> AbstractAsyncContextManager[Projects]:
    @asynccontextmanager
    async def opened(folder: Path, environ: Mapping[str, str]) -> AsyncIterator[Manager]:
        environ = {**project.environ, **environ}
        deps = ProjectDependencies(folder, project.places, environ)
        async with open_manager(folder, project.places, environ, deps) as manager:
            if manager.is_locked_out:
                raise StorageError("Another process has it open.")
            yield manager

    return open_projects(project.places, opened)


def another(project: Project) -> Path:
    folder = project.folder / "another"
    folder.mkdir()
    return folder


async def shown_in(manager: Manager, *, waiting: int) -> ProjectRow:
    """Wait until the only other project of a manager has `waiting` waiting sessions."""
    with anyio.fail_after(PATIENCE):
        async for _ in manager.supervisor.changes():
            (row,) = manager.overview().other_projects or (None,)
            if row and len(row.waiting) == waiting:
                return row
    raise AssertionError("changes never end")


async def test_each_project_sees_what_waits_in_the_others(project: Project):
    project.environ["ROOKERY_MANAGER_RUNNING_LIMIT"] = "3"
    async with hosting(project) as projects:
        work = await projects.open(project.path)
        other = await projects.open(another(project), {"ROOKERY_MANAGER_RUNNING_LIMIT": "7"})
        assert other.overview().running_limit == 7
        assert projects.managers == (work, other)
        assert await projects.open(project.path) is work
        assert [await projects.find(each.id) for each in (work, other)] == [work, other]
        assert await projects.find("") is work
        told: list[Manager] = []
        projects.on_waiting = told.append
        session_id = await work.supervisor.start(project.start_options(WRITES))
        row = await shown_in(other, waiting=1)
        assert told == [work]
        assert (row.id, row.name, row.path) == (work.id, "work", str(project.path))
        assert (row.counts.active, row.counts.attention, row.running_limit) == (1, 1, 3)
        assert (row.waiting[0].session_id, row.waiting[0].state) == (session_id, "waiting_approval")
        assert other.overview().counts.attention == 0
        assert (await shown_in(work, waiting=0)).name == "another"
        deps = ProjectDependencies(project.path, project.places, project.environ)
        async with connect_manager(
            project.path, project.places, project.environ, deps
        ) as remote:  # a command uses the hosted manager
            listed = await remote.do(ListSessions())
            assert [each.session_id for each in listed.sessions] == [session_id]
        await work.supervisor.stop_all()
        await shown_in(other, waiting=0)
    await project.quiet()


async def test_what_waits_in_another_project_is_listed_as_in_the_inbox():
    states = ("completed", "error", "waiting_input", "waiting_approval")
    records = [
        SessionRecord(session_id=state, state=SessionState(state), start_time=started)
        for started, state in enumerate(states)
    ]
    ordered = [record.session_id for record in sorted(records, key=urgency)]
    assert ordered == ["waiting_input", "waiting_approval", "error", "completed"]


async def test_a_project_with_active_sessions_is_opened_at_the_start(project: Project):
    """Its questions are then shown without opening the project."""
    with project.hosted(project.start_options(WRITES)) as hosted:
        session_id = hosted.wait_for_line("started")
        hosted.wait_for_line("waiting_approval")
        hosted.kill()
    deps = ProjectDependencies(project.path, project.places, project.environ)
    async with open_manager(project.path, project.places, project.environ, deps):
        pass  # now it is a known project
    async with hosting(project) as projects:
        other = await projects.open(another(project))
        await projects.open_active()
        _, work = projects.managers
        assert work.project == project.path
        assert (await shown_in(other, waiting=1)).waiting[0].session_id == session_id
        await Watched(work.supervisor).asked(session_id)
        await work.supervisor.stop_all()
    await project.quiet()


async def test_an_unknown_or_removed_project_is_refused(project: Project):
    folder = another(project)
    async with hosting(project) as projects:
        gone = await projects.open(folder)
    folder.rmdir()
    async with hosting(project) as projects:
        await projects.open(project.path)
        for wrong in ("0" * 16, "../../../etc", "x", gone.id):
            with pytest.raises(CommandRejected, match="does not know this project"):
                await projects.find(wrong)
        await projects.look()
        assert [each.name for each in projects.others("")] == ["work"]


async def test_a_project_that_another_process_has_open_does_not_disturb_the_others(
    project: Project,
):
    folder = another(project)
    holder = SessionStore(folder, manager_folder(project.places, folder))
    async with hosting(project) as projects:
        work = await projects.open(project.path)
        with pytest.raises(StorageError, match="Another process"):
            await projects.open(folder)
        assert (projects.managers, work.overview().read_only) == ((work,), "")
        holder.close()
        assert (await projects.open(folder)).overview().read_only == ""


async def test_a_project_with_schedules_is_opened_so_that_they_start(project: Project):
    folder = another(project)
    deps = ProjectDependencies(folder, project.places, project.environ)
    deps.trust.trust(folder)
    async with open_manager(folder, project.places, project.environ, deps) as manager:
        await manager.router.do(AddSchedule(prompt="Daily", cron="@daily"))
    async with hosting(project) as projects:
        work = await projects.open(project.path)
        async with anyio.create_task_group() as group:
            group.start_soon(projects.open_scheduled)
            with anyio.fail_after(PATIENCE):
                async for _ in work.supervisor.changes():
                    if len(projects.managers) == 2:
                        break
            group.cancel_scope.cancel()
        assert projects.managers[1].project == folder
