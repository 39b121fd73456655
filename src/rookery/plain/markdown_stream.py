"""Renders the model's Markdown on a terminal while it streams in.

Text that was written is never rewritten. So a mark such as `**` is held back until its closing mark
arrives, for at most a line, and a table until its last row. Whatever is not Markdown is written
unchanged. Callers must pass text through `harmless` first; only colour codes are added here.
"""

import re
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from rookery.core.text.terminal_text import Paint, cells_of

CHUNK = 2_000
"""Characters processed at a time."""
MAX_SPAN = 200
"""Characters held back while waiting for a closing mark."""
MAX_HELD_ROWS = 50
"""Table rows held back to compute the column widths; later rows use the same widths."""
_MARKS = re.compile(r"[*`]")
"""Underscores are not marks: in text about code they are usually part of names."""
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
    """Text to write; verbatim text is not wrapped."""

    text: str
    verbatim: bool = False


class MarkdownStream:
    def __init__(self, paint: Paint) -> None:
        self._paint = paint
        self._reset()

    def _reset(self) -> None:
        self._held = ""
        self._is_final = False
        self._begins_line = True
        self._fence = ""
        self._is_heading = False
        self._rows: list[str] = []
        self._widths: list[int] | None = None

    def add(self, text: str, width: int) -> list[StyledSpan]:
        """Add streamed text, and return what can be written now."""
        spans: list[StyledSpan] = []
        for begin in range(0, len(text), CHUNK):
            self._held += text[begin : begin + CHUNK]
            spans += self._spans(width)
        return spans

    def finish(self, width: int) -> list[StyledSpan]:
        """End the text, and return what was held back."""
        self._is_final = True
        spans = [*self._spans(width), *self._table(width)]
        self._reset()
        return spans

    def _spans(self, width: int) -> Iterator[StyledSpan]:
        while self._held:
            before = len(self._held), len(self._rows)
            yield from self._next(width)
            if before == (len(self._held), len(self._rows)):
                return

    def _next(self, width: int) -> Iterator[StyledSpan]:
        """The next span, if its kind can be determined yet."""
        if not self._begins_line:
            yield from self._fenced() if self._fence else self._text()
            return
        line, end, _ = self._held.partition("\n")
        is_whole = bool(end) or self._is_final
        if not is_whole and _is_undecided(line, fenced=bool(self._fence)):
            return
        if self._fence:
            yield from self._fenced_line(line, is_whole=is_whole)
        elif line.lstrip(" ").startswith("|") and is_whole:
            self._consume(len(line) + len(end))
            yield from self._table_row(line, width)
        else:
            yield from self._table(width)
            yield from self._begin_line(line, is_whole=is_whole)

    def _consume(self, count: int) -> str:
        taken, self._held = self._held[:count], self._held[count:]
        if taken:
            self._begins_line = taken[-1] == "\n"
        return taken

    def _begin_line(self, line: str, *, is_whole: bool) -> Iterator[StyledSpan]:
        self._is_heading = False
        fence = _FENCE.match(line)
        if is_whole and (fence or _RULE.fullmatch(line)):
            self._fence = fence[1] if fence else ""
            yield self._verbatim(len(line) + 1, self._paint.dim)
        elif heading := _HEADING.match(line):
            self._is_heading = True
            mark = self._consume(heading.end())
            yield from [] if self._paint.on else [StyledSpan(mark)]
        else:
            self._begins_line = False
            yield from self._text()

    def _fenced_line(self, line: str, *, is_whole: bool) -> Iterator[StyledSpan]:
        closing = _FENCE.fullmatch(line.rstrip())
        if closing and closing[1].startswith(self._fence) and is_whole:
            self._fence = ""
            yield self._verbatim(len(line) + 1, self._paint.dim)
        else:
            self._begins_line = False
            yield from self._fenced()

    def _fenced(self) -> Iterator[StyledSpan]:
        end = self._held.find("\n") + 1
        yield self._verbatim(end or len(self._held), self._paint.cyan)

    def _text(self) -> Iterator[StyledSpan]:
        """Text up to the end of the line, or up to a mark that is not closed yet."""
        line, end, _ = self._held.partition("\n")
        if not self._paint.on:
            yield StyledSpan(self._consume(len(line) + len(end)))
            return
        mark = _MARKS.search(line)
        plain = mark.start() if mark else len(line)
        if plain:
            yield StyledSpan(self._styled(self._consume(plain)))
        elif mark:
            yield from self._marked(line, ends=bool(end) or self._is_final)
        elif end:
            yield StyledSpan(self._consume(1))

    def _marked(self, line: str, *, ends: bool) -> Iterator[StyledSpan]:
        span = line[:MAX_SPAN]
        found = _match_mark(span)
        if found and (ends or len(found[0][0]) < len(span)):
            match, style = found
            self._consume(match.end())
            yield StyledSpan(self._styled(self._inner(match, style)))
        elif ends or len(line) > MAX_SPAN or not _may_open(span):
            run = len(span) - len(span.lstrip(span[0]))
            yield StyledSpan(self._styled(self._consume(run)))

    def _inner(self, match: re.Match[str], style: str) -> str:
        paint = self._paint
        if style == "code":
            return paint.cyan(match[2].strip() or match[2])
        return (paint.bold if style == "bold" else paint.italic)(style_inline(match[1], paint))

    def _styled(self, text: str) -> str:
        return self._paint.bold(text) if self._is_heading and text else text

    def _verbatim(self, count: int, paint: Callable[[str], str]) -> StyledSpan:
        line = self._consume(count)
        words = line.removesuffix("\n")
        return StyledSpan((paint(words) if words else "") + line[len(words) :], verbatim=True)

    def _table_row(self, line: str, width: int) -> Iterator[StyledSpan]:
        if self._widths is not None:
            yield StyledSpan(
                _draw_row(_cells(line, self._paint), self._widths) + "\n", verbatim=True
            )
            return
        self._rows.append(line)
        if len(self._rows) >= MAX_HELD_ROWS:
            widths = self._columns(width)
            yield from self._table(width)
            self._widths = widths

    def _table(self, width: int) -> Iterator[StyledSpan]:
        """The table rows that were held back."""
        rows, widths = self._rows, self._columns(width)
        self._rows, self._widths = [], None
        if widths is None:
            yield from (StyledSpan(style_inline(row, self._paint) + "\n") for row in rows)
            return
        for at, row in enumerate(rows):
            if at == 1:
                yield StyledSpan("─┼─".join("─" * each for each in widths) + "\n", verbatim=True)
                continue
            drawn = _draw_row(_cells(row, self._paint), widths)
            words = self._paint.bold(drawn) if at == 0 else drawn
            yield StyledSpan(words + "\n", verbatim=True)

    def _columns(self, width: int) -> list[int] | None:
        """Column widths; None if the rows are not a table or do not fit."""
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


