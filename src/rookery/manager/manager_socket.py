"""How others reach the manager of a project, and how whoever wants something of it finds one.

A manager that stays listens at a socket. Where none does, whoever wants something opens a manager
for as long as that takes; the lock of the sessions lets only one at a time.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio.abc import SocketStream

from rookery.errors import SettingsError, StorageError
from rookery.manager.dependencies import Dependencies
from rookery.manager.sessions.session_store import freed, holder_of, manager_folder
from rookery.platform.disk import private_folder
from rookery.platform.user_folders import Places
from rookery.protocol.channels import Channel, ChannelEnded, let_in, memory_channels
from rookery.protocol.unix_sockets import channel_on, is_of_our_own, unix_channel, unix_listener

if TYPE_CHECKING:
    from rookery.manager.manager import Manager
from contextlib import aclosing
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from rookery.core.queries import Asking
from rookery.errors import RookeryError
from rookery.manager.handlers.router import LOOKING, reply_from_json, request_to_json
from rookery.manager.shown_rows import SessionRow
from rookery.protocol.jsonrpc import Disconnected, RpcError, raised_again
from rookery.protocol.remote import SECONDS_TO_ANSWER, RemoteServer

T = TypeVar("T")
News: TypeAlias = Mapping[str, Any]
"""What a notification says, as it came."""


class ListNews(Struct, frozen=True, kw_only=True):
    """What is new about the list: rows that changed, whole, and the ids of those that are gone."""

    rows: tuple[SessionRow, ...] = ()
    removed: tuple[str, ...] = ()


class NoManager(Disconnected):
    """Whoever is at the other end does not answer."""


class ManagerLeft(Disconnected):
    """It was there a moment ago."""


@asynccontextmanager
async def remote_manager(channel: Channel) -> "AsyncIterator[RemoteManager]":
    """The manager at the other end of a channel, which is closed afterwards. Raises `NoManager` or
    `ManagerLeft` if there is none."""
    remote = RemoteManager(channel)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(remote.run)
            problem = await _introduce(remote)
            if not problem:
                yield remote
            group.cancel_scope.cancel()
        if problem:
            raise problem
    finally:
        with anyio.CancelScope(shield=True):
            await channel.aclose()


async def _introduce(remote: "RemoteManager") -> RookeryError | None:
    """Why it cannot be talked to, if so."""
    try:
        with anyio.fail_after(SECONDS_TO_ANSWER):
            await remote.initialize({})
    except TimeoutError:
        return NoManager(f"The manager did not answer within {SECONDS_TO_ANSWER:g} seconds.")
    except Disconnected:
        return ManagerLeft("The manager closed the connection at the first message.")
    except RpcError as error:
        return raised_again(error)
    return None


class RemoteManager(RemoteServer):
    """Everything raises `Disconnected` once the connection is lost."""

    name = "manager"
    has_acted = False
    """Something was asked for that does more than look."""

    async def do(self, request: Asking[T]) -> T:
        """Raises `RookeryError`, and then nothing was changed; but after `Disconnected` nobody
        knows whether it was."""
        self.has_acted |= type(request) not in LOOKING
        answer = await self.call("do", msgspec.Raw(request_to_json(request)))
        return reply_from_json(request, answer)

    async def follow_list(self) -> AsyncIterator[ListNews]:
        """All sessions, then what changes about them."""
        async with aclosing(self.news("follow_list", {})) as arrivals:
            async for news in arrivals:
                yield msgspec.convert(news, ListNews)

    def follow_session(self, session_id: str, *, tail: int) -> AsyncIterator[News]:
        """The last rows of a session, then what changes in it and what is added."""
        return self.news("follow_session", {"session_id": session_id, "tail": tail})

    def read(self, method: str, fields: dict[str, Any]) -> object:
        return fields if method in ("list", "view") else None


MOST_GUESTS = 100
"""At once, at one socket."""
SECONDS_TO_WAIT = 10.0
"""For whoever has the sessions open for a moment."""


def socket_of(places: Places, project: Path) -> Path:
    """Where the manager of a project listens, if one does."""
    return manager_folder(places, project) / "manager.sock"


@asynccontextmanager
async def listening(manager: "Manager", places: Places) -> AsyncIterator[None]:
    """Others of this user reach the manager. In the end nobody is let in any more, and whoever is
    there still gets what they have asked for."""
    socket = socket_of(places, manager.project)
    private_folder(socket.parent)
    reception = _Reception(manager)
    async with anyio.create_task_group() as guests:
        async with unix_listener(socket) as listener, anyio.create_task_group() as door:
            door.start_soon(let_in, listener, guests, reception.attend_to)
            yield
            door.cancel_scope.cancel()
        reception.close()


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
    """A manager of the project: one that runs, or else one in this process. Sessions run on
    afterwards. Others can reach one that `stays` for longer than a moment. Raises `StorageError`
    if somebody has the sessions open and cannot be talked to."""
    try:
        async with _connected(
            project, places, environ, dependencies, called, stays, patience
        ) as remote:
            yield remote
    except BaseExceptionGroup as group:  # of one of the task groups that it runs in
        raise _first_in(group) from group


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
    # one who has just begun to manage has the lock already and listens soon
    looks = [began + patience / 10, began + patience]
    while True:
        async with AsyncExitStack() as stack:
            found = await _running(stack, socket_of(places, project))
            if not found:
                # whoever finds one that runs needs nothing of what managers are made of
                from rookery.manager.manager import open_manager

                opened = open_manager(project, places, environ, dependencies, called=called)
                manager = await stack.enter_async_context(opened)
                if not manager.is_locked_out:
                    found = await _own(stack, manager, places, stays=stays)
            if found:
                yield found
                return
        now = anyio.current_time()
        if now >= looks[-1]:
            raise StorageError(
                f"{holder_of(places, project)} has the sessions of {project} open and does not "
                "let others in. Nothing was changed; try again when it is done, or end it."
            )
        await freed(places, project, within=next(at for at in looks if at > now) - now)


async def _running(stack: AsyncExitStack, socket: Path) -> RemoteManager | None:
    """The manager that listens at a socket, if one does."""
    try:
        channel = await unix_channel(socket)
        return await stack.enter_async_context(remote_manager(channel))
    except (SettingsError, ManagerLeft):
        return None


async def _own(
    stack: AsyncExitStack, manager: "Manager", places: Places, *, stays: bool
) -> RemoteManager:
    """A manager in this process, spoken to like any other."""
    from rookery.manager.service import serve_manager

    if stays and not manager.supervisor.read_only:
        await stack.enter_async_context(listening(manager, places))
    here, there = stack.enter_context(memory_channels())
    group = await stack.enter_async_context(anyio.create_task_group())
    group.start_soon(serve_manager, manager, there)
    remote = await stack.enter_async_context(remote_manager(here))

    async def leave_in_order(kind: type[BaseException] | None, *_: object) -> None:
        """What was begun is brought to where it goes on by itself, unless we were interrupted."""
        interrupted = kind is not None and not issubclass(kind, Exception)
        if (stays or remote.has_acted) and not interrupted:
            await manager.settled()

    stack.push_async_exit(leave_in_order)
    return remote


class _Reception:
    def __init__(self, manager: "Manager") -> None:
        self._manager = manager
        self._here: set[_GuestChannel] = set()

    async def attend_to(self, stream: SocketStream) -> None:
        from rookery.manager.service import serve_manager

        async with stream:
            if not is_of_our_own(stream) or len(self._here) >= MOST_GUESTS:
                return
            channel = _GuestChannel(channel_on(stream))
            self._here.add(channel)
            try:
                await serve_manager(self._manager, channel)
            finally:
                self._here.discard(channel)

    def close(self) -> None:
        for channel in self._here:
            channel.close_its_ear()


class _GuestChannel:
    """A channel that we can stop to hear. The other side then still gets its answers."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._hearing = anyio.CancelScope()
        self._deaf = False

    async def receive(self) -> bytes:
        if not self._deaf:
            with anyio.CancelScope() as self._hearing:
                return await self._channel.receive()
        raise ChannelEnded

    async def send(self, messages: Sequence[bytes]) -> None:
        await self._channel.send(messages)

    async def aclose(self) -> None:
        await self._channel.aclose()

    def close_its_ear(self) -> None:
        self._deaf = True
        self._hearing.cancel()


def _first_in(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
