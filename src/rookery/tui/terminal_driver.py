"""The terminal driver: output, early keys, line breaks, and whether the background is light."""

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
from textual.drivers._writer_thread import WriterThread
from textual.drivers.linux_driver import LinuxDriver
from textual.keys import Keys
from textual.message import Message

from rookery.platform.terminal_guard import guard_of

QUERY_BACKGROUND = b"\x1b]11;?\x1b\\"
QUERY_DEVICE = b"\x1b[c"
"""Every terminal answers this, so a missing answer to `QUERY_BACKGROUND` is noticed at once."""
ANSWER_SECONDS = 0.4
_BACKGROUND_ANSWER = re.compile(rb"\x1b\]11;[^\x07\x1b]*(?:\x07|\x1b\\)")
_BACKGROUND = re.compile(rb"\x1b\]11;rgba?:([0-9a-fA-F]+)/([0-9a-fA-F]+)/([0-9a-fA-F]+)")
_DEVICE_ANSWER = re.compile(rb"\x1b\[\?[0-9;]*c")
_LIGHT_BACKGROUNDS = {"7", "15"}

_LINE_BREAKS = ("\x1b\r", "\x1b\n", "\x1b[27;2;13~", "\x1b[27;3;13~", "\x1b[27;5;13~")
"""Alt+Enter, and Enter with modifiers, in terminals without the newer keyboard protocols."""


_RESET = (
    "\x1b[?2026l\x1b[?2004l\x1b[?7h\x1b[?2048l"
    "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1015l\x1b[?1016l\x1b[?1004l"
    "\x1b[<u\x1b[0m\x1b[?1049l\x1b[?25h"
)
"""Switches off what Textual switches on: paste, mouse, focus and key modes, alternate screen."""
_LATE_ANSWER = re.compile(r"\x1b\]11;[^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[\?[0-9;]*c")


_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class KeyParser(XTermParser):
    """Drops late answers to terminal queries, which would appear as typed text, and replays keys
    that were typed before the app started."""

    typed_early = ""

    def feed(self, data: str) -> Iterable[Message]:
        yield from self._early()
        keys = _LATE_ANSWER.sub("", data)
        # an empty string would mean the end of input
        if keys or not data:
            yield from super().feed(keys)

    def tick(self) -> Iterable[Message]:
        yield from self._early()
        yield from super().tick()

    def _early(self) -> Iterable[Message]:
        early, KeyParser.typed_early = KeyParser.typed_early, ""
        if keys := early_message(_LATE_ANSWER.sub("", early)):
            yield from super().feed(keys)


def early_message(keys: str) -> str:
    """Keys typed before the screen opened, as one message. One line and Enter is sent. Several
    lines may be a paste, so they wait in the input area; their line breaks become Ctrl+J."""
    breaks = keys.replace("\r\n", "\n").replace("\r", "\n").replace("\x1b\n", "\n")
    lines = breaks.rstrip("\n")
    is_sent = bool(lines.strip()) and "\n" not in lines and lines != breaks
    if "\n" in lines and not _CONTROLS.search(lines):
        lines = f"\x1b[200~{lines}\x1b[201~"  # much faster than key by key
    return lines + ("\r" if is_sent else "")


class TerminalWriter(WriterThread):
    """Discards what it is given once the terminal is gone. The queue is bounded: without a reader,
    the next write would block forever."""

    def run(self) -> None:
        try:
            super().run()
        except OSError:
            while self._queue.get() is not None:
                pass


class ScreenDriver(LinuxDriver):
    """Draws on standard output, so that standard error can be redirected. The terminal is
    restored even if the process is killed."""

    def __init__(
        self,
        app: App[object],
        *,
        debug: bool = False,
        mouse: bool = True,
        size: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        # otherwise these count as Enter and send an unfinished message
        assert isinstance(ANSI_SEQUENCES_KEYS, dict)
        ANSI_SEQUENCES_KEYS.update(dict.fromkeys(_LINE_BREAKS, (Keys.ControlJ,)))
        linux_driver.XTermParser = KeyParser  # type: ignore[attr-defined]
        linux_driver.WriterThread = TerminalWriter  # type: ignore[attr-defined]
        assert sys.__stdout__
        self._file = sys.__stdout__
        self.typed_ahead = False
        """Whether keys were typed before the app started."""

    def start_application_mode(self) -> None:
        guard = guard_of(self.fileno)
        before: list[Any] | None = None
        with suppress(termios.error):
            before = termios.tcgetattr(self.fileno)
            termios.tcsetattr(self.fileno, termios.TCSANOW, self._raw(before))
            keep_early_keys(_available(self.fileno))
            self.typed_ahead = bool(KeyParser.typed_early)
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
    """Keep keys typed before the app started."""
    keys = _BACKGROUND_ANSWER.sub(b"", _DEVICE_ANSWER.sub(b"", typed))
    KeyParser.typed_early += keys.decode("utf-8", "replace")


def is_light(environ: Mapping[str, str]) -> bool:
    """Whether the terminal's background is light; dark if unknown."""
    light = _query_is_light()
    if light is None:
        background = environ.get("COLORFGBG", "").rpartition(";")[2]
        return background in _LIGHT_BACKGROUNDS
    return light


def _query_is_light() -> bool | None:
    assert sys.__stdin__
    assert sys.__stdout__
    stdout_fd, stdin_fd = sys.__stdout__.fileno(), sys.__stdin__.fileno()
    guard = guard_of(stdin_fd)
    try:
        before = termios.tcgetattr(stdin_fd)
    except termios.error:
        return None
    try:
        tty.setcbreak(stdin_fd, termios.TCSANOW)
        guard.on()
        os.write(stdout_fd, QUERY_BACKGROUND + QUERY_DEVICE)
        answer = _read_answer(stdin_fd)
        keep_early_keys(answer)
        return light_in(answer)
    finally:
        termios.tcsetattr(stdin_fd, termios.TCSANOW, before)
        guard.off()


def _read_answer(stdin_fd: int) -> bytes:
    """Read until the terminal has answered or the time is over, up to a complete character."""
    received = b""
    until = time.monotonic() + ANSWER_SECONDS
    while not _DEVICE_ANSWER.search(received) and (left := until - time.monotonic()) > 0:
        piece = _read_some(stdin_fd, left)
        if not piece:
            break
        received += piece
    while _ends_within_a_character(received) and (piece := _read_some(stdin_fd, ANSWER_SECONDS)):
        received += piece
    return received


def _available(stdin_fd: int) -> bytes:
    received = b""
    while piece := _read_some(stdin_fd, 0):
        received += piece
    return received


def _read_some(stdin_fd: int, seconds: float) -> bytes:
    ready = select.select([stdin_fd], [], [], seconds)[0]
    return os.read(stdin_fd, 1024) if ready else b""


def _ends_within_a_character(data: bytes) -> bool:
    decoder = getincrementaldecoder("utf-8")("replace")
    decoder.decode(data)
    return bool(decoder.getstate()[0])


def light_in(answer: bytes) -> bool | None:
    """Whether the background in the terminal's answer is light; None if there is no answer."""
    if not (found := _BACKGROUND.search(answer)):
        return None
    red, green, blue = (int(part, 16) / (16 ** len(part) - 1) for part in found.groups())
    return bool(0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.5)
