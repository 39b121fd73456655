"""Text for a reader who may be slow, or gone. Nobody waits for them: what they have not taken yet
is kept, and the run goes on."""

import errno
import os
import select
import time

import anyio

from rookery.errors import StorageError

PIECE = 4096
"""Bytes. A pipe that takes any takes as many at once, so writing them never waits."""


class Outbox:
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
