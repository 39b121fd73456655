"""A complete manager, its socket, and competing access to the sessions."""

import json
import os
import socket
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from rookery.core.facts import TaskClosed
from rookery.errors import CommandRejected, SettingsError, StorageError
from rookery.manager.cli.sessions_common import ProjectDependencies
from rookery.manager.handlers.router import READ_ONLY, Handlers
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
    holder_note,
    holder_of,
    manager_folder,
    wait_for_lock,
)
from rookery.manager.shown_rows import Done
from rookery.protocol.channels import unix_channel
from rookery.protocol.jsonrpc import Disconnected
from support.manager_project import PATIENCE, WRITES, Project

pytestmark = pytest.mark.anyio

_ANY: dict[Any, Any] = {str: "x", int: 1, bool: False}


class Answers:
    """Fixed branches, and one request with a configurable delay."""

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
    """A socket path that may exceed the system's limit."""
    path.parent.mkdir(parents=True)
    folder = os.open(path.parent, os.O_PATH)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(f"/proc/self/fd/{folder}/{path.name}")
            yield made
    finally:
        os.close(folder)


async def test_a_manager_handles_every_request_and_gives_an_overview(project: Project):
    project.environ["ROOKERY_MANAGER_RUNNING_LIMIT"] = "3"
    async with opened(project) as manager:
        assert manager.router.requests == set(REQUESTS)
        assert manager.project == project.path
        assert await manager.router.do(ListDevices()) == ()
        manager.blocked_requests = 2
        reported = manager.overview()
        assert (reported.running_limit, reported.blocked_requests, reported.read_only) == (3, 2, "")
        assert reported.project == str(project.path)


async def test_a_second_manager_is_read_only_and_says_so(project: Project):
    async with opened(project), opened(project) as other:
        assert other.is_locked_out
        assert "Another manager" in other.overview().read_only
        reported = (await other.router.do(ListSessions())).overview
        assert reported == other.overview()
        assert other.router.requests == set(REQUESTS)
        for kind in set(REQUESTS) - READ_ONLY:
            fields = {each.name: _ANY.get(each.type, ()) for each in msgspec.structs.fields(kind)}
            with pytest.raises(CommandRejected, match="Another manager"):
                await other.router.do(kind(**fields))


async def test_an_invalid_setting_is_reported_before_anything_is_opened(project: Project):
    project.environ["ROOKERY_MANAGER_RUNNING_LIMIT"] = "33"
    with pytest.raises(SettingsError, match="from 1 to 32"):
        async with opened(project):
            pass
    assert not project.file.parent.exists()


async def test_the_process_that_locks_the_sessions_is_named(project: Project):
    places, path = project.places, project.path
    async with opened(project, called="sessions finish"):
        assert not await wait_for_lock(places, path, within=0.1)
        assert holder_of(places, path) == f"Process {os.getpid()} (rookery sessions finish)"
        with pytest.raises(StorageError) as refused:
            async with connected(project, patience=0.1):
                pass
    assert str(refused.value) == (
        f"Process {os.getpid()} (rookery sessions finish) has the sessions of {project.path} open "
        "and does not let others in. Nothing was changed; try again when it is done, or end it."
    )
    assert await wait_for_lock(places, path, within=PATIENCE)
    assert holder_of(places, path) == "Another process"


@pytest.mark.parametrize("note", [b"", b"[]", b'{"pid": "x"}', b"\xff"])
def test_an_invalid_holder_note_names_no_process(project: Project, note: bytes):
    with holder_note(project.places, project.path, "x"):
        folder = manager_folder(project.places, project.path)
        (folder / "holder.json").write_bytes(note)
        assert holder_of(project.places, project.path) == "Another process"


