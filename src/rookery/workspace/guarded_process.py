"""Our end of a command that runs under a warden: its output, what became of it, and its leash.

Nothing here waits. `sources` says what to wait for, and `listen` and `read` take what is there.
"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import ClassVar

from rookery.core.limits import KIB
from rookery.errors import ToolError
from rookery.workspace.orphans import birth, end_orphans, take_orphans_in

WARDEN = Path(__file__).with_name("warden.py")
READ_SIZE = 64 * KIB


class GuardedProcess:
    """A command, its warden, and the pipe and the socket between them and us.

    `pid` is 0 until the command runs, `status` is None until its end was seen. Once `gone`,
    the warden has ended, and before it everything that descends from the command.
    """

    _wardens: ClassVar[set[int]] = set()

    def __init__(
        self, argv: Sequence[str], *, grace: float, folder: Path, environment: Mapping[str, str]
    ) -> None:
        self.pid = 0
        self.status: int | None = None
        self.failure = 0
        self.output_open = True
        self.gone = False
        self._heard = b""
        take_orphans_in()
        with ExitStack() as undo:
            self._link, theirs = socket.socketpair()
            undo.callback(self._link.close)
            undo.callback(theirs.close)
            self._pipe, pipe_in = os.pipe()
            undo.callback(os.close, self._pipe)
            undo.callback(os.close, pipe_in)
            self._warden = subprocess.Popen(
                [sys.executable, "-I", "-S", str(WARDEN), str(grace), *argv],
                stdin=theirs.fileno(),
                stdout=pipe_in,
                stderr=pipe_in,
                cwd=folder,
                env=environment,
                start_new_session=True,
            )
            undo.pop_all()
        self._wardens.add(self._warden.pid)
        theirs.close()
        os.close(pipe_in)
        self._link.setblocking(False)
        os.set_blocking(self._pipe, False)

    @property
    def sources(self) -> list[int]:
        return [self._link.fileno(), *([self._pipe] if self.output_open else [])]

    def read(self) -> bytes:
        """What the command has written since; nothing if it is silent or has closed its output."""
        if not self.output_open:
            return b""
        try:
            data = os.read(self._pipe, READ_SIZE)
        except BlockingIOError:
            return b""
        self.output_open = bool(data)
        return data

    def listen(self) -> None:
        """Hear what the warden has said since."""
        while not self.gone:
            try:
                data = self._link.recv(KIB)
            except BlockingIOError:
                return
            self.gone = not data
            *lines, self._heard = (self._heard + data).split(b"\n")
            for line in lines:
                self._hear(line.decode())

    def _hear(self, line: str) -> None:
        word, _, number = line.partition(" ")
        match word:
            case "started":
                self.pid = int(number)
            case "ended":
                self.status = int(number)
            case "failed":
                self.failure = int(number)

    def stop(self) -> None:
        """Have the warden end everything. Output may still come, and must still be read."""
        with suppress(OSError):  # some systems mind that the other side is closed already
            self._link.shutdown(socket.SHUT_WR)

    def kill(self) -> None:
        """For a warden that does not do its work. The shell dies with it."""
        self._warden.kill()
        self.gone = True

    def close(self) -> None:
        """Give back everything, and the warden to the system. Only for a process that is `gone`."""
        since = birth(self._warden.pid)
        killed = self._warden.wait() != 0
        self._wardens.discard(self._warden.pid)
        if killed and self.pid and self.status is None:
            with suppress(ProcessLookupError, PermissionError):  # a killed warden ended nobody
                os.killpg(self.pid, signal.SIGKILL)
        if killed and since:
            end_orphans(since, self._wardens)
        self._link.close()
        os.close(self._pipe)


def guarded(
    argv: Sequence[str], *, grace: float, folder: Path, environment: Mapping[str, str]
) -> GuardedProcess:
    """Start a command. Raises `ToolError` with the system's reason if it does not let us."""
    try:
        return GuardedProcess(argv, grace=grace, folder=folder, environment=environment)
    except OSError as error:
        raise not_started(error.errno) from error
    except ValueError as error:
        raise ToolError("The command holds characters that no shell can be given.") from error


def not_started(number: int | None) -> ToolError:
    reason = os.strerror(number) if number else "the shell was gone before it ran"
    return ToolError(f"The command could not be started: {reason}.")
