"""Ways to the other side: messages as bytes, whole and in order, over whatever carries them.

A message is one JSON text. On a stream it is a line; a WebSocket has frames of its own, and two
ends in one process hand it over as it is. `let_in` accepts the callers of a listener.
"""

import errno
import os
import stat
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from math import inf
from typing import Any, Protocol

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream, SocketListener, SocketStream, TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

LONGEST_MESSAGE = 16 * 2**20
"""Bytes of one message, unless a channel is told otherwise."""
LONGEST_OF_A_HOST = 256 * 2**20
"""Of those that a client hears from its host, which it has no reason to distrust."""
_AT_ONCE = 2**16
_SURELY_TAKEN = 4096
"""Bytes that a pipe takes without blocking whenever it says that it takes any (PIPE_BUF)."""
_GONE = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)

SECONDS_UNTIL_ROOM = 0.2
NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED)
"""Why a caller cannot be let in now, although others may later."""


class ChannelEnded(Exception):
    """There is nobody at the other end any more."""


class TooLong(Exception):
    """A message came that is longer than allowed. It was skipped; the next one can be read."""


class Channel(Protocol):
    async def receive(self) -> bytes:
        """The next message. Raises `ChannelEnded` or `TooLong`."""
        ...

    async def send(self, messages: Sequence[bytes]) -> None:
        """Hand messages over. Not to be cancelled in between if the channel is used on. Raises
        `ChannelEnded`."""
        ...

    async def aclose(self) -> None: ...


class LineChannel:
    """One message per line of a stream. A line that was begun when the stream ended is dropped."""

    def __init__(self, stream: ByteStream, longest: int = LONGEST_MESSAGE) -> None:
        self._stream = stream
        self._longest = longest
        self._heard = bytearray()
        self._searched = 0
        self._skipping = False

    async def receive(self) -> bytes:
        while True:
            while (end := self._heard.find(b"\n", self._searched)) < 0:
                await self._hear_more()
            line = bytes(self._heard[:end])
            del self._heard[: end + 1]
            self._searched = 0
            skipped, self._skipping = self._skipping or len(line) > self._longest, False
            if skipped:
                raise TooLong
            if line.strip():
                return line

    async def send(self, messages: Sequence[bytes]) -> None:
        try:
            await self._stream.send(b"\n".join((*messages, b"")))
        except _GONE as error:
            raise ChannelEnded from error

    async def aclose(self) -> None:
        with suppress(OSError, *_GONE):
            await self._stream.aclose()

    async def _hear_more(self) -> None:
        if len(self._heard) > self._longest:
            self._skipping = True
            self._heard.clear()
        self._searched = len(self._heard)
        try:
            self._heard += await self._stream.receive(_AT_ONCE)
        except _GONE as error:
            raise ChannelEnded from error


class DescriptorStream(ByteStream):
    """Two descriptors as one stream: standard input and output, say. Whether they block is left
    as it is, because they may belong to others too; nothing here waits but in the loop."""

    def __init__(self, reads: int, writes: int) -> None:
        self._reads = reads
        self._writes = writes
        self._piece = _SURELY_TAKEN if os.get_blocking(writes) else _AT_ONCE

    async def receive(self, max_bytes: int = _AT_ONCE) -> bytes:
        while True:
            await _until(anyio.wait_readable, self._reads)
            try:
                data = os.read(self._reads, max_bytes)
            except BlockingIOError:
                continue
            except OSError as error:
                raise anyio.BrokenResourceError from error
            if not data:
                raise anyio.EndOfStream
            return data

    async def send(self, item: bytes) -> None:
        rest = memoryview(item)
        while rest:
            await _until(anyio.wait_writable, self._writes)
            try:
                rest = rest[os.write(self._writes, rest[: self._piece]) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise anyio.BrokenResourceError from error

    async def send_eof(self) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """They stay open: whoever opened them closes them."""
        await anyio.lowlevel.checkpoint()


async def _until(ready: Callable[[int], Awaitable[None]], descriptor: int) -> None:
    """Nothing can wait for a plain file, which is always ready."""
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        await anyio.lowlevel.checkpoint()
    else:
        await ready(descriptor)


class MemoryChannel:
    """One of two ends in the same process."""

    def __init__(
        self, inbox: MemoryObjectReceiveStream[bytes], outbox: MemoryObjectSendStream[bytes]
    ) -> None:
        self._inbox = inbox
        self._outbox = outbox

    async def receive(self) -> bytes:
        try:
            return await self._inbox.receive()
        except _GONE as error:
            raise ChannelEnded from error

    async def send(self, messages: Sequence[bytes]) -> None:
        try:
            for message in messages:
                await self._outbox.send(message)
        except _GONE as error:
            raise ChannelEnded from error

    async def aclose(self) -> None:
        self._inbox.close()
        self._outbox.close()


@contextmanager
def memory_channels(room: float = inf) -> Iterator[tuple[MemoryChannel, MemoryChannel]]:
    """Two ends of one channel, with room for some messages on their way."""
    there_out, here_in = anyio.create_memory_object_stream[bytes](room)
    here_out, there_in = anyio.create_memory_object_stream[bytes](room)
    with there_out, here_in, here_out, there_in:
        yield MemoryChannel(here_in, here_out), MemoryChannel(there_in, there_out)


async def let_in(
    listener: SocketListener,
    group: TaskGroup,
    welcome: Callable[[SocketStream], Coroutine[Any, Any, None]],
) -> None:
    """Everybody who comes. While there is no room for more, they wait at the door."""
    while True:
        try:
            stream = await listener.accept()
        except (OSError, anyio.BrokenResourceError) as error:
            if getattr(error.__cause__ or error, "errno", 0) not in NO_ROOM:
                raise
            await anyio.sleep(SECONDS_UNTIL_ROOM)
        else:
            group.start_soon(welcome, stream)
