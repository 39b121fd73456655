"""Texts laid out as the lines of a row."""

from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.strip import Strip

from rookery.core.text.terminal_text import harmless

TAB = 4
_CONSOLE = Console(width=10_000, color_system="truecolor", legacy_windows=False)


def clean(text: str) -> str:
    """What a model, tool or file wrote, as it may stand on a terminal."""
    return harmless(text.replace("\r\n", "\n").replace("\r", "")).expandtabs(TAB)


def wrapped(text: Text, width: int) -> list[Text]:
    """The text in lines of at most `width` columns; words stay whole where they can."""
    if not text.plain:
        return [Text()]
    lines: list[Text] = []
    for line in text.split("\n", allow_blank=True):
        if line.cell_len <= width:
            lines.append(line)
        else:
            lines.extend(line.wrap(_CONSOLE, max(1, width), tab_size=TAB, overflow="fold"))
    for line in lines:
        line.rstrip()
    return lines


def cut(text: Text, width: int) -> Text:
    """The text on one line, with an ellipsis where it does not fit."""
    line = text.copy()
    line.truncate(max(1, width), overflow="ellipsis")
    return line


def indented(lines: Iterable[Text], first: Text, rest: Text) -> Iterator[Text]:
    """The lines behind a margin, which differs for the first."""
    margin = first
    for line in lines:
        yield Text.assemble(margin, line)
        margin = rest


def padded(line: Text, width: int, style: Style) -> Text:
    """The line on a ground of its own that reaches to the edge."""
    line = line.copy()
    line.pad_right(max(0, width - line.cell_len))
    line.stylize_before(style)
    return line


def strip_of(line: Text) -> Strip:
    """The line as the screen takes it."""
    if not line.spans and line.style:
        style = Style.parse(line.style) if isinstance(line.style, str) else line.style
        return Strip([Segment(line.plain, style)], line.cell_len)
    return Strip(line.render(_CONSOLE), line.cell_len)