def style_inline(text: str, paint: Paint) -> str:
    """Style the inline Markdown of a single line."""
    stream = MarkdownStream(paint)
    stream._begins_line = False
    return "".join(span.text for span in [*stream.add(text, 0), *stream.finish(0)])


def _match_mark(span: str) -> tuple[re.Match[str], str] | None:
    if span[0] == "`":
        match = _CODE.match(span)
        return (match, "code") if match else None
    for pattern, style in ((_BOLD, "bold"), (_EMPHASIS, "emphasis")):
        if match := pattern.match(span):
            return match, style
    return None


def _may_open(span: str) -> bool:
    """Whether the closing mark may still arrive."""
    rest = span.lstrip(span[0])
    return not rest or not rest[0].isspace() or span[0] == "`"


def _is_undecided(line: str, *, fenced: bool) -> bool:
    """Whether the start of the line does not determine its kind yet."""
    if _FENCE.match(line) or (not fenced and line.lstrip(" ").startswith("|")):
        return True
    return bool(_UNDECIDED.fullmatch(line)) and not (fenced and line.strip(" `~"))


def _cells(row: str, paint: Paint) -> list[str]:
    inner = row.strip().removeprefix("|")
    inner = inner[:-1] if inner.endswith("|") and not inner.endswith("\\|") else inner
    return [style_inline(cell.strip(), paint) for cell in _CELL_BORDER.split(inner)]


def _draw_row(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [
        cell + " " * max(0, width - cells_of(cell))
        for cell, width in zip([*cells, *[""] * len(widths)], widths, strict=False)
    ]
    return " │ ".join([*padded, *cells[len(widths) :]]).rstrip()
