"""A terminal or file that several writers share.

`WordWrap` wraps streamed text: a fragment is written at once, and if its word turns out not to fit,
the word is erased and rewritten on the next line. `OutputExcerpt` selects the shown part of a
command's output. `ModelText` keeps the last text of the model.
"""

import os
from collections import deque
from collections.abc import Callable
from typing import TextIO

from rookery.core.blocks import ToolCall
from rookery.core.facts import (
    AssistantSpoke,
    CompletionOffered,
    Fact,
    RequestFailed,
    RequestStarted,
    TextStreamed,
    ThinkingStreamed,
    Waiting,
)
from rookery.core.text.terminal_text import Paint, cells_of
from rookery.first_use import lazy_pattern
from rookery.protocol.attend import BESIDE_A_QUESTION

_PARTS = lazy_pattern(r"\n|[^\S\n]+|\S+")
_TAB = 8
OUTPUT_LINES = 18
"""Lines of a command's output shown as they arrive; after that only the last lines are shown."""
LAST_LINES = 6
LINE_LENGTH = 500
LEFT_AT_PROMPT = "The session is kept."


class WordWrap:
    """Wraps streamed text at word boundaries; keeps the state of the last line."""

    def __init__(self) -> None:
        self._column = 0
        self._word = ""
        self._too_long = False

    def add(self, text: str, width: int) -> str:
        """Return what to write to a terminal of this width to append the text."""
        # terminals disagree about the cursor's position after the last column: leave it free
        return "".join(self._place(part, width - 1) for part in _PARTS.findall(text))

    def _place(self, part: str, edge: int) -> str:
        if part == "\n":
            return self._next_line()
        if part.isspace():
            return self._blank(part, edge)
        if self._too_long or self._column + cells_of(part) <= edge:
            return self._append(part, edge)
        written = cells_of(self._word)
        whole = self._word + part
        if written == self._column or cells_of(whole) > edge:
            self._too_long = True
            return self._append(part, edge)
        wipe = "\b" * written + " " * written
        return wipe + self._next_line() + self._append(whole, edge)

    def _next_line(self) -> str:
        self._column, self._word, self._too_long = 0, "", False
        return "\n"

    def _blank(self, part: str, edge: int) -> str:
        """Append white space; what does not fit on the line is dropped."""
        self._word, self._too_long = "", False
        start = self._column
        for char in part:
            self._column += _TAB - self._column % _TAB if char == "\t" else 1
        if self._column > edge:
            self._column = edge
            return " " * (edge - start)
        return part

    def _append(self, part: str, edge: int) -> str:
        self._word += part
        room = self._column + cells_of(part) <= edge
        self._column = self._column + cells_of(part) if room else self._column_at(part, edge + 1)
        return part

    def _column_at(self, part: str, width: int) -> int:
        """The cursor's column after the terminal itself wraps a word longer than a line."""
        column = self._column
        for cells in map(cells_of, part):
            column = column + cells if column + cells <= width else cells
        return column


_DEFAULT_WIDTH = 80


