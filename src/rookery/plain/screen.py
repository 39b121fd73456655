"""One terminal or file, and everybody who writes to it in turn.

`WordWrap` breaks lines between words although the words come in pieces: a piece is written at once,
and if its word turns out not to fit, the word is wiped out and written again on the next line.
"""

import os
import re
from collections.abc import Callable
from typing import TextIO

from rookery.core.text.terminal_text import Paint, cells_of

_PARTS = re.compile(r"\n|[^\S\n]+|\S+")
_TAB = 8
LEFT_AT_PROMPT = "The session is kept."


class WordWrap:
    """What was written on the last line, as far as it matters for what comes next."""

    def __init__(self) -> None:
        self._column = 0
        self._word = ""
        self._too_long = False

    def add(self, text: str, width: int) -> str:
        """What to write on a terminal of this width, so that the text is the next to be seen."""
        # the last column stays free: behind it a terminal's idea of where it is differs
        return "".join(self._written(part, width - 1) for part in _PARTS.findall(text))

    def _written(self, part: str, edge: int) -> str:
        if part == "\n":
            return self._next_line()
        if part.isspace():
            return self._blank(part, edge)
        if self._too_long or self._column + cells_of(part) <= edge:
            return self._go_on(part, edge)
        begun = cells_of(self._word)
        whole = self._word + part
        if begun == self._column or cells_of(whole) > edge:
            self._too_long = True
            return self._go_on(part, edge)
        wipe = "\b" * begun + " " * begun
        return wipe + self._next_line() + self._go_on(whole, edge)

    def _next_line(self) -> str:
        self._column, self._word, self._too_long = 0, "", False
        return "\n"

    def _blank(self, part: str, edge: int) -> str:
        """A blank that would go over the edge is the end of the line."""
        self._word, self._too_long = "", False
        begun = self._column
        for char in part:
            self._column += _TAB - self._column % _TAB if char == "\t" else 1
        if self._column > edge:
            self._column = edge
            return " " * (edge - begun)
        return part

    def _go_on(self, part: str, edge: int) -> str:
        self._word += part
        room = self._column + cells_of(part) <= edge
        self._column = self._column + cells_of(part) if room else self._broken_off(part, edge + 1)
        return part

    def _broken_off(self, part: str, width: int) -> int:
        """Where the cursor is after the terminal itself has broken what is longer than a line."""
        column = self._column
        for cells in map(cells_of, part):
            column = column + cells if column + cells <= width else cells
        return column


_USUAL_WIDTH = 80


class Screen:
    """Lines, one below the other. Words may be streamed into the last one; a status is replaced
    by whatever comes next; an open question stays the last thing to be seen.
    """

    def __init__(self, out: TextIO, *, colour: bool, live: bool) -> None:
        self.paint = Paint(colour)
        self._out = out
        self._live = live
        self._unfinished = ""
        """What the last line belongs to, if it has no end yet."""
        self._status = ""
        self._question = ""
        self._wrap = WordWrap()

    def line(self, text: str) -> None:
        """One whole line, whatever was being written before."""
        self.end_line()
        self._write(text + "\n")

    def sentence(self, text: str, paint: Callable[[str], str] = str, *, margin: str = "") -> None:
        """The same for prose: its lines end between words."""
        wrapped = self._wrapped(WordWrap(), text, self._width() - len(margin))
        self.line("\n".join(paint(f"{margin}{line}") for line in wrapped.split("\n")))

    def prose(self, what: str, text: str, paint: Callable[[str], str] = str) -> None:
        """Prose behind prose of the same thing, or on a line of its own."""
        if self._unfinished != what:
            self._wrap = WordWrap()
        self.stream(what, paint(self._wrapped(self._wrap, text, self._width())))
        self._unfinished = "" if text.endswith("\n") else what

    @property
    def is_live(self) -> bool:
        """It is a terminal on which words come one by one."""
        return self._live

    @property
    def width(self) -> int:
        return self._width()

    def verbatim(self, what: str, text: str) -> None:
        """Behind the same thing, but not wrapped: code, a table."""
        self._wrap = WordWrap()
        self.stream(what, text)

    def stream(self, what: str, text: str, *, margin: str = "") -> None:
        """Words behind those of the same thing, or on a line of their own."""
        self._clear_status()
        if self._unfinished != what:
            self.end_line()
            self._write(margin)
        self._write(text)
        self._unfinished = "" if text.endswith("\n") else what

    def status(self, text: str) -> None:
        """A line that the next one replaces; only where lines can be replaced."""
        text = text[: self._width() - 1]
        if self._live and text != self._status:
            self.end_line()
            self._write(self.paint.dim(text))
            self._status = text

    @property
    def busy(self) -> bool:
        """Something is being written or asked that a status would interrupt."""
        return bool(self._unfinished or self._question)

    def ask(self, question: str) -> None:
        """Leave the cursor behind a question until `close_question`."""
        self.end_line()
        self._question = question
        self.repeat_question()

    def close_question(self) -> None:
        self._question = ""

    def echo(self, typed: str) -> None:
        """What was typed behind a question, where the terminal does not show it itself."""
        self._write(typed)
        if typed.endswith("\n"):
            self.enter()

    def enter(self) -> None:
        """Somebody pressed Enter, so the terminal has ended the line by itself."""
        self._unfinished = self._status = ""

    def repeat_question(self) -> None:
        """Show the open question again if something was written below it."""
        if self._question and self._unfinished != "question":
            self.end_line()
            self._write(self.paint.bold(self._question))
            self._unfinished = "question"

    def end_line(self) -> None:
        self._clear_status()
        if self._unfinished:
            self._unfinished = ""
            self._write("\n")

    def _clear_status(self) -> None:
        if self._status:
            self._write("\r" + " " * len(self._status) + "\r")
            self._status = ""

    def _wrapped(self, wrap: WordWrap, text: str, width: int) -> str:
        return wrap.add(text, width) if self._live else text

    def _width(self) -> int:
        try:
            return os.get_terminal_size(self._out.fileno()).columns or _USUAL_WIDTH
        except OSError:
            return _USUAL_WIDTH

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
