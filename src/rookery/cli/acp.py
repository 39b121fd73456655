"""`rookery acp`: the agent of an editor, over the Agent Client Protocol.

Each session has a host of its own, because folder, further folders and MCP servers are its own.
Standard output carries the protocol only: whatever else is printed goes to standard error.
"""

import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import anyio
import anyio.to_thread
import click
import msgspec
from msgspec.structs import replace

from rookery import NAME
from rookery.app.extra_tools import GivenByClient
from rookery.app.model_choice import NoKey
from rookery.cli.main import session_flags
from rookery.cli.options import driven_options
from rookery.cli.run import KILLED_BY, handled_signals, open_run, silence_libraries
from rookery.cli.run_options import Run, prepare
from rookery.compat.acp.agent import AcpAgent
from rookery.compat.acp.folders import OpenedFolder, SignInNeeded, WantedFolder
from rookery.core.facts import Event
from rookery.core.queries import KnownTask
from rookery.errors import SettingsError, first_error
from rookery.platform.user_folders import Places, find_places
from rookery.protocol.channels import Channel, DescriptorStream, LineChannel
from rookery.storage.sessions import TaskStore

LONGEST_MESSAGE = 64 * 2**20
"""Bytes of a message; images are in it."""


class LocalFolders:
    """Opens the folders of sessions with the flags of the command."""

    def __init__(self, flags: dict[str, Any], places: Places, *, acts_anyway: bool = True) -> None:
        """`acts_anyway`: a folder that is not trusted may be changed."""
        self._acts_anyway = acts_anyway
        self._options = driven_options(flags)
        self._places = places
        self._is_logged_out = False

    @asynccontextmanager
    async def open(self, wanted: WantedFolder) -> AsyncIterator[OpenedFolder]:
        if self._is_logged_out:
            raise SignInNeeded(f"You logged out. Sign in again, or run: {NAME} auth")
        run = await anyio.to_thread.run_sync(self._prepare, wanted)
        servers = msgspec.json.encode({"mcpServers": wanted.servers}) if wanted.servers else b""
        given = GivenByClient(servers=servers, buffers=wanted.files)
        async with open_run(run, given) as host:
            yield OpenedFolder(host=host, stored=run.stored, trusted=run.consent.trusted)

    async def sessions(self, cwd: str) -> Sequence[KnownTask]:
        return await anyio.to_thread.run_sync(self._sessions, cwd)

    async def events(self, session_id: str) -> Sequence[Event]:
        store = TaskStore(self._places)
        return await anyio.to_thread.run_sync(lambda: list(store.read(session_id)))

    async def delete(self, session_id: str) -> None:
        from rookery.storage.cli.delete import delete_with_subtasks

        await anyio.to_thread.run_sync(delete_with_subtasks, TaskStore(self._places), session_id)

    async def fork(self, source: str, session_id: str) -> None:
        from rookery.storage.session_copies import fork

        now = time.time_ns() // 1_000_000
        copy = partial(fork, TaskStore(self._places), source, session_id, at=None, now=now)
        await anyio.to_thread.run_sync(copy)

    async def check_model(self) -> None:
        await anyio.to_thread.run_sync(self._prepare, WantedFolder(cwd="/"))
        self._is_logged_out = False

    async def log_out(self) -> None:
        await anyio.to_thread.run_sync(self._forget_key)
        self._is_logged_out = True

    def _forget_key(self) -> None:
        from rookery.providers.cli.auth_command import remove_key

        with suppress(SignInNeeded):
            choice = self._prepare(WantedFolder(cwd="/")).choice
            if choice.key:
                remove_key(choice.provider, self._places.keys_file)

    def _prepare(self, wanted: WantedFolder) -> Run:
        """Collect what a session needs. The editor speaks for its user: it may change a folder
        that is not trusted, but nothing from the folder is used."""
        folder = Path(wanted.cwd)
        if not os.path.isdir(folder):
            raise SettingsError(f"No such folder: {folder}. Nothing was done.")
        options = replace(
            self._options,
            workspace=folder.resolve(),
            add_dir=tuple(map(Path, wanted.added)),
            session_id=wanted.session_id or None,
        )
        options.check()
        try:
            run = prepare(options, self._places, TaskStore(self._places))
        except NoKey as error:
            raise SignInNeeded(str(error)) from error
        if not self._acts_anyway:
            return run
        return replace(run, consent=replace(run.consent, acts_anyway=not run.consent.trusted))

    def _sessions(self, cwd: str) -> Sequence[KnownTask]:
        folder = str(Path(cwd).resolve()) if cwd else None
        listed = TaskStore(self._places).list(folder, hidden=False)
        return [each.as_known() for each in listed]


def _run(sign_in: bool, **flags: Any) -> int:
    if sign_in:
        from rookery.providers.cli.auth_command import auth

        return int(auth.main(args=[], standalone_mode=False) or 0)
    if sys.stdin.isatty():
        raise SettingsError(f"{NAME} acp is started by an editor. See {NAME} acp --help.")
    places = find_places(os.environ)
    TaskStore(places).sweep()
    return serve_protocol(lambda channel: AcpAgent(channel, LocalFolders(flags, places)))


class ProtocolServer(Protocol):
    async def run(self) -> None:
        """Run until the other side closes the connection."""
        ...


def serve_protocol(make: Callable[[Channel], ProtocolServer]) -> int:
    """Serve a protocol on standard input and output until its end or a signal."""
    try:
        with silence_libraries(), _own_output() as output:
            return anyio.run(_serve, make, output)
    except BaseExceptionGroup as group:
        raise first_error(group) from group


async def _serve(make: Callable[[Channel], ProtocolServer], output: int) -> int:
    stream = DescriptorStream(sys.stdin.fileno(), output)
    agent = make(LineChannel(stream, LONGEST_MESSAGE))
    killed: list[int] = []
    with anyio.open_signal_receiver(*handled_signals()) as signals:
        async with anyio.create_task_group() as group:
            group.start_soon(_stop_on_signal, signals, killed, group.cancel_scope)
            await agent.run()
            group.cancel_scope.cancel()
    return KILLED_BY + killed[0] if killed else 0


async def _stop_on_signal(
    signals: AsyncIterator[signal.Signals], killed: list[int], scope: anyio.CancelScope
) -> None:
    async for number in signals:
        killed.append(number)
        scope.cancel()


@contextmanager
def _own_output() -> Iterator[int]:
    """A descriptor for the protocol. Standard output becomes standard error."""
    sys.stdout.flush()
    own = os.dup(1)
    os.dup2(2, 1)
    try:
        yield own
    finally:
        sys.stdout.flush()
        os.dup2(own, 1)
        os.close(own)


command = click.Command(
    "acp",
    callback=_run,
    help=(
        "Work in an editor that speaks the Agent Client Protocol: Zed, JetBrains IDEs, Neovim, "
        "Emacs. The editor starts this command and exchanges messages on standard input and "
        "output. Flags apply to all sessions."
    ),
    params=[
        click.Option(
            ["--auth", "sign_in"],
            is_flag=True,
            help=f"Store a provider's key in this terminal, as {NAME} auth does, then exit.",
        ),
        *session_flags("allow_outside", "allow_protected", "reasoning_effort"),
    ],
)
