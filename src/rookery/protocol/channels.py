"""Message channels: whole messages in order, over any transport.

A message is one JSON text: a line of a stream, a WebSocket message, or an object passed between two
ends in one process. `accept_connections` accepts connections of a listener. `unix_listener` listens
at a Unix socket that only its owner can use, in at most one process.
"""

import errno
import os
import socket
import stat
import struct
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from math import inf
from pathlib import Path
from typing import Any, Protocol

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream, SocketAttribute, SocketListener, SocketStream, TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from rookery import NAME
from rookery.errors import SettingsError
from rookery.platform.locks import open_lock, try_lock

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
    """Files and devices such as /dev/null cannot be waited for, and are always ready."""
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISREG(kind) or (stat.S_ISCHR(kind) and not os.isatty(descriptor)):
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


_LONGEST_ADDRESS = 100
_MASK = 0o177
_SOL_LOCAL, _LOCAL_PEERCRED, _LENGTH_OF_XUCRED = 0, 1, 76
"""Constants of macOS that Python does not define."""


@asynccontextmanager
async def unix_listener(path: Path) -> AsyncIterator[SocketListener]:
    """Listen at `path`, replacing an abandoned socket. Raises `SettingsError` if another process
    listens there, or if the socket cannot be created."""
    with _claimed(path):
        async with await SocketListener.from_socket(_bound(path)) as listener:
            yield listener


async def unix_channel(path: Path) -> LineChannel:
    """Connect to the process that listens at `path`. Raises `SettingsError` if there is none."""
    try:
        with _address(path) as address:
            return channel_on(await anyio.connect_unix(address), LONGEST_FROM_HOST)
    except OSError as error:
        raise SettingsError(
            f"No server is listening on {path} ({_reason(error)}). Start one with: {NAME} serve. "
            f'A session in this terminal needs none: {NAME} "your task"'
        ) from error


def channel_on(stream: SocketStream, longest: int = LONGEST_MESSAGE) -> LineChannel:
    return LineChannel(_SocketBytes(stream), longest)


class _SocketBytes(DescriptorStream):
    """anyio's own reader prints to standard error if it is cancelled at the moment data arrives."""

    def __init__(self, stream: SocketStream) -> None:
        descriptor = stream.extra(SocketAttribute.raw_socket).fileno()
        super().__init__(descriptor, descriptor)
        self._stream = stream

    async def aclose(self) -> None:
        await self._stream.aclose()


def is_same_user(stream: SocketStream) -> bool:
    """Whether the process at the other end runs as the same user."""
    return _user_at(stream.extra(SocketAttribute.raw_socket)) == os.geteuid()


def _user_at(end: socket.socket) -> int:
    if sys.platform == "darwin":
        credentials = end.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _LENGTH_OF_XUCRED)
        (user,) = struct.unpack_from("4xI", credentials)
    else:
        _, user, _ = struct.unpack("3i", end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return int(user)


@contextmanager
def _claimed(path: Path) -> Iterator[None]:
    """Hold a lock while listening, so that no other process does. A lock dies with its holder,
    unlike a socket file."""
    _check_place(path)
    lock = path.with_name(f"{path.name}.lock")
    try:
        descriptor = open_lock(lock)
    except OSError as error:
        raise _impossible(path, error) from error
    try:
        if not _locked(descriptor, lock):
            raise _taken(path)
        try:
            if _has_listener(path):
                raise _taken(path)
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
        finally:
            lock.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _check_place(path: Path) -> None:
    """Checked before anything is written next to it."""
    try:
        other = not stat.S_ISSOCK(path.lstat().st_mode)
    except FileNotFoundError:
        other = False
    except OSError as error:
        raise _impossible(path, error) from error
    if other or not path.name:
        raise SettingsError(f"{path} is not a socket. Give another path.")


def _locked(descriptor: int, lock: Path) -> bool:
    """Whether the lock is ours: the last holder may have removed the file while we waited."""
    try:
        return try_lock(descriptor) and os.path.samestat(os.fstat(descriptor), lock.stat())
    except FileNotFoundError:
        return False


def _taken(path: Path) -> SettingsError:
    return SettingsError(
        f"A server is already listening on {path}. Attach to it, or give another path "
        "with --socket."
    )


def _has_listener(path: Path) -> bool:
    try:
        _check_place(path)
        with socket.socket(socket.AF_UNIX) as caller, _address(path) as address:
            caller.setblocking(False)
            caller.connect(address)
    except (FileNotFoundError, ConnectionRefusedError):
        return False
    except BlockingIOError:
        return True  # a server listens, but its queue is full
    except OSError as error:
        raise _impossible(path, error) from error
    return True


def _bound(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    usual = os.umask(_MASK)  # so that there is no moment at which others could connect
    try:
        path.unlink(missing_ok=True)
        with _address(path) as address:
            listener.bind(address)
        listener.listen()
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise _impossible(path, error) from error
    finally:
        os.umask(usual)
    return listener


@contextmanager
def _address(path: Path) -> Iterator[str]:
    """The address of the path. Long paths are not allowed, but Linux has a short name for any
    open folder."""
    if len(os.fsencode(path)) <= _LONGEST_ADDRESS or sys.platform != "linux":
        yield os.fspath(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def _impossible(path: Path, error: OSError) -> SettingsError:
    return SettingsError(
        f"Cannot create a socket at {path} ({_reason(error)}). Give another path with --socket."
    )


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
