"""Lines from a pipe or a file, read beside everything else and without a thread."""

import os
from collections.abc import AsyncIterator

import anyio
import anyio.lowlevel

MIB = 1024 * 1024
LONGEST = 64 * MIB
"""Bytes of a line. Of a longer one only the beginning is kept."""
_AT_ONCE = 65536


async def input_lines(descriptor: int, longest: int = LONGEST) -> AsyncIterator[bytes]:
    """Each line without its end, which is LF or CRLF; what follows the last end is one too."""
    line = bytearray()
    while data := await _read(descriptor):
        *ended, rest = data.split(b"\n")
        for piece in ended:
            _add(line, piece, longest)
            yield bytes(line).removesuffix(b"\r")
            line.clear()
        _add(line, rest, longest)
    if line:
        yield bytes(line).removesuffix(b"\r")


def _add(line: bytearray, piece: bytes, longest: int) -> None:
    line += piece[: max(0, longest + 1 - len(line))]


async def _read(descriptor: int) -> bytes:
    try:
        await anyio.wait_readable(descriptor)
    except PermissionError:
        # what epoll does not watch is a file or /dev/null, of which reading never waits
        await anyio.lowlevel.checkpoint()
    return os.read(descriptor, _AT_ONCE)
