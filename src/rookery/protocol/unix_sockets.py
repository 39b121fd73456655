"""A Unix socket that only its owner can use, with at most one listening process."""

import os
import socket
import stat
import struct
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio
from anyio.abc import SocketAttribute, SocketListener, SocketStream

from rookery import NAME
from rookery.errors import SettingsError
from rookery.platform.locks import open_lock, try_lock
from rookery.protocol.channels import (
    LONGEST_FROM_HOST,
    LONGEST_MESSAGE,
    DescriptorStream,
    LineChannel,
)

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
            f"No server is listening on {path} ({_reason(error)}). Start one with: {NAME} serve"
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
        return True  # so many want to talk to it that we would have to wait
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
