"""`rookery serve`: tasks that run on whether or not anybody looks on."""

import hashlib
import json
import os
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import anyio
import click
from anyio.abc import SocketAttribute, SocketListener, SocketStream

from rookery import NAME
from rookery.cli.hosting import Client, run_client
from rookery.cli.main import task
from rookery.cli.runs import prepare
from rookery.cli.wishes import Wishes
from rookery.clients.attendant import Fate, RunEnd
from rookery.errors import SettingsError
from rookery.storage.disk import private_folder, put
from rookery.storage.places import Places, find_places
from rookery.storage.tasks import TaskStore
from rookery.wire.accepting import let_in
from rookery.wire.channels import DescriptorStream, LineChannel
from rookery.wire.host import Host
from rookery.wire.serving import serve
from rookery.wire.tokens import new_token
from rookery.wire.unix_sockets import channel_on, is_of_our_own, unix_listener
from rookery.wire.web_sockets import LOOPBACK, Caller, shake_hands

MOST_CLIENTS = 100
"""At once, of one server."""
MOST_STRANGERS = 16
"""Who have not said the token yet; whoever has taken longest goes when another comes."""
LIKE_A_TASK = {
    *("workspace", "yes", "require_approval", "trust", "sandbox", "allow_outside"),
    *("allow_protected", "provider", "model", "base_url", "api_key", "mode"),
}
"""The flags that mean for every task of a server what they mean for one."""


def socket_for(places: Places, workspace: Path) -> Path:
    """Where a server of a workspace listens unless it is told otherwise."""
    return _folder(places) / f"{_name(workspace)}.sock"


def _folder(places: Places) -> Path:
    return places.state / "serve"


def _name(workspace: Path) -> str:
    return hashlib.sha256(os.fsencode(workspace)).hexdigest()[:16]


class _Server:
    """A client of a host, that hands it on to others."""

    async def stopped(self, host: Host) -> bool:
        return False

    def ended(self, end: RunEnd) -> None:
        pass


class StdioServer(_Server):
    """For whoever started us, until they close our input."""

    async def run(self, host: Host) -> RunEnd:
        stream = DescriptorStream(sys.stdin.fileno(), sys.stdout.fileno())
        await serve(host, LineChannel(stream))
        return RunEnd(Fate.COMPLETED)


class UnixServer(_Server):
    def __init__(self, path: Path) -> None:
        self._path = path
        self._seats = _Seats()

    async def run(self, host: Host) -> RunEnd:
        async with unix_listener(self._path) as listener:
            _announce(socket=str(self._path))
            await _serve_all(listener, partial(self._welcome, host))
        return RunEnd(Fate.COMPLETED)

    async def _welcome(self, host: Host, stream: SocketStream) -> None:
        async with stream:
            with self._seats.later() as seat:
                if is_of_our_own(stream) and seat.take():
                    await serve(host, channel_on(stream))


class WebSocketServer(_Server):
    def __init__(self, port: int, folder: Path) -> None:
        if find_spec("websockets") is None:
            raise SettingsError(f"--port needs a package more: pip install '{NAME}[web]'")
        self._port = port
        self._folder = folder
        self._token = new_token()
        self._seats = _Seats()
        self._strangers = _Strangers()

    async def run(self, host: Host) -> RunEnd:
        async with await self._listener() as listener:
            self._port = listener.extra(SocketAttribute.local_port)
            token_file = self._folder / f"{self._port}.token"
            put(token_file, [self._token.encode()])
            try:
                _announce(url=f"ws://{LOOPBACK}:{self._port}", token_file=str(token_file))
                await _serve_all(listener, partial(self._welcome, host))
            finally:
                token_file.unlink(missing_ok=True)
        return RunEnd(Fate.COMPLETED)

    async def _listener(self) -> SocketListener:
        try:
            made = await anyio.create_tcp_listener(local_host=LOOPBACK, local_port=self._port)
            (listener,) = made.listeners  # one address is one socket
            return cast(SocketListener, listener)
        except OSError as error:
            raise SettingsError(
                f"Nobody can listen at port {self._port} ({error.strerror or error}). "
                "Name another with --port, or 0 for any that is free."
            ) from error

    async def _welcome(self, host: Host, stream: SocketStream) -> None:
        async with stream:
            with self._strangers.one() as stranger, self._seats.later() as seat:
                caller = await shake_hands(stream, port=self._port, token=self._token)
                if caller:
                    await self._talk(host, caller, stranger, seat)

    async def _talk(self, host: Host, caller: Caller, stranger: "_Stranger", seat: "_Seat") -> None:
        def admit() -> bool:
            if seat.take():
                stranger.is_known()
                caller.channel.trust()
            return seat.is_taken

        try:
            if not caller.known:
                await serve(host, caller.channel, token=self._token, admit=admit)
            elif admit():
                await serve(host, caller.channel)
        finally:
            if not stranger.scope.cancel_called:
                with anyio.CancelScope(shield=True):
                    await caller.channel.aclose()


