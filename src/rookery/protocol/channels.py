"""Message channels: whole messages in order, over any transport.

A message is one JSON text: a line of a stream, a WebSocket message, or an object passed between two
ends in one process. `accept_connections` accepts connections of a listener.
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
"""Default limit for the bytes of a message."""
LONGEST_FROM_HOST = 256 * 2**20
"""Limit for messages from a host, which its client trusts."""
_AT_ONCE = 2**16
_SURELY_TAKEN = 4096
"""Bytes that a writable pipe accepts without blocking (PIPE_BUF)."""
_GONE = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)

SECONDS_UNTIL_ROOM = 0.2
NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED)
"""Errors on accepting a connection that may go away."""


class ChannelEnded(Exception):
    """The other end is closed."""


class TooLong(Exception):
    """A message exceeded the limit. It was skipped; the next one can be read."""


class Channel(Protocol):
    async def receive(self) -> bytes:
        """The next message. Raises `ChannelEnded` or `TooLong`."""
        ...

    async def send(self, messages: Sequence[bytes]) -> None:
        """Send messages. Must not be cancelled halfway if the channel is used later. Raises
        `ChannelEnded`."""
        ...

    async def aclose(self) -> None: ...


class LineChannel:
    """One message per line of a stream. An incomplete last line is dropped."""

    def __init__(self, stream: ByteStream, longest: int = LONGEST_MESSAGE) -> None:
        self._stream = stream
        self._longest = longest
        self._received = bytearray()
        self._searched = 0
        self._skipping = False

    async def receive(self) -> bytes:
        while True:
            while (end := self._received.find(b"\n", self._searched)) < 0:
                await self._receive_more()
            line = bytes(self._received[:end])
            del self._received[: end + 1]
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

    async def _receive_more(self) -> None:
        if len(self._received) > self._longest:
            self._skipping = True
            self._received.clear()
        self._searched = len(self._received)
        try:
            self._received += await self._stream.receive(_AT_ONCE)
        except _GONE as error:
            raise ChannelEnded from error


class DescriptorStream(ByteStream):
    """Two descriptors as one stream, such as standard input and output. Their blocking mode is
    left unchanged, because other processes may share them; waiting happens only in the event
    loop."""

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
        """The descriptors stay open; their owner closes them."""
        await anyio.lowlevel.checkpoint()


async def _until(ready: Callable[[int], Awaitable[None]], descriptor: int) -> None:
    """A regular file cannot be waited for, and is always ready."""
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
    """The two ends of a channel with a small buffer."""
    there_out, here_in = anyio.create_memory_object_stream[bytes](room)
    here_out, there_in = anyio.create_memory_object_stream[bytes](room)
    with there_out, here_in, here_out, there_in:
        yield MemoryChannel(here_in, here_out), MemoryChannel(there_in, there_out)


async def accept_connections(
    listener: SocketListener,
    group: TaskGroup,
    welcome: Callable[[SocketStream], Coroutine[Any, Any, None]],
) -> None:
    """Accept connections. Without free descriptors, they wait in the backlog."""
    while True:
        try:
            stream = await listener.accept()
        except (OSError, anyio.BrokenResourceError) as error:
            if getattr(error.__cause__ or error, "errno", 0) not in NO_ROOM:
                raise
            await anyio.sleep(SECONDS_UNTIL_ROOM)
        else:
            group.start_soon(welcome, stream)
