"""`rookery serve`: tasks that run on whether or not anybody looks on.

`Seats` limits how many clients there are at once and knows how long there was none.
"""

import hashlib
import json
import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import anyio
import click
from anyio.abc import SocketAttribute, SocketListener, SocketStream

from rookery import NAME
from rookery.cli.main import task
from rookery.cli.options import Options
from rookery.cli.run import Client, run_client
from rookery.cli.run_options import prepare
from rookery.core.queries import AskRest
from rookery.errors import SettingsError
from rookery.platform.disk import private_folder, put
from rookery.platform.user_folders import Places, find_places
from rookery.protocol.attend import Fate, RunEnd
from rookery.protocol.channels import DescriptorStream, LineChannel, let_in
from rookery.protocol.codec import Host
from rookery.protocol.server import new_token, serve
from rookery.protocol.unix_sockets import channel_on, is_of_our_own, unix_listener
from rookery.protocol.web_sockets import LOOPBACK, WebCaller, shake_hands
from rookery.storage.sessions import TaskStore

MOST_CLIENTS = 100
"""At once, of one server."""
MOST_STRANGERS = 16
"""Who have not said the token yet; whoever has taken longest goes when another comes."""


class Seats:
    """So that a client that connects without end cannot use up what tasks need too."""

    def __init__(self) -> None:
        self._taken = 0
        self._changed = anyio.Event()

    async def empty_for(self, seconds: float) -> None:
        """Until none was taken for so long."""
        while True:
            changed = self._changed
            with anyio.move_on_after(math.inf if self._taken else seconds) as waited:
                await changed.wait()
            if waited.cancelled_caught:
                return

    def take(self) -> bool:
        """Whether there was one left."""
        if self._taken >= MOST_CLIENTS:
            return False
        self._change(1)
        return True

    def _change(self, by: int) -> None:
        self._taken += by
        self._changed.set()
        self._changed = anyio.Event()

    @contextmanager
    def later(self) -> Iterator["Seat"]:
        """For somebody who may take one."""
        seat = Seat(self)
        try:
            yield seat
        finally:
            if seat.is_taken:
                self._change(-1)


class Seat:
    def __init__(self, seats: Seats) -> None:
        self._seats = seats
        self.is_taken = False

    def take(self) -> bool:
        """Whether there is one left."""
        self.is_taken = self.is_taken or self._seats.take()
        return self.is_taken


class Strangers:
    """Those who came and are not known yet. They take no seat from those who are, and none can
    keep others out: the door is never closed, but whoever has stood in it longest has to go."""

    def __init__(self) -> None:
        self._there: list[Stranger] = []

    @contextmanager
    def one(self) -> Iterator["Stranger"]:
        if len(self._there) >= MOST_STRANGERS:
            self._there.pop(0).scope.cancel()
        stranger = Stranger(self._there)
        with stranger.scope:
            try:
                yield stranger
            finally:
                stranger.is_known()


class Stranger:
    def __init__(self, there: "list[Stranger]") -> None:
        self._there = there
        self.scope = anyio.CancelScope()
        there.append(self)

    def is_known(self) -> None:
        if self in self._there:
            self._there.remove(self)


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
    def __init__(self, path: Path, until_left: float | None = None) -> None:
        """It ends once nobody was there for as many seconds, and no task has anything to do."""
        self._path = path
        self._until_left = until_left
        self._seats = Seats()

    async def run(self, host: Host) -> RunEnd:
        async with unix_listener(self._path) as listener, anyio.create_task_group() as group:
            _announce(socket=str(self._path))
            group.start_soon(let_in, listener, group, partial(self._welcome, host))
            await self._left(host)
            group.cancel_scope.cancel()
        return RunEnd(Fate.COMPLETED)

    async def _left(self, host: Host) -> None:
        if self._until_left is None:
            await anyio.sleep_forever()
        else:
            await self._seats.empty_for(self._until_left)
            while not await host.query(AskRest()):
                await self._seats.empty_for(self._until_left)

    async def _welcome(self, host: Host, stream: SocketStream) -> None:
        async with stream:
            with self._seats.later() as seat:
                if is_of_our_own(stream) and seat.take():
                    await serve(host, channel_on(stream))


