"""The terminal itself: where it is written to, and whether its ground is light."""

import os
import re
import select
import sys
import termios
import time
import tty
from collections.abc import Iterable, Mapping

from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.drivers import linux_driver
from textual.drivers.linux_driver import LinuxDriver
from textual.keys import Keys
from textual.message import Message

ASK_GROUND = b"\x1b]11;?\x1b\\"
ASK_WHO = b"\x1b[c"
"""Every terminal answers this, so that nobody waits for an answer that does not come."""
ANSWER_SECONDS = 0.4
_GROUND = re.compile(rb"\x1b\]11;rgba?:([0-9a-fA-F]+)/([0-9a-fA-F]+)/([0-9a-fA-F]+)")
_WHO = re.compile(rb"\x1b\[\?[0-9;]*c")
_LIGHT_GROUNDS = {"7", "15"}

_LINE_BREAKS = ("\x1b\r", "\x1b\n", "\x1b[27;2;13~", "\x1b[27;3;13~", "\x1b[27;5;13~")
"""Alt+Enter, and Enter with other keys, as terminals without the newer protocols spell them."""


_TOLD_LATE = re.compile(r"\x1b\]11;[^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[\?[0-9;]*c")


class KeyParser(XTermParser):
    """Leaves out what the terminal tells of itself after nobody waits for it any more, which would
    be typed into the input area."""

    def feed(self, data: str) -> Iterable[Message]:
        keys = _TOLD_LATE.sub("", data)
        # nothing at all would mean that nothing more comes
        return super().feed(keys) if keys or not data else ()


class ScreenDriver(LinuxDriver):
    """Draws on standard output, so that standard error may go elsewhere."""

    def __init__(
        self,
        app: App[object],
        *,
        debug: bool = False,
        mouse: bool = True,
        size: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        # without this they would be an Enter like any other, and send half a message
        assert isinstance(ANSI_SEQUENCES_KEYS, dict)
        ANSI_SEQUENCES_KEYS.update(dict.fromkeys(_LINE_BREAKS, (Keys.ControlJ,)))
        linux_driver.XTermParser = KeyParser  # type: ignore[attr-defined]
        assert sys.__stdout__
        self._file = sys.__stdout__


def is_light(environ: Mapping[str, str]) -> bool:
    """Whether the terminal's ground is light, as it says itself; dark if it does not tell."""
    light = _asked()
    if light is None:
        ground = environ.get("COLORFGBG", "").rpartition(";")[2]
        return ground in _LIGHT_GROUNDS
    return light


def _asked() -> bool | None:
    assert sys.__stdin__
    assert sys.__stdout__
    asking, telling = sys.__stdout__.fileno(), sys.__stdin__.fileno()
    try:
        before = termios.tcgetattr(telling)
    except termios.error:
        return None
    try:
        tty.setcbreak(telling, termios.TCSANOW)
        os.write(asking, ASK_GROUND + ASK_WHO)
        return light_in(_answer(telling))
    finally:
        termios.tcsetattr(telling, termios.TCSANOW, before)


def _answer(telling: int) -> bytes:
    heard = b""
    until = time.monotonic() + ANSWER_SECONDS
    while not _WHO.search(heard) and (left := until - time.monotonic()) > 0:
        if not select.select([telling], [], [], left)[0]:
            break
        piece = os.read(telling, 1024)
        if not piece:
            break
        heard += piece
    return heard


def light_in(answer: bytes) -> bool | None:
    """Whether the ground that a terminal named is light; None if it named none."""
    if not (found := _GROUND.search(answer)):
        return None
    red, green, blue = (int(part, 16) / (16 ** len(part) - 1) for part in found.groups())
    return bool(0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.5)
