"""One line as it is typed, key by key, where the terminal does not collect it."""

import unicodedata
from collections.abc import Callable

import anyio

from rookery.clients.terminal_text import cells_of
from rookery.core.values import record

_ENTER = "\r\n"
_ERASE = "\x7f\b"
_CTRL_C, _CTRL_D, _CTRL_U, _ESCAPE = "\x03", "\x04", "\x15", "\x1b"


@record
class TimedLine:
    """What came of waiting for a line. Nobody's words are empty words."""

    value: str
    timed_out: bool = False
    cancelled: bool = False


class TypedLine:
    """Enter ends it, and what was pasted behind a line break is left over."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._typed: list[str] = []
        self._skipping = ""
        self.begun = anyio.Event()
        self.ended = anyio.Event()
        self.result = TimedLine("")

    def take(self, text: str) -> str:
        """Type this; what is left of it once the line has ended."""
        for at, key in enumerate(text):
            if self.ended.is_set():
                return text[at:]
            self.begun.set()
            self._press(key)
        return ""

    def end_of_input(self) -> None:
        self._end(TimedLine("", timed_out=True))

    def _press(self, key: str) -> None:
        if self._skipped(key):
            return
        if key in _ENTER:
            self._show("\n")
            self._end(TimedLine("".join(self._typed)))
        elif key == _CTRL_C:
            self._end(TimedLine("", cancelled=True))
        elif key == _CTRL_D and not self._typed:
            self.end_of_input()
        elif key in _ERASE:
            self._erase(1)
        elif key == _CTRL_U:
            self._erase(len(self._typed))
        elif key == "\t" or unicodedata.category(key)[0] != "C":
            self._typed.append(key)
            self._show(" " if key == "\t" else key)

    def _skipped(self, key: str) -> bool:
        """Whether the key is part of what an arrow or another special key sends."""
        if key == _ESCAPE:
            self._skipping = key
            return True
        if not self._skipping:
            return False
        follows = self._skipping == _ESCAPE and key in "[O"
        within = len(self._skipping) > 1 and not "@" <= key <= "~"
        self._skipping = self._skipping + key if follows or within else ""
        return True

    def _erase(self, count: int) -> None:
        for _ in range(min(count, len(self._typed))):
            cells = cells_of(self._typed.pop())
            self._show("\b" * cells + " " * cells + "\b" * cells)

    def _end(self, result: TimedLine) -> None:
        self.begun.set()
        if not self.ended.is_set():
            self.result = result
            self.ended.set()
