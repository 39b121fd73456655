"""Lines from a pipe or a file, read beside everything else and without a thread."""

import os
from collections.abc import AsyncIterator

import anyio
import anyio.lowlevel

from rookery.errors import SettingsError

MIB = 1024 * 1024
LONGEST = 64 * MIB
"""Bytes of a line. Of a longer one only the beginning is kept."""
_AT_ONCE = 65536
_LINES_PER_TURN = 50


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
