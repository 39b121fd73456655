"""The model's words on a terminal: as Markdown, line by line, while they arrive.

What was written is never written again. So a mark such as `**` is held back until its end is
there, for at most a line, and a table until its last row. What turns out to be no Markdown is
written as it came. The text must be harmless already: only our own colours are added.
"""

import re
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

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
from rookery.protocol.attend import BESIDE_A_QUESTION


class SpokenWords:
    def __init__(self) -> None:
        self._arriving: list[str] = []
        self._last = ""
        self._held: list[str] = []

    @property
    def last(self) -> str:
        """The last words of the model, whole or as far as they came."""
        return "".join(self._arriving).strip() or self._last

    def see(self, fact: Fact) -> None:
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

    def released(self, fact: Fact) -> str:
        """Held words of which this fact tells that they are not the result."""
        match fact:
            case CompletionOffered(spoken=True):
                self._held = []
                return ""
            case TextStreamed() | ThinkingStreamed() | Waiting():
                return ""
            case AssistantSpoke() if not _calls(fact):
                return ""
            case _ if isinstance(fact, BESIDE_A_QUESTION):
                return ""
        held, self._held = "".join(self._held), []
        return held


def _calls(answer: AssistantSpoke) -> bool:
    return any(isinstance(block, ToolCall) for block in answer.blocks)


PIECE = 2_000
"""Characters that are looked at together, however many come."""
LONGEST_SPAN = 200
"""Characters that are held back for the end of a mark."""
MOST_ROWS = 50
"""Rows of a table that are held back; the widths of its columns are known by then."""
_MARKS = re.compile(r"[*`]")
"""Underscores are left alone: in talk about programs they belong to names."""
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}#{1,6} +")
_RULE = re.compile(r" {0,3}([-*_])( *\1){2,} *")
_UNDECIDED = re.compile(r" {0,3}(#{0,6}|`{0,2}|~{0,2}|([-*_])( *\2)*) *")
_CODE = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)")
_BOLD = re.compile(r"\*\*(?=\S)(.+?)(?<=\S)\*\*(?!\*)")
_EMPHASIS = re.compile(r"\*(?=[^\s*])(.+?)(?<=[^\s*])\*(?!\*)")
_DELIMITER_ROW = re.compile(r" *\|?( *:?-+:? *\|)+ *:?-*:? *")
_CELL_BORDER = re.compile(r"(?<!\\)\|")


class StyledSpan(Struct, frozen=True):
    """Text to be written. What is verbatim is not wrapped."""

    text: str
    verbatim: bool = False


