"""A program that is spoken to through pipes, and the warden that ends it with all its children."""

import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import anyio

from rookery.platform.own_programs import own_script
from rookery.platform.wardens import (
    WARDEN,
    WaitingWarden,
    become_subreaper,
    end_orphans,
    process_state,
)

GRACE = 1.0
"""Seconds a program has to exit after its input is closed, and again after SIGTERM."""
WARDEN_SECONDS = 3.0
"""Seconds beyond the grace period that the warden may take."""
READ_SIZE = 64 * 1024
TAIL = 4 * 1024
"""Bytes of standard error that are kept."""
READ_PAUSE = 0.01
"""Seconds between full reads of standard error, to slow down a program that writes too much."""


class PipedProcess:
    """A running program. `ended` is its exit status once it has ended; once the warden is `gone`,
    no process is left, unless it was killed. Output is only read by calls of `read` and `drain`."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        grace: float = GRACE,
    ) -> None:
        """`argv` begins with an absolute path. Raises `OSError` if it cannot be started, and
        `ValueError` if it has characters that cannot be passed to a program."""
        become_subreaper()
        self._grace = grace
        self.ended: int | None = None
        self.gone = False
        self.tail = b""
        self._buffer = b""
        with ExitStack() as undo:
            self._control, theirs = socket.socketpair()
            undo.callback(self._control.close)
            stdin, self._input = _pipe(undo)
            self._output, stdout = _pipe(undo)
            self._errors, stderr = _pipe(undo)
            with theirs:
                self._warden = _start_warden(
                    [str(grace), str(theirs.fileno()), *argv],
                    streams=(stdin, stdout, stderr),
                    control=theirs.fileno(),
                    folder=folder,
                    environment=environment,
                )
            undo.pop_all()
        for end in (stdin, stdout, stderr):
            os.close(end)
        for ours in (self._input, self._output, self._errors):
            os.set_blocking(ours, False)
        self._control.setblocking(False)
        self._input_open = True

    async def write(self, data: bytes) -> None:
        """Raises `OSError` once the program no longer reads."""
        view = memoryview(data)
        while view:
            if not self._input_open:  # by now the number may be another file's
                raise BrokenPipeError("The input was closed.")
            try:
                view = view[os.write(self._input, view) :]
            except BlockingIOError:
                with suppress(anyio.ClosedResourceError):
                    await anyio.wait_writable(self._input)

    async def read(self) -> bytes:
        """The next bytes of standard output; empty at its end."""
        return await _read(self._output)

    async def read_errors(self) -> bytes:
        """The next bytes of standard error; empty at its end."""
        return await _read(self._errors)

    async def drain(self) -> None:
        """Read standard error to its end, and keep the tail."""
        while data := await self.read_errors():
            self.tail = (self.tail + data)[-TAIL:]
            if len(data) == READ_SIZE:
                await anyio.sleep(READ_PAUSE)

    async def watch(self) -> None:
        """Wait until the program has ended, even if its children keep the pipes open."""
        while self.ended is None and not self.gone:
            await self._read_status()

    async def end(self) -> None:
        """Close its input; if it does not exit, have the warden end it."""
        self.close_input()
        with anyio.move_on_after(self._grace):
            await self.watch()
        self.stop()
        with anyio.move_on_after(self._grace + WARDEN_SECONDS):
            while not self.gone:
                await self._read_status()

    def stop(self) -> None:
        """Have the warden end it and all its children now."""
        with suppress(OSError):  # the warden is gone already
            self._control.send(b"end\n")

    def close(self) -> None:
        """Release everything; kill the warden if it still runs, and with it the program. What a
        killed warden left behind is ended."""
        self.close_input()
        self._control.close()
        os.close(self._output)
        os.close(self._errors)
        if not self.gone:
            self._warden.kill()
        warden = process_state(self._warden.pid)
        if self._warden.wait() and warden:
            end_orphans(warden.began, WaitingWarden.pids)

    def close_input(self) -> None:
        if self._input_open:
            self._input_open = False
            anyio.notify_closing(self._input)
            os.close(self._input)

    async def _read_status(self) -> None:
        await anyio.wait_readable(self._control)
        try:
            data = self._control.recv(1024)
        except BlockingIOError:
            return
        except ConnectionResetError:  # the warden ended with unread data
            data = b""
        self.gone = not data
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            self.ended = int(line.removeprefix(b"ended "))


def _start_warden(
    argv: list[str],
    *,
    streams: tuple[int, int, int],
    control: int,
    folder: Path,
    environment: Mapping[str, str],
) -> "subprocess.Popen[bytes]":
    stdin, stdout, stderr = streams
    return subprocess.Popen(
        [sys.executable, "-I", "-S", own_script(WARDEN), "keep", *argv],
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        pass_fds=(control,),
        cwd=folder,
        env=environment,
        process_group=0,
    )


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