async def test_a_command_uses_the_running_managers_private_socket(project: Project):
    async with running(project, Answers()), connected(project) as remote:
        path = socket_of(project.places, project.path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert await remote.do(ListBranches()) == ("mine",)
        assert (await remote.do(ListSessions())).overview.read_only == ""
        with pytest.raises(CommandRejected, match="No such session"):
            await remote.do(CancelSession(session_id="nobody"))
        assert (await remote.do(ListSessions())).sessions == (), (
            "a refusal does not end the connection"
        )
    assert not path.exists()


async def test_without_a_running_manager_a_command_opens_its_own(project: Project):
    async with connected(project) as remote:
        assert not socket_of(project.places, project.path).exists()
        assert (await remote.do(ListSessions())).sessions == ()
    left = {path.name for path in manager_folder(project.places, project.path).iterdir()}
    assert left <= {"agent-manager.json", "agent-manager.json.lock", "project.json"}
    assert list(project.path.iterdir()) == []
    assert await wait_for_lock(project.places, project.path, within=PATIENCE)


async def test_a_stale_socket_of_a_killed_manager_is_ignored(project: Project):
    path = socket_of(project.places, project.path)
    with bound_socket(path):
        pass
    assert path.exists()
    async with connected(project, stays=True) as remote, connected(project) as other:
        for each in (remote, other):
            assert (await each.do(ListSessions())).overview.read_only == "", (
                "the manager is not read-only"
            )
    assert not path.exists()


async def test_a_command_waits_for_a_brief_lock_on_the_sessions(project: Project):
    holder = SessionStore(project.path, manager_folder(project.places, project.path))

    async def let_go() -> None:
        await anyio.sleep(0.1)
        holder.close()

    async with anyio.create_task_group() as group:
        group.start_soon(let_go)
        with anyio.fail_after(PATIENCE):
            async with connected(project) as remote:
                assert (await remote.do(ListSessions())).overview.read_only == ""


async def test_a_command_finds_a_manager_that_has_just_started(project: Project):
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


async def test_a_session_file_of_a_later_version_can_still_be_read(project: Project):
    content = {"version": 99, "sessions": {}}
    project.file.parent.mkdir(parents=True)
    project.file.write_text(json.dumps(content))
    async with connected(project, patience=PATIENCE) as remote:
        assert "later version" in (await remote.do(ListSessions())).overview.read_only
    assert json.loads(project.file.read_text()) == content


async def test_a_pending_request_is_answered_when_the_manager_exits(project: Project):
    answers, reported = Answers(), []

    async def ask() -> None:
        async with remote_manager(await unix_channel(path)) as remote:
            reported.append(await remote.do(MarkRead(session_id="x")))

    path = socket_of(project.places, project.path)
    async with anyio.create_task_group() as group, running(project, answers):
        group.start_soon(ask)
        await answers.begun.wait()
        group.start_soon(_after_disconnect, path, answers.may_end)
    assert reported == [Done(notes=("at last",))]


async def _after_disconnect(path: Any, may_end: anyio.Event) -> None:
    while path.exists():  # noqa: ASYNC110 (nothing tells of it)
        await anyio.sleep(0.01)
    may_end.set()


async def test_followers_are_disconnected_when_the_manager_exits(project: Project):
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


async def test_a_silent_socket_is_reported_as_no_manager(
    project: Project, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("rookery.manager.manager_socket.SECONDS_TO_ANSWER", 0.1)
    with bound_socket(socket_of(project.places, project.path)) as silent:
        silent.listen()
        with pytest.raises(NoManager, match="did not answer"):
            async with connected(project):
                pass


async def test_a_started_session_continues_after_the_command_ends(project: Project):
    with anyio.fail_after(PATIENCE):
        async with opened(project) as manager:
            options = project.start_options(WRITES, auto_approve=True)
            session_id = await manager.supervisor.start(options)
            await manager.wait_settled()
        async with opened(project) as manager:
            async for _ in manager.supervisor.changes():
                shown = manager.supervisor.session(session_id)
                if shown and shown.record.state == "completed":
                    break
            await manager.supervisor.stop_all()
    assert (project.path / "made.txt").read_text() == "one\n"
    assert not [each for each in project.log(session_id) if isinstance(each.fact, TaskClosed)]
