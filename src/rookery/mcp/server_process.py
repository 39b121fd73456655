"""A server that is a program: its pipes, and the keeper that ends it and all it started."""

import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import anyio

from rookery.core.limits import KIB
from rookery.mcp.config import ServerDefinition
from rookery.mcp.results import ServerFailure
from rookery.mcp.server_programs import (
    environment_for,
    make_empty,
    programs_for,
    starting_folder,
)
from rookery.platform.own_programs import own_script
from rookery.platform.wardens import WARDEN

GRACE = 1.0
"""Seconds a server has to end once its input has ended, and once more when it is asked to."""
KEEPER_SECONDS = 3.0
"""How much longer than the grace the keeper may take."""
READ_SIZE = 64 * KIB
TAIL = 4 * KIB
"""Bytes that are kept of what a server last wrote to its standard error."""
BREATH = 0.01
"""Seconds between two full reads of standard error: a server that shouts is read slowly."""


class ServerProcess:
    """A running server. `ended` is its status once it has ended, and once the keeper is `gone`
    nothing is left of it. Nothing is read but by whoever calls `read` and `drain`.
    """

    def __init__(
        self,
        server: ServerDefinition,
        *,
        workspace: Path,
        empty: Path,
        environ: Mapping[str, str],
    ) -> None:
        """`empty` is a folder for what starts in none of its own. Raises `Failure` if it cannot
        be started."""
        self.server = server
        self.ended: int | None = None
        self.gone = False
        self.tail = b""
        self._heard = b""
        folder = starting_folder(server, workspace, empty)
        if folder == empty:
            make_empty(empty)
        environment = environment_for(server, folder, workspace, environ)
        program = _program(
            server.command, folder, programs_for(server, folder, workspace, environment)
        )
        with ExitStack() as undo:
            self._leash, theirs = socket.socketpair()
            undo.callback(self._leash.close)
            stdin, self._input = _pipe(undo)
            self._output, stdout = _pipe(undo)
            self._errors, stderr = _pipe(undo)
            with theirs:
                self._keeper = _start_keeper(
                    [str(GRACE), str(theirs.fileno()), program, *server.args],
                    streams=(stdin, stdout, stderr),
                    leash=theirs.fileno(),
                    folder=folder,
                    environment=environment,
                )
            undo.pop_all()
        for end in (stdin, stdout, stderr):
            os.close(end)
        for ours in (self._input, self._output, self._errors):
            os.set_blocking(ours, False)
        self._leash.setblocking(False)
        self._input_open = True

    async def write(self, data: bytes) -> None:
        """Raises `OSError` once nobody reads any more."""
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._input, view) :]
            except BlockingIOError:
                await anyio.wait_writable(self._input)

    async def read(self) -> bytes:
        """The next bytes of standard output; nothing once there are no more."""
        return await _read(self._output)

    async def drain(self) -> None:
        """Read standard error to its end, and keep the last of it."""
        while data := await _read(self._errors):
            self.tail = (self.tail + data)[-TAIL:]
            if len(data) == READ_SIZE:
                await anyio.sleep(BREATH)

    async def watch(self) -> None:
        """Wait until the server has ended, whoever still has its pipes open."""
        while self.ended is None and not self.gone:
            await self._listen()

    async def end(self) -> None:
        """Close its input, and have it ended if that was not enough."""
        self._close_input()
        with anyio.move_on_after(GRACE):
            await self.watch()
        with suppress(OSError):  # the keeper is gone already
            self._leash.send(b"end\n")
        with anyio.move_on_after(GRACE + KEEPER_SECONDS):
            while not self.gone:
                await self._listen()

    def close(self) -> None:
        """Give everything back. The server dies with a keeper that does not do its work."""
        self._close_input()
        self._leash.close()
        os.close(self._output)
        os.close(self._errors)
        if not self.gone:
            self._keeper.kill()
        self._keeper.wait()

    def _close_input(self) -> None:
        if self._input_open:
            self._input_open = False
            os.close(self._input)

    async def _listen(self) -> None:
        await anyio.wait_readable(self._leash)
        try:
            data = self._leash.recv(KIB)
        except BlockingIOError:
            return
        except ConnectionResetError:  # it was gone before it had heard all we said
            data = b""
        self.gone = not data
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            self.ended = int(line.removeprefix(b"ended "))


def _start_keeper(
    argv: list[str],
    *,
    streams: tuple[int, int, int],
    leash: int,
    folder: Path,
    environment: Mapping[str, str],
) -> "subprocess.Popen[bytes]":
    stdin, stdout, stderr = streams
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", own_script(WARDEN), "keep", *argv],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=(leash,),
            cwd=folder,
            env=environment,
            process_group=0,
        )
    except OSError as error:
        raise ServerFailure(f"It could not be started ({error.strerror}).") from error
    except ValueError as error:
        raise ServerFailure(
            "Its definition has characters that cannot be passed to a program."
        ) from error


def _program(command: str, folder: Path, found: Sequence[str]) -> str:
    """The program by its whole path."""
    if not folder.is_dir():
        raise ServerFailure(f"No such folder to start it in: {folder}.")
    for program in found:
        if os.path.isfile(program) and os.access(program, os.X_OK):
            return program
    raise ServerFailure(f"No such program: {command}. Install it, or correct the command.")


def _pipe(undo: ExitStack) -> tuple[int, int]:
    ends = os.pipe()
    for end in ends:
        undo.callback(os.close, end)
    return ends


async def _read(file: int) -> bytes:
    while True:
        try:
            return os.read(file, READ_SIZE)
        except BlockingIOError:
            await anyio.wait_readable(file)
