"""`rookery serve`: run sessions for clients that attach and detach.

`Seats` limits the number of clients and measures how long there has been none.
"""

import hashlib
import json
import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import anyio
import click
from anyio.abc import SocketAttribute, SocketListener, SocketStream

from rookery import NAME
from rookery.cli.main import session_flags
from rookery.cli.options import driven_options
from rookery.cli.run import Client, run_client
from rookery.cli.run_options import prepare
from rookery.core.queries import AskRest
from rookery.errors import SettingsError
from rookery.platform.disk import private_folder, put
from rookery.platform.user_folders import Places, find_places
from rookery.protocol.attend import Fate, RunEnd
from rookery.protocol.channels import (
    DescriptorStream,
    LineChannel,
    accept_connections,
    channel_on,
    is_same_user,
    unix_listener,
)
from rookery.protocol.codec import Host
from rookery.protocol.server import new_token, serve
from rookery.protocol.web_sockets import LOOPBACK, WebCaller, accept_web_socket
from rookery.storage.sessions import TaskStore

MOST_CLIENTS = 100
"""Clients of one server at the same time."""
MOST_PENDING = 16
"""Clients that have not authenticated yet; one more evicts the oldest."""


class Seats:
    """Limits the number of clients, so that connections cannot exhaust the resources of tasks."""

    def __init__(self) -> None:
        self._taken = 0
        self._changed = anyio.Event()

    async def empty_for(self, seconds: float) -> None:
        """Wait until there has been no client for this long."""
        while True:
            changed = self._changed
            with anyio.move_on_after(math.inf if self._taken else seconds) as waited:
                await changed.wait()
            if waited.cancelled_caught:
                return

    @contextmanager
    def reserve(self) -> Iterator[Callable[[], bool]]:
        """Yield a function that takes a seat, if one is left. The seat is freed at the end."""
        is_taken = False

        def take() -> bool:
            nonlocal is_taken
            if not is_taken and self._taken < MOST_CLIENTS:
                is_taken = True
                self._change(1)
            return is_taken

        try:
            yield take
        finally:
            if is_taken:
                self._change(-1)

    def _change(self, by: int) -> None:
        self._taken += by
        self._changed.set()
        self._changed = anyio.Event()


class PendingClients:
    """Clients that have not authenticated yet. They take no seats, and cannot keep others out:
    when there are too many, the oldest is disconnected."""

    def __init__(self) -> None:
        self._clients: list[anyio.CancelScope] = []

    @contextmanager
    def add(self) -> Iterator[anyio.CancelScope]:
        if len(self._clients) >= MOST_PENDING:
            self._clients.pop(0).cancel()
        with anyio.CancelScope() as pending:
            self._clients.append(pending)
            try:
                yield pending
            finally:
                self.authenticated(pending)

    def authenticated(self, client: anyio.CancelScope) -> None:
        if client in self._clients:
            self._clients.remove(client)


def socket_for(places: Places, workspace: Path) -> Path:
    """Return the default socket of a workspace's server."""
    return _folder(places) / f"{_name(workspace)}.sock"


def _folder(places: Places) -> Path:
    return places.state / "serve"


def _name(workspace: Path) -> str:
    return hashlib.sha256(os.fsencode(workspace)).hexdigest()[:16]


class _Server:
    """A client of the host that serves it to others."""

    async def on_interrupt(self, host: Host) -> bool:
        return False

    def report_end(self, end: RunEnd) -> None:
        pass


class StdioServer(_Server):
    """Serves the parent process until it closes our input."""

    async def run(self, host: Host) -> RunEnd:
        stream = DescriptorStream(sys.stdin.fileno(), sys.stdout.fileno())
        await serve(host, LineChannel(stream))
        return RunEnd(Fate.COMPLETED)


class UnixServer(_Server):
    def __init__(self, path: Path, until_left: float | None = None) -> None:
        """The server ends after `until_left` seconds without clients, once all tasks are idle."""
        self._path = path
        self._until_left = until_left
        self._seats = Seats()

    async def run(self, host: Host) -> RunEnd:
        async with unix_listener(self._path) as listener, anyio.create_task_group() as group:
            _announce(socket=str(self._path))
            group.start_soon(accept_connections, listener, group, partial(self._accept, host))
            await self._wait_until_left(host)
            group.cancel_scope.cancel()
        return RunEnd(Fate.COMPLETED)

    async def _wait_until_left(self, host: Host) -> None:
        if self._until_left is None:
            await anyio.sleep_forever()
        else:
            await self._seats.empty_for(self._until_left)
            while not await host.query(AskRest()):
                await self._seats.empty_for(self._until_left)

    async def _accept(self, host: Host, stream: SocketStream) -> None:
        async with stream:
            with self._seats.reserve() as take_seat:
                if is_same_user(stream) and take_seat():
                    await serve(host, channel_on(stream))


class WebSocketServer(_Server):
    def __init__(self, port: int, folder: Path) -> None:
        if find_spec("websockets") is None:
            raise SettingsError("--port needs the package websockets: pip install websockets")
        self._port = port
        self._folder = folder
        self._token = new_token()
        self._seats = Seats()
        self._pending = PendingClients()

    async def run(self, host: Host) -> RunEnd:
        async with await self._listener() as listener:
            self._port = listener.extra(SocketAttribute.local_port)
            token_file = self._folder / f"{self._port}.token"
            put(token_file, [self._token.encode()])
            try:
                _announce(url=f"ws://{LOOPBACK}:{self._port}", token_file=str(token_file))
                async with anyio.create_task_group() as group:
                    await accept_connections(listener, group, partial(self._accept, host))
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

    async def _accept(self, host: Host, stream: SocketStream) -> None:
        async with stream:
            with self._pending.add() as pending, self._seats.reserve() as take_seat:
                caller = await accept_web_socket(stream, port=self._port, token=self._token)
                if caller:
                    await self._serve(host, caller, pending, take_seat)

    async def _serve(
        self,
        host: Host,
        caller: WebCaller,
        pending: anyio.CancelScope,
        take_seat: Callable[[], bool],
    ) -> None:
        def admit() -> bool:
            if has_seat := take_seat():
                self._pending.authenticated(pending)
                caller.channel.trust()
            return has_seat

        try:
            if not caller.known:
                await serve(host, caller.channel, token=self._token, admit=admit)
            elif admit():
                await serve(host, caller.channel)
        finally:
            if not pending.cancel_called:
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
    options = driven_options(flags)
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


class _ServeOrManage(click.Command):
    """The command `serve`. With --web it is `manager` and takes its flags."""

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
        *session_flags("workspace", "allow_outside", "allow_protected"),
    ],
)