class Screen:
    """Writes lines, streamed text, a transient status line and an open question.

    The next output replaces a status line; an open question stays at the bottom.
    """

    def __init__(self, out: TextIO, *, colour: bool, live: bool) -> None:
        self.paint = Paint(colour)
        self._out = out
        self._live = live
        self._unfinished = ""
        """What is being streamed into the last line, if that line has not ended."""
        self._status = ""
        self._awaited = ""
        self._question = ""
        self._wrap = WordWrap()

    def line(self, text: str) -> None:
        """Write a whole line, after ending a streamed one."""
        self.end_line()
        self._write(text + "\n")

    def sentence(self, text: str, paint: Callable[[str], str] = str, *, margin: str = "") -> None:
        """Write a whole line of prose, wrapped at word boundaries."""
        wrapped = self._wrapped(WordWrap(), text, self.width - len(margin))
        self.line("\n".join(paint(f"{margin}{line}") for line in wrapped.split("\n")))

    def prose(self, what: str, text: str, paint: Callable[[str], str] = str) -> None:
        """Stream prose, wrapped; a different `what` starts a new line."""
        if self._unfinished != what:
            self._wrap = WordWrap()
        self.stream(what, paint(self._wrapped(self._wrap, text, self.width)))
        self._unfinished = "" if text.endswith("\n") else what

    @property
    def is_live(self) -> bool:
        """Whether this is a terminal that shows output as it streams."""
        return self._live

    def verbatim(self, what: str, text: str) -> None:
        """Stream text without wrapping, such as code or a table."""
        self._wrap = WordWrap()
        self.stream(what, text)

    def stream(self, what: str, text: str, *, margin: str = "") -> None:
        """Append text to the current line; a different `what` starts a new line."""
        self._clear_status()
        if self._unfinished != what:
            self.end_line()
            self._write(margin)
        self._write(text)
        self._unfinished = "" if text.endswith("\n") else what

    def status(self, text: str) -> None:
        """Show a line that the next output replaces; does nothing if output is not live."""
        text = text[: self.width - 1]
        if self._live and text != self._status:
            self.end_line()
            self._write(self.paint.dim(text))
            self._status = text

    def waiting(self, what: str, seconds: float) -> None:
        """Show why nothing happens: as a status or, if output is not live, as a line once."""
        if self._live:
            self.status(f"  {what or 'no answer yet'} ({seconds:.0f} s)")
        elif what and what != self._awaited:
            self.line(self.paint.dim(f"  {what}"))
            self._awaited = what

    @property
    def busy(self) -> bool:
        """Whether a status line would interrupt streamed text or a question."""
        return bool(self._unfinished or self._question)

    def ask(self, question: str) -> None:
        """Show a question and leave the cursor behind it until `close_question`."""
        self.end_line()
        self._question = question
        self.repeat_question()

    def close_question(self) -> None:
        self._question = ""

    def echo(self, typed: str) -> None:
        """Echo typed characters where the terminal does not."""
        self._write(typed)
        if typed.endswith("\n"):
            self.enter()

    def enter(self) -> None:
        """Note that the user pressed Enter, which moved the cursor to a new line."""
        self._unfinished = self._status = ""

    def repeat_question(self) -> None:
        """Show the open question again if something was written after it."""
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

    @property
    def width(self) -> int:
        try:
            return os.get_terminal_size(self._out.fileno()).columns or _DEFAULT_WIDTH
        except OSError:
            return _DEFAULT_WIDTH

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


class ModelText:
    def __init__(self) -> None:
        self._arriving: list[str] = []
        self._last = ""
        self._held: list[str] = []

    @property
    def last(self) -> str:
        """The last text of the model, complete or as far as it arrived."""
        return "".join(self._arriving).strip() or self._last

    def update(self, fact: Fact) -> None:
        match fact:
            case TextStreamed(text=text):
                self._arriving.append(text)
                return
            case RequestFailed():
                self._last = self.last
            case AssistantSpoke():
                self._last = fact.words or self._last
            case CompletionOffered(result=result):
                self._last = result
            case RequestStarted():
                pass
            case _:
                return
        self._arriving = []

    def hold(self, text: str) -> None:
        self._held.append(text)

    def release(self, fact: Fact) -> str:
        """Return the held text if this fact shows that it is not the result."""
        match fact:
            case CompletionOffered(spoken=True):
                self._held = []
                return ""
            case TextStreamed() | ThinkingStreamed() | Waiting():
                return ""
            case AssistantSpoke() if not _has_calls(fact):
                return ""
            case _ if isinstance(fact, BESIDE_A_QUESTION):
                return ""
        held, self._held = "".join(self._held), []
        return held


def _has_calls(answer: AssistantSpoke) -> bool:
    return any(isinstance(block, ToolCall) for block in answer.blocks)


class OutputExcerpt:
    """Excerpt of a command's output: the first lines, and the last of the remaining ones."""

    def __init__(self) -> None:
        self.shown = 0
        self.hidden = 0
        self._last: deque[str] = deque(maxlen=LAST_LINES)
        self._unfinished = False
        self._column = 0

    def clip(self, piece: str) -> str:
        """Return the part of the piece that fits within the maximum line length."""
        words, start = piece.rstrip("\n"), self._column
        self._column = 0 if piece.endswith("\n") else start + len(words)
        if start + len(words) <= LINE_LENGTH:
            return words
        return words[: LINE_LENGTH - start] + "…" if start <= LINE_LENGTH else ""

    def skip(self, lines: int) -> None:
        """Count lines that were never received; the lines before them are no longer the last
        ones."""
        self.shown = OUTPUT_LINES
        self.hidden += lines
        self._last.clear()
        self._unfinished = False

    def hide(self, words: str, *, ends: bool) -> None:
        if self._unfinished:
            self._last[-1] += words
        else:
            self._last.append(words)
            self.hidden += 1
        self._unfinished = not ends

    def rest(self) -> list[str]:
        """The last lines, preceded by the number of lines left out."""
        between = self.hidden - len(self._last)
        return [*([f"… {between} more lines"] if between else []), *self._last]
