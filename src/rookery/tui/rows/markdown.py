"""Renders Markdown as terminal lines, with syntax highlighting for code.

The text may be incomplete, as it is rendered while it streams in.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, partial

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.style import Style
from rich.syntax import Syntax
from rich.text import Text

from rookery.tui.rows.lines import Piece, clean, guess_height, indented, padded, wrapped
from rookery.tui.rows.markdown_parts import PART_LINES, Part, Parts
from rookery.tui.theme import THEMES, Theme

_BULLETS = "•◦▪"
_CELL = 40
"""Maximum width of a table cell, unless there is more room."""
_SPARE = 6
"""Columns added to the cells of a long table, as later rows may be longer."""
_MIN_CELL = 4
"""Minimum width of a cell; below it, each table row is shown as a list of its cells."""


class GrowingMarkdownLines:
    """Splits growing text into pieces that are drawn on demand; unchanged pieces are reused."""

    def __init__(self) -> None:
        self._parts = Parts()
        self._made_for: tuple[list[Part], int, str] | None = None
        self._pieces: list[Piece] = []

    def pieces(self, text: str, width: int, theme: Theme) -> list[Piece]:
        done, rest = self._parts.of(text.lstrip("\n"))
        before, made_for = self._made_for, (done, width, theme.name)
        if before is None or before[0] is not done or before[1:] != made_for[1:]:
            self._pieces = []
        self._made_for = made_for
        new = done[len(self._pieces) :]
        self._pieces += [_piece(part, width, theme.name) for part in new]
        return [*self._pieces, *(_piece(part, width, theme.name) for part in rest)]


def _piece(part: Part, width: int, theme: str) -> Piece:
    height = guess_height(part.text.rstrip(), width)
    draw = partial(_draw_part, part, width, theme)
    return Piece(height, draw, gap=0 if part.continues else 1, key=part)


@lru_cache(maxsize=512)
def _draw_part(part: Part, width: int, theme: str) -> tuple[Text, ...]:
    tokens = _parser().parse(clean(part.head + part.text))
    return tuple(_Drawing(THEMES[theme], part).lines(tokens, width))


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark").enable(["table", "strikethrough"])


class _Drawing:
    def __init__(self, theme: Theme, part: Part) -> None:
        self._theme = theme
        self._part = part
        self._muted = theme.fg(theme.muted)

    def lines(self, tokens: Sequence[Token], width: int, depth: int = 0) -> list[Text]:
        drawn: list[Text] = []
        for token, inner in _nodes(tokens):
            lines = list(self._node(token, inner, max(8, width), depth))
            if drawn and lines and depth == 0:
                drawn.append(Text())
            drawn.extend(lines)
        return drawn

    def _node(self, token: Token, inner: Sequence[Token], width: int, depth: int) -> Iterable[Text]:
        theme = self._theme
        match token.type:
            case "paragraph_open":
                return wrapped(self._words(inner), width)
            case "heading_open":
                words = self._words(inner)
                colour = theme.accent if token.tag in ("h1", "h2") else theme.text
                words.stylize_before(theme.fg(colour, bold=True))
                return wrapped(words, width)
            case "bullet_list_open" | "ordered_list_open":
                return self._list(token, inner, width, depth)
            case "blockquote_open":
                bar = Text("▏ ", theme.fg(theme.line))
                within = self.lines(inner, width - 2, depth + 1)
                for line in within:
                    line.stylize_before(self._muted)
                return indented(within, bar, bar)
            case "fence" | "code_block":
                return self._code(token, width)
            case "hr":
                return [Text("─" * min(width, 24), theme.fg(theme.line))]
            case "table_open":
                return self._table(inner, width)
            case "html_block":
                return wrapped(Text(token.content.rstrip("\n"), self._muted), width)
            case _:
                return self.lines(inner, width, depth)

    def _list(self, token: Token, inner: Sequence[Token], width: int, depth: int) -> Iterator[Text]:
        number = int(token.attrGet("start") or 1)
        if depth == 0 and self._part.number is not None:
            number = self._part.number
        bullet = _BULLETS[min(depth, len(_BULLETS) - 1)]
        for _, within in _nodes(inner):
            mark = f"{number}. " if token.type == "ordered_list_open" else f"{bullet} "
            number += 1
            lines = self.lines(within, width - len(mark), depth + 1) or [Text()]
            first = Text(mark, self._theme.fg(self._theme.accent))
            yield from indented(lines, first, Text(" " * len(mark)))

    def _code(self, token: Token, width: int) -> Iterator[Text]:
        theme = self._theme
        language = token.info.split()[0] if token.info.strip() else ""
        background = Style(bgcolor=theme.band)
        for line in highlight(token.content.rstrip("\n"), language, theme):
            for part in wrapped(line, width - 2):
                yield padded(Text.assemble(" ", part), width, background)

    def _table(self, inner: Sequence[Token], width: int) -> Iterator[Text]:
        rows = self._cells(inner)
        columns = max(map(len, rows), default=0)
        if not columns:
            return
        first = self._first_rows() or rows
        widths = _widths(first, columns, width)
        continues = bool(self._part.head)
        if widths is None:
            yield from self._records(rows, width)
            return
        rule = Text(" │ ", self._theme.fg(self._theme.line))
        for number, row in enumerate(rows):
            if number or not continues:
                yield from _table_lines(row, widths, rule, bold=number == 0)
            if number == 0 and not continues:
                dashes = "─┼─".join("─" * each for each in widths)
                yield Text(dashes, self._theme.fg(self._theme.line))

    def _cells(self, inner: Sequence[Token]) -> list[list[Text]]:
        return [
            [self._words(cell) for opened, cell in _nodes(row) if opened.type[:2] in ("th", "td")]
            for row in _rows_of(inner)
        ]

    def _first_rows(self) -> list[list[Text]]:
        """The rows of the part in which the table started."""
        tokens = _parser().parse(clean(self._part.table))
        tables = [inner for token, inner in _nodes(tokens) if token.type == "table_open"]
        return self._cells(tables[-1]) if tables else []

    def _records(self, rows: list[list[Text]], width: int) -> Iterator[Text]:
        """A table with too many columns: each row as a list of its cells."""
        heads, *rest = rows
        for number, row in enumerate(rest):
            if number or self._part.head:
                yield Text()
            for at, cell in enumerate(row):
                name = heads[at].plain if at < len(heads) else ""
                words = Text.assemble((f"{name}: ", self._muted), cell)
                yield from indented(wrapped(words, width - 2), Text(""), Text("  "))

    def _words(self, tokens: Sequence[Token]) -> Text:
        theme = self._theme
        text = Text()
        styles: list[Style] = []
        target = ""
        for token in tokens:
            for part in token.children or [token]:
                match part.type:
                    case "text" | "html_inline":
                        text.append(part.content, _combine(styles))
                    case "softbreak":
                        text.append(" ", _combine(styles))
                    case "hardbreak":
                        text.append("\n")
                    case "code_inline":
                        code = theme.on(theme.accent, theme.band)
                        text.append(part.content, _combine([*styles, code]))
                    case "strong_open":
                        styles.append(Style(bold=True))
                    case "em_open":
                        styles.append(Style(italic=True))
                    case "s_open":
                        styles.append(Style(strike=True))
                    case "link_open":
                        target = str(part.attrGet("href") or "")
                        styles.append(Style(color=theme.accent, underline=True))
                    case "link_close":
                        shown = text.plain
                        styles.pop()
                        if target and not shown.endswith(target):
                            text.append(f" ({target})", self._muted)
                    case "image":
                        text.append(f"[image: {part.content}]", self._muted)
                    case "strong_close" | "em_close" | "s_close":
                        styles.pop()
                    case _:
                        pass
        return text


def _nodes(tokens: Sequence[Token]) -> Iterator[tuple[Token, Sequence[Token]]]:
    """The top-level tokens, each with the tokens nested in it."""
    at = 0
    while at < len(tokens):
        token, end = tokens[at], at
        if token.nesting == 1:
            open_ones = 1
            while open_ones and end + 1 < len(tokens):
                end += 1
                open_ones += tokens[end].nesting
        yield token, tokens[at + 1 : end]
        at = end + 1


def _rows_of(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    for token, inner in _nodes(tokens):
        if token.type == "tr_open":
            yield inner
        else:
            yield from _rows_of(inner)


def _widths(rows: list[list[Text]], columns: int, width: int) -> list[int] | None:
    """Column widths; None if the columns do not fit next to each other."""
    room = width - 3 * (columns - 1)
    if room < columns * _MIN_CELL:
        return None
    widest = _CELL
    if any(sum(cell.cell_len for cell in row) > room for row in rows):
        widest = max(_MIN_CELL, min(_CELL, room // columns))
    widths = [
        min(widest, max((row[at].cell_len for row in rows if at < len(row)), default=1))
        for at in range(columns)
    ]
    if sum(widths) > room:
        widths = [min(each, max(_MIN_CELL, room // columns)) for each in widths]
    spare = (room - sum(widths)) // columns if len(rows) >= PART_LINES // 2 else 0
    return [max(1, each + min(_SPARE, spare)) for each in widths]


def _table_lines(row: list[Text], widths: list[int], rule: Text, *, bold: bool) -> Iterator[Text]:
    """A table row; long cells are wrapped."""
    cells = [wrapped(cell, width) for cell, width in zip(row, widths, strict=False)]
    for at in range(max(map(len, cells), default=0)):
        parts = [cell[at].copy() if at < len(cell) else Text() for cell in cells]
        parts += [Text() for _ in widths[len(parts) :]]
        for part, width in zip(parts, widths, strict=True):
            part.pad_right(max(0, width - part.cell_len))
        line = rule.join(parts)
        if bold:
            line.stylize("bold")
        yield line


def _combine(styles: Sequence[Style]) -> Style:
    return Style.combine(styles) if styles else Style.null()


MAX_HIGHLIGHTED = 20_000
"""Longest code that is highlighted, in characters."""
_SYNTAX_THEMES = {True: "github-dark", False: "friendly"}


def highlight(code: str, language: str, theme: Theme) -> list[Text]:
    """The lines of the code, highlighted if the language is known."""
    if not language or len(code) > MAX_HIGHLIGHTED:
        return list(Text(code).split("\n", allow_blank=True)) or [Text()]
    text = Text(code)
    for span in _syntax(language, theme.dark).highlight(code).spans:
        if isinstance(span.style, Style):
            style = span.style
            ink = Style(color=style.color, bold=style.bold, italic=style.italic)
            text.stylize(ink, span.start, span.end)
    return list(text.split("\n", allow_blank=True)) or [Text()]


@lru_cache(maxsize=64)
def _syntax(language: str, dark: bool) -> Syntax:
    return Syntax("", language, theme=_SYNTAX_THEMES[dark], background_color="default")
