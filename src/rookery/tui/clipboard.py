"""The picture in the clipboard of the desktop, asked for with whatever program is there."""

import os
import shutil
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from subprocess import DEVNULL, PIPE

import anyio
from anyio.abc import Process

from rookery.core.limits import MIB

PATIENCE_SECONDS = 2.0
"""For all programs together: who owns the clipboard may never answer."""
MOST_READ = 10 * MIB
_READERS: Sequence[Sequence[str]] = (
    ("wl-paste", "--type", "image/png"),
    ("xclip", "-selection", "clipboard", "-t", "image/png", "-o"),
    ("pngpaste", "-"),
)


def readers() -> list[Sequence[str]]:
    """The commands that print a picture, of those that are installed."""
    return [command for command in _READERS if shutil.which(command[0])]


def what_to_install() -> str:
    return "pngpaste" if sys.platform == "darwin" else "wl-clipboard or xclip"


async def clipboard_picture(patience: float = PATIENCE_SECONDS) -> bytes:
    """Nothing if there is none. One byte more than `MOST_READ` if there is more than that."""
    with anyio.move_on_after(patience):
        for command in readers():
            if data := await _printed(command):
                return data
    return b""


async def _printed(command: Sequence[str]) -> bytes:
    """What a command prints, if it succeeds or there is too much of it."""
    try:
        process = await anyio.open_process(
            command, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, start_new_session=True
        )
    except OSError:  # it went away, or is no program of this machine
        return b""
    try:
        data = await _read(process)
        enough = len(data) > MOST_READ or await process.wait() == 0
        return data if enough else b""
    finally:
        with anyio.CancelScope(shield=True):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.aclose()


async def _read(process: Process) -> bytes:
    assert process.stdout
    data = bytearray()
    async for piece in process.stdout:
        data += piece
        if len(data) > MOST_READ:
            break
    return bytes(data[: MOST_READ + 1])
