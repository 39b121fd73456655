"""A manager put together, its socket, and who gets to the sessions when several want to."""

import json
import os
import socket
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from rookery.core.facts import TaskClosed
from rookery.errors import CommandRejected, SettingsError, StorageError
from rookery.manager.cli.host_dependencies import ProjectDependencies
from rookery.manager.handlers.router import LOOKING, Handlers
from rookery.manager.manager import Manager, open_manager
from rookery.manager.manager_socket import (
    NoManager,
    RemoteManager,
    connect_manager,
    listening,
    remote_manager,
    socket_of,
)
from rookery.manager.requests import (
    REQUESTS,
    CancelSession,
    ListBranches,
    ListDevices,
    ListSessions,
    MarkRead,
)
from rookery.manager.sessions.session_store import (
    SessionStore,
    freed,
    held_by,
    holder_of,
    manager_folder,
)
from rookery.manager.shown_rows import Done
from rookery.protocol.jsonrpc import Disconnected
from rookery.protocol.unix_sockets import unix_channel
from support.manager_project import PATIENCE, WRITES, Project

pytestmark = pytest.mark.anyio

_ANY: dict[Any, Any] = {str: "x", int: 1, bool: False}


class Answers:
    """Branches of its own, and one that takes as long as it is told to."""

    def __init__(self) -> None:
        self.begun = anyio.Event()
        self.may_end = anyio.Event()

    @property
    def handlers(self) -> Handlers:
        return {ListBranches: self._branches, MarkRead: self._slowly}

    async def _branches(self, request: ListBranches) -> tuple[str, ...]:
        return ("mine",)

    async def _slowly(self, request: MarkRead) -> Done:
        self.begun.set()
        await self.may_end.wait()
        return Done(notes=("at last",))


def opened(project: Project, *families: Any, **more: Any) -> AbstractAsyncContextManager[Manager]:
    dependencies = ProjectDependencies(project.path, project.places, project.environ)
    return open_manager(
        project.path, project.places, project.environ, dependencies, handlers=families, **more
    )


def connected(project: Project, **more: Any) -> AbstractAsyncContextManager[RemoteManager]:
    dependencies = ProjectDependencies(project.path, project.places, project.environ)
    return connect_manager(project.path, project.places, project.environ, dependencies, **more)


@asynccontextmanager
async def running(project: Project, *families: Any) -> AsyncIterator[Manager]:
    async with opened(project, *families) as manager, listening(manager, project.places):
        yield manager


@contextmanager
def bound_socket(path: Path) -> Iterator[socket.socket]:
    """A socket whose name may be longer than the system takes."""
    path.parent.mkdir(parents=True)
    folder = os.open(path.parent, os.O_PATH)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(f"/proc/self/fd/{folder}/{path.name}")
            yield made
    finally:
        os.close(folder)


async def test_a_manager_carries_out_every_request(project: Project):
    async with opened(project) as manager:
        assert manager.router.requests == set(REQUESTS)
        assert manager.project == project.path
        assert await manager.router.do(ListDevices()) == ()


async def test_whoever_may_only_look_is_refused_all_else(project: Project):
    async with opened(project), opened(project) as other:
        assert other.router.requests == set(REQUESTS)
        for kind in set(REQUESTS) - LOOKING:
            fields = {name: _ANY.get(said, ()) for name, said in kind.__annotations__.items()}
            with pytest.raises(CommandRejected, match="Another manager"):
                await other.router.do(kind(**fields))


async def test_the_head_of_the_list_says_what_holds(project: Project):
    project.environ["ROOKERY_MANAGER_RUNNING_LIMIT"] = "3"
    async with opened(project) as manager:
        manager.blocked_requests = 2
        told = manager.overview()
        assert (told.running_limit, told.blocked_requests, told.read_only) == (3, 2, "")
        assert told.project == str(project.path)


async def test_a_faulty_setting_is_told_before_anything_is_opened(project: Project):
    project.environ["ROOKERY_MANAGER_RUNNING_LIMIT"] = "33"
    with pytest.raises(SettingsError, match="from 1 to 32"):
        async with opened(project):
            pass
    assert not project.file.parent.exists()


async def test_only_one_manager_writes_and_the_other_says_so(project: Project):
    async with opened(project), opened(project) as other:
        assert other.is_locked_out
        assert "Another manager" in other.overview().read_only
        told = (await other.router.do(ListSessions())).overview
        assert told == other.overview()


async def test_whoever_has_the_sessions_is_named_while_they_have_them(project: Project):
    places, path = project.places, project.path
    async with opened(project, called="sessions finish"):
        assert not await freed(places, path, within=0.1)
        assert holder_of(places, path) == f"Process {os.getpid()} (rookery sessions finish)"
    assert await freed(places, path, within=5)
    assert holder_of(places, path) == "Another process"


@pytest.mark.parametrize("note", [b"", b"[]", b'{"pid": "x"}', b"\xff"])
def test_a_note_that_says_nothing_names_nobody(project: Project, note: bytes):
    with held_by(project.places, project.path, "x"):
        folder = manager_folder(project.places, project.path)
        (folder / "holder.json").write_bytes(note)
        assert holder_of(project.places, project.path) == "Another process"


