"""The terminal itself: where it is written to, and whether its ground is light."""

import os
import re
import select
import sys
import termios
import time
import tty
from codecs import getincrementaldecoder
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.drivers import linux_driver
from textual.drivers.linux_driver import LinuxDriver
from textual.keys import Keys
from textual.message import Message

from rookery.platform.terminal_guard import guard_of

ASK_GROUND = b"\x1b]11;?\x1b\\"
ASK_WHO = b"\x1b[c"
"""Every terminal answers this, so that nobody waits for an answer that does not come."""
ANSWER_SECONDS = 0.4
_GROUND_ANSWER = re.compile(rb"\x1b\]11;[^\x07\x1b]*(?:\x07|\x1b\\\\)")
_GROUND = re.compile(rb"\x1b\]11;rgba?:([0-9a-fA-F]+)/([0-9a-fA-F]+)/([0-9a-fA-F]+)")
_WHO = re.compile(rb"\x1b\[\?[0-9;]*c")
_LIGHT_GROUNDS = {"7", "15"}

_LINE_BREAKS = ("\x1b\r", "\x1b\n", "\x1b[27;2;13~", "\x1b[27;3;13~", "\x1b[27;5;13~")
"""Alt+Enter, and Enter with other keys, as terminals without the newer protocols spell them."""


_RESET = (
    "\x1b[?2026l\x1b[?2004l\x1b[?7h\x1b[?2048l"
    "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1015l\x1b[?1016l\x1b[?1004l"
    "\x1b[<u\x1b[0m\x1b[?1049l\x1b[?25h"
)
"""What Textual switches on, switched off: pastes, mouse, focus, keys, the other screen, cursor."""
_TOLD_LATE = re.compile(r"\x1b\]11;[^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[\?[0-9;]*c")


class KeyParser(XTermParser):
    """Leaves out what the terminal tells of itself after nobody waits for it any more, which would
    be typed into the input area. What was typed before the screen was there comes first."""

    typed_early = ""

    def feed(self, data: str) -> Iterable[Message]:
        yield from self._early()
        keys = _TOLD_LATE.sub("", data)
        # nothing at all would mean that nothing more comes
        if keys or not data:
            yield from super().feed(keys)

    def tick(self) -> Iterable[Message]:
        yield from self._early()
        yield from super().tick()

    def _early(self) -> Iterable[Message]:
        early, KeyParser.typed_early = KeyParser.typed_early, ""
        if keys := _TOLD_LATE.sub("", early):
            yield from super().feed(keys)


class ScreenDriver(LinuxDriver):
    """Draws on standard output, so that standard error may go elsewhere. If the program is killed,
    the terminal is given back all the same."""

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

    def start_application_mode(self) -> None:
        guard = guard_of(self.fileno)
        before: list[Any] | None = None
        with suppress(termios.error):
            before = termios.tcgetattr(self.fileno)
            termios.tcsetattr(self.fileno, termios.TCSANOW, self._raw(before))
            keep_early_keys(_available(self.fileno))
        super().start_application_mode()  # type: ignore[no-untyped-call]
        self.attrs_before = before
        guard.on(_RESET)

    def stop_application_mode(self) -> None:
        super().stop_application_mode()
        guard_of(self.fileno).off()

    def _raw(self, modes: list[Any]) -> list[Any]:
        raw = [*modes]
        raw[tty.LFLAG] = self._patch_lflag(raw[tty.LFLAG])
        raw[tty.IFLAG] = self._patch_iflag(raw[tty.IFLAG])
        return raw


def keep_early_keys(typed: bytes) -> None:
    """What was typed before the screen was there is typed once it is. The terminal has made
    each Enter a line feed until then."""
    keys = _GROUND_ANSWER.sub(b"", _WHO.sub(b"", typed)).replace(b"\n", b"\r")
    KeyParser.typed_early += keys.decode("utf-8", "replace")


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
    guard = guard_of(telling)
    try:
        before = termios.tcgetattr(telling)
    except termios.error:
        return None
    try:
        tty.setcbreak(telling, termios.TCSANOW)
        guard.on()
        os.write(asking, ASK_GROUND + ASK_WHO)
        answer = _answer(telling)
        keep_early_keys(answer)
        return light_in(answer)
    finally:
        termios.tcsetattr(telling, termios.TCSANOW, before)
        guard.off()


def _answer(telling: int) -> bytes:
    """All that comes until the terminal has answered, or does not answer; the end of a character
    that is being typed belongs to it."""
    heard = b""
    until = time.monotonic() + ANSWER_SECONDS
    while not _WHO.search(heard) and (left := until - time.monotonic()) > 0:
        piece = _piece(telling, left)
        if not piece:
            break
        heard += piece
    while _ends_within_a_character(heard) and (piece := _piece(telling, ANSWER_SECONDS)):
        heard += piece
    return heard


def _available(telling: int) -> bytes:
    heard = b""
    while piece := _piece(telling, 0):
        heard += piece
    return heard


def _piece(telling: int, seconds: float) -> bytes:
    ready = select.select([telling], [], [], seconds)[0]
    return os.read(telling, 1024) if ready else b""


def _ends_within_a_character(data: bytes) -> bool:
    decoder = getincrementaldecoder("utf-8")("replace")
    decoder.decode(data)
    return bool(decoder.getstate()[0])


def light_in(answer: bytes) -> bool | None:
    """Whether the ground that a terminal named is light; None if it named none."""
    if not (found := _GROUND.search(answer)):
        return None
    red, green, blue = (int(part, 16) / (16 ** len(part) - 1) for part in found.groups())
    return bool(0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.5)
