"""The driver's pipes: lines read from one, and text for a reader who may be slow, or gone.

Neither needs a thread, and nobody waits for the reader: what it has not taken yet is kept, and
the run goes on.
"""

import errno
import os
import select
import time
from collections.abc import AsyncIterator

import anyio
import anyio.lowlevel

from rookery.errors import SettingsError, StorageError

MIB = 1024 * 1024
LONGEST = 64 * MIB
"""Bytes of a line. Of a longer one only the beginning is kept."""
_AT_ONCE = 65536
_LINES_PER_TURN = 50

PIECE = 4096
"""Bytes. A pipe that takes any takes as many at once, so writing them never waits."""


class InputLost(SettingsError):
    """There is an input, but it cannot be read."""


async def input_lines(descriptor: int, longest: int = LONGEST) -> AsyncIterator[bytes]:
    """Each line without its end, which is LF or CRLF; what follows the last end is one too."""
    line = bytearray()
    while data := await _read(descriptor):
        *ended, rest = data.split(b"\n")
        for number, piece in enumerate(ended, 1):
            _add(line, piece, longest)
            yield bytes(line).removesuffix(b"\r")
            line.clear()
            if number % _LINES_PER_TURN == 0:  # so that whoever sends many holds up nothing else
                await anyio.lowlevel.checkpoint()
        _add(line, rest, longest)
    if line:
        yield bytes(line).removesuffix(b"\r")


def _add(line: bytearray, piece: bytes, longest: int) -> None:
    line += piece[: max(0, longest + 1 - len(line))]


async def _read(descriptor: int) -> bytes:
    while True:
        try:
            await _until_readable(descriptor)
            return os.read(descriptor, _AT_ONCE)
        except BlockingIOError:
            continue  # somebody else has read it
        except OSError as error:
            raise InputLost(
                f"The input cannot be read ({error.strerror}). Give a pipe or a file that can be."
            ) from error


async def _until_readable(descriptor: int) -> None:
    try:
        await anyio.wait_readable(descriptor)
    except PermissionError:
        # what epoll does not watch is a file or /dev/null, of which reading never waits
        await anyio.lowlevel.checkpoint()


class OutputQueue:
    """What is written goes out as far as the reader takes it; the rest does while `run` runs."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._kept = bytearray()
        self._lost = False
        """Nothing can be written any more, which was said once."""
        self._more = anyio.Event()
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    def fileno(self) -> int:
        return self._descriptor

    def write(self, text: str) -> None:
        if not self._lost:
            self._kept += text.encode()

    def flush(self) -> None:
        self._push()
        if self._kept:
            self._more.set()

    async def run(self) -> None:
        while True:
            while self._kept:
                await anyio.wait_writable(self._descriptor)
                self._push()
            self._more = anyio.Event()
            await self._more.wait()

    def empty(self, seconds: float) -> None:
        """Wait for the reader, but not for ever."""
        deadline = time.monotonic() + seconds
        while self._kept and (left := deadline - time.monotonic()) > 0:
            self._push(left)

    def _push(self, seconds: float = 0.0) -> None:
        while self._kept and self._poll.poll(seconds * 1000):
            try:
                sent = os.write(self._descriptor, self._kept[:PIECE])
            except BlockingIOError:  # whoever started us did not want us to wait
                return
            except ConnectionError:
                raise
            except OSError as error:
                raise self._given_up(error) from error
            del self._kept[:sent]

    def _given_up(self, error: OSError) -> Exception:
        self._lost = True
        self._kept.clear()
        if error.errno == errno.EIO:
            return BrokenPipeError(errno.EPIPE, "the terminal hung up")
        return StorageError(
            f"The output cannot be written ({error.strerror}). The task is kept and can be resumed."
        )
