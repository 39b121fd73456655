"""The manager's socket and its client: how to reach the manager of a project, or open one.

A long-running manager listens on a socket. If none does, a command opens a manager in its own
process for as long as it needs one; the lock of the session list allows only one at a time.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio.abc import SocketStream

from rookery.errors import SettingsError, StorageError
from rookery.first_use import prepared
from rookery.manager.dependencies import Dependencies
from rookery.manager.sessions.session_store import holder_of, manager_folder, wait_for_lock
from rookery.platform.disk import private_folder
from rookery.platform.user_folders import Places
from rookery.protocol.channels import (
    Channel,
    ChannelEnded,
    accept_connections,
    channel_on,
    is_same_user,
    memory_channels,
    unix_channel,
    unix_listener,
)

if TYPE_CHECKING:
    from rookery.manager.manager import Manager
from contextlib import aclosing
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from rookery.core.queries import Asking
from rookery.errors import RookeryError, first_error
from rookery.manager.handlers.router import READ_ONLY, reply_from_json, request_to_json
from rookery.manager.shown_rows import SessionRow
from rookery.protocol.jsonrpc import Disconnected, RpcError, client_error
from rookery.protocol.remote import SECONDS_TO_ANSWER, RemoteServer

T = TypeVar("T")
News: TypeAlias = Mapping[str, Any]
"""Fields of a notification."""


class ListNews(Struct, frozen=True, kw_only=True):
    """Changes of the session list: changed rows, complete, and the ids of removed sessions."""

    rows: tuple[SessionRow, ...] = ()
    removed: tuple[str, ...] = ()


class NoManager(Disconnected):
    """The manager accepted the connection but does not answer."""


class ManagerLeft(Disconnected):
    """The manager closed the connection at once, because it is ending."""


@asynccontextmanager
async def remote_manager(channel: Channel) -> "AsyncIterator[RemoteManager]":
    """Talk to the manager on a channel, which is closed afterwards. Raises `NoManager` or
    `ManagerLeft` if it does not answer."""
    remote = RemoteManager(channel)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(remote.run)
            problem = await _initialize(remote)
            if not problem:
                yield remote
            group.cancel_scope.cancel()
        if problem:
            raise problem
    finally:
        with anyio.CancelScope(shield=True):
            await channel.aclose()


async def _initialize(remote: "RemoteManager") -> RookeryError | None:
    """Initialize the connection; return the error if that fails."""
    try:
        with anyio.fail_after(SECONDS_TO_ANSWER):
            await remote.initialize({})
    except TimeoutError:
        return NoManager(f"The manager did not answer within {SECONDS_TO_ANSWER:g} seconds.")
    except Disconnected:
        return ManagerLeft("The manager closed the connection at the first message.")
    except RpcError as error:
        return client_error(error)
    return None


class RemoteManager(RemoteServer):
    """A client of a manager. Methods raise `Disconnected` once the connection is lost."""

    name = "manager"
    has_acted = False
    """Whether a request was sent that may change something."""

    async def do(self, request: Asking[T]) -> T:
        """Send a request. Raises `RookeryError` if it fails; then nothing was changed, except
        that after `Disconnected` the outcome is unknown."""
        self.has_acted |= type(request) not in READ_ONLY
        answer = await self.call("do", msgspec.Raw(request_to_json(request)))
        return reply_from_json(request, answer)

    async def follow_list(self) -> AsyncIterator[ListNews]:
        """Yield all sessions, then changes."""
        async with aclosing(self.news("follow_list", {})) as arrivals:
            async for news in arrivals:
                yield msgspec.convert(news, prepared(ListNews))

    def follow_session(self, session_id: str, *, tail: int) -> AsyncIterator[News]:
        """Yield the last rows of a session, then changes and new rows."""
        return self.news("follow_session", {"session_id": session_id, "tail": tail})

    def read(self, method: str, fields: dict[str, Any]) -> object:
        return fields if method in ("list", "view") else None


MAX_CONNECTIONS = 100
"""Connections at one socket."""
SECONDS_TO_WAIT = 10.0
"""Seconds to wait for another process that holds the session list."""


def socket_of(places: Places, project: Path) -> Path:
    """Path of the socket on which the manager of a project listens."""
    return manager_folder(places, project) / "manager.sock"


@asynccontextmanager
async def listening(manager: "Manager", places: Places) -> AsyncIterator[None]:
    """Accept connections of the same user. At the end no new ones are accepted, and requests
    that were received are still answered."""
    socket = socket_of(places, manager.project)
    private_folder(socket.parent)
    connections = _Connections(manager)
    async with anyio.create_task_group() as clients:
        async with unix_listener(socket) as listener, anyio.create_task_group() as acceptor:
            acceptor.start_soon(accept_connections, listener, clients, connections.serve)
            yield
            acceptor.cancel_scope.cancel()
        connections.close()


@asynccontextmanager
async def connect_manager(
    project: Path,
    places: Places,
    environ: Mapping[str, str],
    dependencies: Dependencies,
    *,
    called: str = "sessions",
    stays: bool = False,
    patience: float = SECONDS_TO_WAIT,
) -> AsyncIterator[RemoteManager]:
    """Connect to the project's running manager, or open one in this process. Sessions run on
    afterwards. A manager that `stays` also listens for others. Raises `StorageError` if another
    process holds the session list and does not answer."""
    try:
        async with _connected(
            project, places, environ, dependencies, called, stays, patience
        ) as remote:
            yield remote
    except BaseExceptionGroup as group:  # from one of its task groups
        raise first_error(group) from group


@asynccontextmanager
async def _connected(
    project: Path,
    places: Places,
    environ: Mapping[str, str],
    dependencies: Dependencies,
    called: str,
    stays: bool,
    patience: float,
) -> AsyncIterator[RemoteManager]:
    began = anyio.current_time()
    # a manager that just started has the lock and listens soon
    deadlines = [began + patience / 10, began + patience]
    while True:
        async with AsyncExitStack() as stack:
            found = await _running(stack, socket_of(places, project))
            if not found:
                # imported late: a client of a running manager does not need it
                from rookery.manager.manager import open_manager

                opened = open_manager(project, places, environ, dependencies, called=called)
                manager = await stack.enter_async_context(opened)
                if not manager.is_locked_out:
                    found = await _open_own(stack, manager, places, stays=stays)
            if found:
                yield found
                return
        now = anyio.current_time()
        if now >= deadlines[-1]:
            raise StorageError(
                f"{holder_of(places, project)} has the sessions of {project} open and does not "
                "let others in. Nothing was changed; try again when it is done, or end it."
            )
        await wait_for_lock(places, project, within=next(at for at in deadlines if at > now) - now)


async def _running(stack: AsyncExitStack, socket: Path) -> RemoteManager | None:
    """Connect to the manager at a socket; None if there is none."""
    try:
        channel = await unix_channel(socket)
        return await stack.enter_async_context(remote_manager(channel))
    except (SettingsError, ManagerLeft):
        return None


async def _open_own(
    stack: AsyncExitStack, manager: "Manager", places: Places, *, stays: bool
) -> RemoteManager:
    """Serve a manager in this process over a memory channel."""
    from rookery.manager.service import serve_manager

    if stays and not manager.supervisor.read_only:
        await stack.enter_async_context(listening(manager, places))
    here, there = stack.enter_context(memory_channels())
    group = await stack.enter_async_context(anyio.create_task_group())
    group.start_soon(serve_manager, manager, there)
    remote = await stack.enter_async_context(remote_manager(here))

    async def settle(kind: type[BaseException] | None, *_: object) -> None:
        """Wait until the manager has settled, unless we were interrupted."""
        interrupted = kind is not None and not issubclass(kind, Exception)
        if (stays or remote.has_acted) and not interrupted:
            await manager.wait_settled()

    stack.push_async_exit(settle)
    return remote


class _Connections:
    def __init__(self, manager: "Manager") -> None:
        self._manager = manager
        self._channels: set[_ClientChannel] = set()

    async def serve(self, stream: SocketStream) -> None:
        from rookery.manager.service import serve_manager

        async with stream:
            if not is_same_user(stream) or len(self._channels) >= MAX_CONNECTIONS:
                return
            channel = _ClientChannel(channel_on(stream))
            self._channels.add(channel)
            try:
                await serve_manager(self._manager, channel)
            finally:
                self._channels.discard(channel)

    def close(self) -> None:
        for channel in self._channels:
            channel.stop_receiving()


class _ClientChannel:
    """A channel whose receiving side can be closed while replies are still sent."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._receiving = anyio.CancelScope()
        self._is_closed = False

    async def receive(self) -> bytes:
        if not self._is_closed:
            with anyio.CancelScope() as self._receiving:
                return await self._channel.receive()
        raise ChannelEnded

    async def send(self, messages: Sequence[bytes]) -> None:
        await self._channel.send(messages)

    async def aclose(self) -> None:
        await self._channel.aclose()

    def stop_receiving(self) -> None:
        self._is_closed = True
        self._receiving.cancel()