async def _serve_all(
    listener: SocketListener, welcome: Callable[[SocketStream], Coroutine[Any, Any, None]]
) -> None:
    async with anyio.create_task_group() as group:
        await let_in(listener, group, welcome)


class _Seats:
    """So that a client that connects without end cannot use up what tasks need too."""

    def __init__(self) -> None:
        self.taken = 0

    @contextmanager
    def later(self) -> Iterator["_Seat"]:
        """For somebody who may take one."""
        seat = _Seat(self)
        try:
            yield seat
        finally:
            self.taken -= seat.is_taken


class _Seat:
    def __init__(self, seats: _Seats) -> None:
        self._seats = seats
        self.is_taken = False

    def take(self) -> bool:
        """Whether there is one left."""
        if self._seats.taken < MOST_CLIENTS:
            self._seats.taken += 1
            self.is_taken = True
        return self.is_taken


class _Strangers:
    """Those who came and are not known yet. They take no seat from those who are, and none can
    keep others out: the door is never closed, but whoever has stood in it longest has to go."""

    def __init__(self) -> None:
        self._there: list[_Stranger] = []

    @contextmanager
    def one(self) -> Iterator["_Stranger"]:
        if len(self._there) >= MOST_STRANGERS:
            self._there.pop(0).scope.cancel()
        stranger = _Stranger(self._there)
        with stranger.scope:
            try:
                yield stranger
            finally:
                stranger.is_known()


class _Stranger:
    def __init__(self, there: "list[_Stranger]") -> None:
        self._there = there
        self.scope = anyio.CancelScope()
        there.append(self)

    def is_known(self) -> None:
        if self in self._there:
            self._there.remove(self)


def _announce(**where: str) -> None:
    print(json.dumps(where), flush=True)


def _run(stdio: bool, socket: Path | None, port: int | None, **flags: Any) -> int:
    if sum((stdio, socket is not None, port is not None)) > 1:
        raise SettingsError("Give one of --stdio, --socket and --port.")
    wishes = _wishes(flags)
    wishes.check()
    places = find_places(os.environ)
    store = TaskStore(places)
    store.sweep()
    run = prepare(wishes, places, store)
    if not run.consent.may_act:
        print(f"note: The folder is not trusted, so it is only read: {NAME} trust", file=sys.stderr)
    private_folder(_folder(places))
    server: Client = UnixServer((socket or socket_for(places, run.workspace)).absolute())
    if stdio:
        server = StdioServer()
    elif port is not None:
        server = WebSocketServer(port, _folder(places))
    return run_client(run, server)


def _wishes(flags: dict[str, Any]) -> Wishes:
    """What the flags of a server ask for. Nobody is asked at a terminal, just as for one who
    drives a run through pipes."""
    usual = task.make_context(NAME, []).params
    return Wishes(**{**usual, **flags, "json_io": True})


class _ServeOrManage(click.Command):
    """With --web it is the command `manager`, and takes the flags of that one."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> click.Context:
        if "--web" not in args:
            return super().make_context(info_name, args, parent, **extra)
        from rookery.cli.manager import command as manager

        rest = [each for each in args if each != "--web"]
        return manager.make_context(info_name, rest, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        return super().invoke(ctx) if ctx.command is self else ctx.command.invoke(ctx)


command = _ServeOrManage(
    "serve",
    callback=_run,
    help=(
        "Run tasks for clients that come and go: at a socket of this workspace, at --socket, "
        "on both pipes, or at a port of this machine. Prints where, as one line of JSON."
    ),
    params=[
        click.Option(["--stdio"], is_flag=True, help="Serve whoever started this, on both pipes."),
        click.Option(
            ["--socket"], type=click.Path(path_type=Path), help="Listen at this Unix socket."
        ),
        click.Option(
            ["--port"],
            type=click.IntRange(0, 65535),
            help="Listen for WebSockets at this port; 0 takes any that is free.",
        ),
        click.Option(
            ["--web"],
            is_flag=True,
            expose_value=False,
            help=f"Serve the page of the Agent Manager, as {NAME} manager does, with its options.",
        ),
        *(param for param in task.params if param.name in LIKE_A_TASK),
    ],
)
