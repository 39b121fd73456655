"""Markdown as lines of a terminal. What is still arriving is drawn as far as it makes sense."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.style import Style
from rich.text import Text
from textual.strip import Strip

from rookery.clients.tui.look import LOOKS, Look
from rookery.clients.tui.rows.code import coloured
from rookery.clients.tui.rows.lines import clean, cut, indented, padded, strip_of, wrapped

_BULLETS = "•◦▪"
_CELL = 40
"""Columns that a cell of a table takes at most, where there is room."""
_BLOCK_BORDER = re.compile(r"\n[ \t]*\n(?=[^ \t\n])")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})", re.MULTILINE)


def markdown(text: str, width: int, look: Look) -> list[Text]:
    """The lines. Blocks are remembered, so that a growing text costs only its last block."""
    lines: list[Text] = []
    for block in blocks(clean(text).strip("\n")):
        drawn = _block(block, width, look.name)
        if lines and drawn:
            lines.append(Text())
        lines.extend(drawn)
    return lines


def markdown_strips(text: str, width: int, look: Look, margin: Text) -> list[Strip]:
    """The same behind a margin, as the screen takes it. Only the last block of a text that grows
    is drawn again."""
    strips: list[Strip] = []
    between = strip_of(margin)
    for block in blocks(clean(text).strip("\n")):
        if strips:
            strips.append(between)
        strips.extend(_block_strips(block, width, look.name, margin.plain, str(margin.style)))
    return strips


@lru_cache(maxsize=4096)
def _block_strips(text: str, width: int, look: str, margin: str, ink: str) -> tuple[Strip, ...]:
    head = Text(margin, ink)
    return tuple(strip_of(line) for line in indented(_block(text, width, look), head, head))


def blocks(text: str) -> list[str]:
    """The text cut where a paragraph ends and what follows cannot belong to it."""
    found: list[str] = []
    start = 0
    for border in _BLOCK_BORDER.finditer(text):
        piece = text[start : border.start()]
        following = text[border.end() : border.end() + 2]
        if _fence_is_open(piece) or _goes_on(piece, following):
            continue
        found.append(piece)
        start = border.end()
    if text[start:].strip():
        found.append(text[start:])
    return found


def _fence_is_open(piece: str) -> bool:
    opened = ""
    for fence in _FENCE.finditer(piece):
        if not opened:
            opened = fence[1]
        elif fence[1][0] == opened[0] and len(fence[1]) >= len(opened):
            opened = ""
    return bool(opened)


def _goes_on(piece: str, following: str) -> bool:
    """A list may have blank lines between its items, and a number depends on the one before."""
    marks = ("-", "*", "+")
    begins = piece.lstrip()[:2]
    is_list = begins[:1] in marks or begins[:1].isdigit()
    return is_list and (following[:1] in marks or following[:1].isdigit())


@lru_cache(maxsize=2048)
def _block(text: str, width: int, look: str) -> tuple[Text, ...]:
    return tuple(_Drawing(LOOKS[look]).lines(_parser().parse(text), width))


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark").enable(["table", "strikethrough"])


class _Drawing:
    def __init__(self, look: Look) -> None:
        self._look = look
        self._quiet = look.ink(look.quiet)

    def lines(self, tokens: Sequence[Token], width: int, depth: int = 0) -> list[Text]:
        drawn: list[Text] = []
        for token, inner in _nodes(tokens):
            lines = list(self._node(token, inner, max(8, width), depth))
            if drawn and lines and depth == 0:
                drawn.append(Text())
            drawn.extend(lines)
        return drawn

    def _node(self, token: Token, inner: Sequence[Token], width: int, depth: int) -> Iterable[Text]:
        look = self._look
        match token.type:
            case "paragraph_open":
                return wrapped(self._words(inner), width)
            case "heading_open":
                words = self._words(inner)
                colour = look.accent if token.tag in ("h1", "h2") else look.words
                words.stylize_before(look.ink(colour, bold=True))
                return wrapped(words, width)
            case "bullet_list_open" | "ordered_list_open":
                return self._list(token, inner, width, depth)
            case "blockquote_open":
                bar = Text("▏ ", look.ink(look.line))
                within = self.lines(inner, width - 2, depth + 1)
                for line in within:
                    line.stylize_before(self._quiet)
                return indented(within, bar, bar)
            case "fence" | "code_block":
                return self._code(token, width)
            case "hr":
                return [Text("─" * min(width, 24), look.ink(look.line))]
            case "table_open":
                return self._table(inner, width)
            case "html_block":
                return wrapped(Text(token.content.rstrip("\n"), self._quiet), width)
            case _:
                return self.lines(inner, width, depth)

    def _list(self, token: Token, inner: Sequence[Token], width: int, depth: int) -> Iterator[Text]:
        number = int(token.attrGet("start") or 1)
        bullet = _BULLETS[min(depth, len(_BULLETS) - 1)]
        for _, within in _nodes(inner):
            mark = f"{number}. " if token.type == "ordered_list_open" else f"{bullet} "
            number += 1
            lines = self.lines(within, width - len(mark), depth + 1) or [Text()]
            first = Text(mark, self._look.ink(self._look.accent))
            yield from indented(lines, first, Text(" " * len(mark)))

    def _code(self, token: Token, width: int) -> Iterator[Text]:
        look = self._look
        language = token.info.split()[0] if token.info.strip() else ""
        ground = Style(bgcolor=look.band)
        for line in coloured(token.content.rstrip("\n"), language, look):
            for part in wrapped(line, width - 2):
                yield padded(Text.assemble(" ", part), width, ground)

    def _table(self, inner: Sequence[Token], width: int) -> Iterator[Text]:
        rows = [
            [self._words(cell) for opened, cell in _nodes(row) if opened.type[:2] in ("th", "td")]
            for row in _rows_of(inner)
        ]
        columns = max(map(len, rows), default=0)
        if not columns:
            return
        room = max(columns * 3, width - 3 * (columns - 1))
        widest = max(3, min(_CELL, room // columns)) if _too_wide(rows, room) else _CELL
        widths = [
            min(widest, max((row[at].cell_len for row in rows if at < len(row)), default=1))
            for at in range(columns)
        ]
        rule = Text(" │ ", self._look.ink(self._look.line))
        for number, row in enumerate(rows):
            cells = [_cell(row, at, widths[at]) for at in range(columns)]
            line = rule.join(cells)
            if number == 0:
                line.stylize("bold")
            yield cut(line, width)
            if number == 0:
                dashes = "─┼─".join("─" * each for each in widths)
                yield cut(Text(dashes, self._look.ink(self._look.line)), width)

    def _words(self, tokens: Sequence[Token]) -> Text:
        look = self._look
        text = Text()
        styles: list[Style] = []
        target = ""
        for token in tokens:
            for part in token.children or [token]:
                match part.type:
                    case "text" | "html_inline":
                        text.append(part.content, _together(styles))
                    case "softbreak":
                        text.append(" ", _together(styles))
                    case "hardbreak":
                        text.append("\n")
                    case "code_inline":
                        code = look.on(look.accent, look.band)
                        text.append(part.content, _together([*styles, code]))
                    case "strong_open":
                        styles.append(Style(bold=True))
                    case "em_open":
                        styles.append(Style(italic=True))
                    case "s_open":
                        styles.append(Style(strike=True))
                    case "link_open":
                        target = str(part.attrGet("href") or "")
                        styles.append(Style(color=look.accent, underline=True))
                    case "link_close":
                        shown = text.plain
                        styles.pop()
                        if target and not shown.endswith(target):
                            text.append(f" ({target})", self._quiet)
                    case "image":
                        text.append(f"[picture: {part.content}]", self._quiet)
                    case "strong_close" | "em_close" | "s_close":
                        styles.pop()
                    case _:
                        pass
        return text


def _nodes(tokens: Sequence[Token]) -> Iterator[tuple[Token, Sequence[Token]]]:
    """The topmost tokens, each with those inside it."""
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


def _too_wide(rows: list[list[Text]], room: int) -> bool:
    return any(sum(cell.cell_len for cell in row) > room for row in rows)


def _cell(row: list[Text], at: int, width: int) -> Text:
    cell = cut(row[at], width) if at < len(row) else Text()
    cell.pad_right(max(0, width - cell.cell_len))
    return cell


def _together(styles: Sequence[Style]) -> Style:
    return Style.combine(styles) if styles else Style.null()