class WebSocketServer(_Server):
    def __init__(self, port: int, folder: Path) -> None:
        if find_spec("websockets") is None:
            raise SettingsError("--port needs the package websockets: pip install websockets")
        self._port = port
        self._folder = folder
        self._token = new_token()
        self._seats = Seats()
        self._strangers = Strangers()

    async def run(self, host: Host) -> RunEnd:
        async with await self._listener() as listener:
            self._port = listener.extra(SocketAttribute.local_port)
            token_file = self._folder / f"{self._port}.token"
            put(token_file, [self._token.encode()])
            try:
                _announce(url=f"ws://{LOOPBACK}:{self._port}", token_file=str(token_file))
                async with anyio.create_task_group() as group:
                    await let_in(listener, group, partial(self._welcome, host))
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
                f"Cannot listen on port {self._port} ({error.strerror or error}). "
                "Give another with --port, or 0 for any free one."
            ) from error

    async def _welcome(self, host: Host, stream: SocketStream) -> None:
        async with stream:
            with self._strangers.one() as stranger, self._seats.later() as seat:
                caller = await shake_hands(stream, port=self._port, token=self._token)
                if caller:
                    await self._talk(host, caller, stranger, seat)

    async def _talk(self, host: Host, caller: WebCaller, stranger: Stranger, seat: Seat) -> None:
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


def _announce(**where: str) -> None:
    print(json.dumps(where), flush=True)


def _run(
    stdio: bool, socket: Path | None, port: int | None, until_left: float | None, **flags: Any
) -> int:
    if until_left is not None and (stdio or port is not None):
        raise SettingsError("--until-left needs a server on a Unix socket.")
    if sum((stdio, socket is not None, port is not None)) > 1:
        raise SettingsError("Give one of --stdio, --socket and --port.")
    options = _options(flags)
    options.check()
    places = find_places(os.environ)
    store = TaskStore(places)
    store.sweep()
    run = prepare(options, places, store)
    if not run.consent.may_act:
        print(
            f"note: Read-only: the folder is not trusted. To trust it: {NAME} trust",
            file=sys.stderr,
        )
    private_folder(_folder(places))
    path = (socket or socket_for(places, run.workspace)).absolute()
    server: Client = UnixServer(path, until_left)
    if stdio:
        server = StdioServer()
    elif port is not None:
        server = WebSocketServer(port, _folder(places))
    return run_client(run, server)


def _options(flags: dict[str, Any]) -> Options:
    """What the flags of a server ask for. Nobody is asked at a terminal, just as for one who
    drives a run through pipes."""
    usual = task.make_context(NAME, []).params
    return Options(**{**usual, **flags, "json_io": True})


class _ServeOrManage(click.Command):
    """With --web it is the command `manager`, and takes the flags of that one."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> click.Context:
        if "--web" not in args:
            return super().make_context(info_name, args, parent, **extra)
        from rookery.manager.cli.manager_command import command as manager

        rest = [each for each in args if each != "--web"]
        return manager.make_context(info_name, rest, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        return super().invoke(ctx) if ctx.command is self else ctx.command.invoke(ctx)


command = _ServeOrManage(
    "serve",
    callback=_run,
    help=(
        "Run sessions for clients that attach and detach: on this workspace's "
        "socket, on --socket, on standard input and output, or on a local port. "
        "Prints the address as one line of JSON."
    ),
    params=[
        click.Option(["--stdio"], is_flag=True, help="Serve on standard input and output."),
        click.Option(
            ["--socket"], type=click.Path(path_type=Path), help="Listen on this Unix socket."
        ),
        click.Option(
            ["--port"],
            type=click.IntRange(0, 65535),
            help="Listen for WebSockets on this port; 0 takes any free one.",
        ),
        click.Option(
            ["--until-left"],
            type=click.FloatRange(min=0),
            metavar="SECONDS",
            help="Exit after this many seconds without clients or work.",
        ),
        click.Option(
            ["--web"],
            is_flag=True,
            expose_value=False,
            help=f"Serve the Agent Manager's page; same options as {NAME} manager.",
        ),
        *(param for param in task.params if param.name in LIKE_A_TASK),
    ],
)
