"""One line as it is typed, key by key, where the terminal does not collect it."""

import unicodedata
from collections.abc import Callable

import anyio
from msgspec import Struct

from rookery.core.text.terminal_text import cells_of

PASTE_BEGINS, PASTE_ENDS = "\x1b[200~", "\x1b[201~"
"""What a terminal puts around what was pasted, if it was told to."""

_ENTER = "\r\n"
_ERASE = "\x7f\b"
_CTRL_C, _CTRL_D, _CTRL_U, _CTRL_W, _ESCAPE = "\x03", "\x04", "\x15", "\x17", "\x1b"


class TimedLine(Struct, frozen=True):
    """What came of waiting for a line. Nobody's words are empty words."""

    value: str
    timed_out: bool = False
    cancelled: bool = False


class TypedLine:
    """Enter ends it, and what follows that is left over. Line breaks in what the terminal says
    was pasted belong to the line."""

    def __init__(
        self, show: Callable[[str], None], at_end_of_input: Callable[[], None] | None = None
    ) -> None:
        """`at_end_of_input` is called instead of ending the line when Ctrl-D is pressed."""
        self._show = show
        self._at_end_of_input = at_end_of_input or self.end_of_input
        self._typed: list[str] = []
        self._unseen: list[str] = []
        self._skipping = ""
        self._pasting = False
        self.begun = anyio.Event()
        self.ended = anyio.Event()
        self.result = TimedLine("")

    @property
    def so_far(self) -> str:
        """What was typed of a line that has not ended."""
        return "" if self.ended.is_set() else "".join(self._typed)

    def take(self, text: str) -> str:
        """Type this; what is left of it once the line has ended."""
        left = ""
        for at, key in enumerate(text):
            if self.ended.is_set():
                left = text[at:]
                break
            self.begun.set()
            self._press(key)
        seen, self._unseen = "".join(self._unseen), []
        if seen:
            self._show(seen)
        return left

    def clear(self) -> None:
        """Begin anew, with nothing typed."""
        self._typed.clear()
        self._skipping, self._pasting = "", False

    def end_of_input(self) -> None:
        self._end(TimedLine("", timed_out=True))

    def _press(self, key: str) -> None:
        if self._skipped(key):
            return
        if key in _ENTER and self._pasting:
            self._add("\n", shown="\n")
        elif key in _ENTER:
            self._unseen.append("\n")
            self._end(TimedLine("".join(self._typed)))
        elif key == _CTRL_C:
            self._end(TimedLine("", cancelled=True))
        elif key == _CTRL_D and not self._typed:
            self._at_end_of_input()
        elif key in _ERASE:
            self._erase(1)
        elif key == _CTRL_U:
            self._erase(len(self._typed))
        elif key == _CTRL_W:
            self._erase(_last_word("".join(self._typed)))
        elif key == "\t" or unicodedata.category(key)[0] != "C":
            self._add(key, shown=" " if key == "\t" else key)

    def _skipped(self, key: str) -> bool:
        """Whether the key is part of what an arrow or another special key sends."""
        if key == _ESCAPE:
            self._skipping = key
            return True
        if not self._skipping:
            return False
        sent = self._skipping + key
        follows = self._skipping == _ESCAPE and key in "[O"
        within = len(self._skipping) > 1 and not "@" <= key <= "~"
        self._skipping = sent if follows or within else ""
        self._pasting = sent == PASTE_BEGINS or (self._pasting and sent != PASTE_ENDS)
        return True

    def _add(self, key: str, *, shown: str) -> None:
        self._typed.append(key)
        self._unseen.append(shown)

    def _erase(self, count: int) -> None:
        for _ in range(min(count, len(self._typed))):
            cells = cells_of(self._typed.pop())
            self._unseen.append("\b" * cells + " " * cells + "\b" * cells)

    def _end(self, result: TimedLine) -> None:
        self.begun.set()
        if not self.ended.is_set():
            self.result = result
            self.ended.set()


def _last_word(text: str) -> int:
    """The length of the last word with the blanks behind it."""
    last = text.split()[-1:]
    return len(text) - len(text.rstrip().removesuffix("".join(last)))