async def test_only_its_owner_reaches_the_socket(project: Project):
    async with running(project):
        path = socket_of(project.places, project.path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert not path.exists()


async def test_a_command_goes_through_the_manager_that_runs(project: Project):
    async with running(project, Answers()), connected(project) as remote:
        assert await remote.do(ListBranches()) == ("mine",)
        assert (await remote.do(ListSessions())).overview.read_only == ""


async def test_without_one_it_opens_its_own_and_leaves_no_trace_of_it(project: Project):
    async with connected(project) as remote:
        assert not socket_of(project.places, project.path).exists()
        assert (await remote.do(ListSessions())).sessions == ()
    left = {path.name for path in manager_folder(project.places, project.path).iterdir()}
    assert left <= {"agent-manager.json", "agent-manager.json.lock"}
    assert list(project.path.iterdir()) == []
    assert await freed(project.places, project.path, within=5)


async def test_one_that_stays_lets_others_in(project: Project):
    async with connected(project, stays=True), connected(project) as other:
        assert (await other.do(ListSessions())).overview.read_only == ""


async def test_a_socket_that_a_killed_manager_left_is_in_nobodys_way(project: Project):
    path = socket_of(project.places, project.path)
    with bound_socket(path):
        pass
    assert path.exists()
    async with connected(project, stays=True) as remote, connected(project) as other:
        assert (await remote.do(ListSessions())).sessions == ()
        assert (await other.do(ListSessions())).sessions == ()
    assert not path.exists()


async def test_a_command_waits_for_one_that_has_the_sessions_for_a_moment(project: Project):
    holder = SessionStore(project.path, manager_folder(project.places, project.path))

    async def let_go() -> None:
        await anyio.sleep(0.1)
        holder.close()

    async with anyio.create_task_group() as group:
        group.start_soon(let_go)
        with anyio.fail_after(PATIENCE):
            async with connected(project) as remote:
                assert (await remote.do(ListSessions())).overview.read_only == ""


async def test_a_command_finds_a_manager_that_has_just_begun(project: Project):
    answered = anyio.Event()

    async def ask() -> None:
        async with connected(project) as remote:
            assert await remote.do(ListBranches()) == ("mine",)
            answered.set()

    with anyio.fail_after(PATIENCE):
        async with opened(project, Answers()) as manager, anyio.create_task_group() as group:
            group.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            async with listening(manager, project.places):
                await answered.wait()


async def test_one_that_waits_in_vain_says_who_has_them(project: Project):
    async with opened(project, called="sessions finish"):
        with pytest.raises(StorageError) as refused:
            async with connected(project, patience=0.1):
                pass
    assert str(refused.value) == (
        f"Process {os.getpid()} (rookery sessions finish) has the sessions of {project.path} open "
        "and does not let others in. Nothing was changed; try again when it is done, or end it."
    )


async def test_the_wait_for_a_lock_ends_with_the_lock_or_the_time(project: Project):
    holder = SessionStore(project.path, manager_folder(project.places, project.path))
    assert not await freed(project.places, project.path, within=0.05)
    holder.close()
    assert await freed(project.places, project.path, within=PATIENCE)


async def test_where_nothing_can_be_written_one_can_still_look(project: Project):
    content = {"version": 99, "sessions": {}}
    project.file.parent.mkdir(parents=True)
    project.file.write_text(json.dumps(content))
    async with connected(project, patience=PATIENCE) as remote:
        assert "later version" in (await remote.do(ListSessions())).overview.read_only
    assert json.loads(project.file.read_text()) == content


async def test_whoever_has_asked_gets_the_answer_although_the_manager_leaves(project: Project):
    answers, told = Answers(), []

    async def ask() -> None:
        async with remote_manager(await unix_channel(path)) as remote:
            told.append(await remote.do(MarkRead(session_id="x")))

    path = socket_of(project.places, project.path)
    async with anyio.create_task_group() as group, running(project, answers):
        group.start_soon(ask)
        await answers.begun.wait()
        group.start_soon(_after_it_left, path, answers.may_end)
    assert told == [Done(notes=("at last",))]


async def _after_it_left(path: Any, may_end: anyio.Event) -> None:
    while path.exists():  # noqa: ASYNC110 (nothing tells of it)
        await anyio.sleep(0.01)
    may_end.set()


async def test_whoever_looks_on_is_told_that_the_manager_left(project: Project):
    left = anyio.Event()
    path = socket_of(project.places, project.path)

    async def look_on() -> None:
        async with remote_manager(await unix_channel(path)) as remote:
            with suppress(Disconnected):
                async for _ in remote.follow_list():
                    seen.set()
            left.set()

    seen = anyio.Event()
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            async with running(project):
                group.start_soon(look_on)
                await seen.wait()
            await left.wait()


async def test_one_who_says_nothing_is_no_manager(
    project: Project, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("rookery.manager.manager_socket.SECONDS_TO_ANSWER", 0.1)
    with bound_socket(socket_of(project.places, project.path)) as silent:
        silent.listen()
        with pytest.raises(NoManager, match="did not answer"):
            async with connected(project):
                pass


async def test_what_was_begun_goes_on_after_the_command_is_over(project: Project):
    with anyio.fail_after(PATIENCE):
        async with opened(project) as manager:
            wish = project.wish(WRITES, auto_approve=True)
            session_id = await manager.supervisor.start(wish)
            await manager.settled()
        async with opened(project) as manager:
            async for _ in manager.supervisor.changes():
                shown = manager.supervisor.session(session_id)
                if shown and shown.session.state == "completed":
                    break
            await manager.supervisor.stop_all()
    assert (project.path / "made.txt").read_text() == "one\n"
    assert not [each for each in project.log(session_id) if isinstance(each.fact, TaskClosed)]


async def test_what_cannot_be_understood_is_refused_and_ends_nothing(project: Project):
    async with connected(project) as remote:
        with pytest.raises(CommandRejected, match="No such session"):
            await remote.do(CancelSession(session_id="nobody"))
        assert (await remote.do(ListSessions())).sessions == ()