class MarkdownStream:
    def __init__(self, paint: Paint) -> None:
        self._paint = paint
        self._begin()

    def _begin(self) -> None:
        self._held = ""
        self._is_final = False
        self._begins_line = True
        self._fence = ""
        self._is_heading = False
        self._rows: list[str] = []
        self._widths: list[int] | None = None

    def add(self, text: str, width: int) -> list[StyledSpan]:
        """What to write now that this has come."""
        spans: list[StyledSpan] = []
        for begin in range(0, len(text), PIECE):
            self._held += text[begin : begin + PIECE]
            spans += self._all(width)
        return spans

    def finish(self, width: int) -> list[StyledSpan]:
        """What was held back: nothing more comes."""
        self._is_final = True
        spans = [*self._all(width), *self._table(width)]
        self._begin()
        return spans

    def _all(self, width: int) -> Iterator[StyledSpan]:
        while self._held:
            before = len(self._held), len(self._rows)
            yield from self._next(width)
            if before == (len(self._held), len(self._rows)):
                return

    def _next(self, width: int) -> Iterator[StyledSpan]:
        """The next piece, if it is known what it is."""
        if not self._begins_line:
            yield from self._fenced() if self._fence else self._words()
            return
        line, end, _ = self._held.partition("\n")
        is_whole = bool(end) or self._is_final
        if not is_whole and _may_become_something(line, fenced=bool(self._fence)):
            return
        if self._fence:
            yield from self._fenced_line(line, is_whole=is_whole)
        elif line.lstrip(" ").startswith("|") and is_whole:
            self._take(len(line) + len(end))
            yield from self._table_row(line, width)
        else:
            yield from self._table(width)
            yield from self._begin_line(line, is_whole=is_whole)

    def _take(self, count: int) -> str:
        taken, self._held = self._held[:count], self._held[count:]
        if taken:
            self._begins_line = taken[-1] == "\n"
        return taken

    def _begin_line(self, line: str, *, is_whole: bool) -> Iterator[StyledSpan]:
        self._is_heading = False
        if is_whole and (fence := _FENCE.match(line)):
            self._fence = fence[1]
            yield StyledSpan(
                self._painted(self._take(len(line) + 1), self._paint.dim), verbatim=True
            )
        elif is_whole and _RULE.fullmatch(line):
            yield StyledSpan(
                self._painted(self._take(len(line) + 1), self._paint.dim), verbatim=True
            )
        elif heading := _HEADING.match(line):
            self._is_heading = True
            mark = self._take(heading.end())
            yield from [] if self._paint.on else [StyledSpan(mark)]
        else:
            self._begins_line = False
            yield from self._words()

    def _fenced_line(self, line: str, *, is_whole: bool) -> Iterator[StyledSpan]:
        closing = _FENCE.fullmatch(line.rstrip())
        if closing and closing[1].startswith(self._fence) and is_whole:
            self._fence = ""
            yield StyledSpan(
                self._painted(self._take(len(line) + 1), self._paint.dim), verbatim=True
            )
        else:
            self._begins_line = False
            yield from self._fenced()

    def _fenced(self) -> Iterator[StyledSpan]:
        end = self._held.find("\n") + 1
        taken = self._take(end or len(self._held))
        yield StyledSpan(self._painted(taken, self._paint.cyan), verbatim=True)

    def _words(self) -> Iterator[StyledSpan]:
        """Up to the end of the line, or to a mark whose end has not come."""
        line, end, _ = self._held.partition("\n")
        if not self._paint.on:
            yield StyledSpan(self._take(len(line) + len(end)))
            return
        mark = _MARKS.search(line)
        plain = mark.start() if mark else len(line)
        if plain:
            yield StyledSpan(self._styled(self._take(plain)))
        elif mark:
            yield from self._marked(line, ends=bool(end) or self._is_final)
        elif end:
            yield StyledSpan(self._take(1))

    def _marked(self, line: str, *, ends: bool) -> Iterator[StyledSpan]:
        span = line[:LONGEST_SPAN]
        found = _found(span)
        if found and (ends or len(found[0][0]) < len(span)):
            match, style = found
            self._take(match.end())
            yield StyledSpan(self._styled(self._inner(match, style)))
        elif ends or len(line) > LONGEST_SPAN or not _may_open(span):
            run = len(span) - len(span.lstrip(span[0]))
            yield StyledSpan(self._styled(self._take(run)))

    def _inner(self, match: re.Match[str], style: str) -> str:
        paint = self._paint
        if style == "code":
            return paint.cyan(match[2].strip() or match[2])
        return (paint.bold if style == "bold" else paint.italic)(painted_words(match[1], paint))

    def _styled(self, text: str) -> str:
        return self._paint.bold(text) if self._is_heading and text else text

    def _painted(self, line: str, paint: Callable[[str], str]) -> str:
        words = line.removesuffix("\n")
        return (paint(words) if words else "") + line[len(words) :]

    # tables

    def _table_row(self, line: str, width: int) -> Iterator[StyledSpan]:
        if self._widths is not None:
            yield StyledSpan(
                _drawn_row(_cells(line, self._paint), self._widths) + "\n", verbatim=True
            )
            return
        self._rows.append(line)
        if len(self._rows) >= MOST_ROWS:
            widths = self._columns(width)
            yield from self._table(width)
            self._widths = widths

    def _table(self, width: int) -> Iterator[StyledSpan]:
        """The rows that were held back."""
        rows, widths = self._rows, self._columns(width)
        self._rows, self._widths = [], None
        if widths is None:
            yield from (StyledSpan(painted_words(row, self._paint) + "\n") for row in rows)
            return
        for at, row in enumerate(rows):
            if at == 1:
                yield StyledSpan("─┼─".join("─" * each for each in widths) + "\n", verbatim=True)
                continue
            drawn = _drawn_row(_cells(row, self._paint), widths)
            words = self._paint.bold(drawn) if at == 0 else drawn
            yield StyledSpan(words + "\n", verbatim=True)

    def _columns(self, width: int) -> list[int] | None:
        """How wide each is; None if it is no table, or one that does not fit."""
        rows = self._rows
        if len(rows) < 2 or not _DELIMITER_ROW.fullmatch(rows[1].rstrip()):
            return None
        cells = [_cells(row, self._paint) for at, row in enumerate(rows) if at != 1]
        count = max(map(len, cells))
        widths = [
            max((cells_of(row[at]) for row in cells if at < len(row)), default=0)
            for at in range(count)
        ]
        return widths if sum(widths) + 3 * (count - 1) < width else None


def painted_words(text: str, paint: Paint) -> str:
    """A text without line ends in which no mark is left open."""
    stream = MarkdownStream(paint)
    stream._begins_line = False
    return "".join(span.text for span in [*stream.add(text, 0), *stream.finish(0)])


def _found(span: str) -> tuple[re.Match[str], str] | None:
    if span[0] == "`":
        match = _CODE.match(span)
        return (match, "code") if match else None
    for pattern, style in ((_BOLD, "bold"), (_EMPHASIS, "emphasis")):
        if match := pattern.match(span):
            return match, style
    return None


def _may_open(span: str) -> bool:
    """Whether a mark may have an end that has not come yet."""
    rest = span.lstrip(span[0])
    return not rest or not rest[0].isspace() or span[0] == "`"


def _may_become_something(line: str, *, fenced: bool) -> bool:
    """Whether the beginning of a line does not tell yet what the line is."""
    if _FENCE.match(line) or (not fenced and line.lstrip(" ").startswith("|")):
        return True
    return bool(_UNDECIDED.fullmatch(line)) and not (fenced and line.strip(" `~"))


def _cells(row: str, paint: Paint) -> list[str]:
    inner = row.strip().removeprefix("|")
    inner = inner[:-1] if inner.endswith("|") and not inner.endswith("\\|") else inner
    return [painted_words(cell.strip(), paint) for cell in _CELL_BORDER.split(inner)]


def _drawn_row(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [
        cell + " " * max(0, width - cells_of(cell))
        for cell, width in zip([*cells, *[""] * len(widths)], widths, strict=False)
    ]
    return " │ ".join([*padded, *cells[len(widths) :]]).rstrip()
