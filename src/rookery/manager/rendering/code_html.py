"""Source text as highlighted HTML, with classes instead of colours: those of pygments, to be
styled under `.code`."""

import re
import time
from collections.abc import Iterator
from functools import cache
from io import StringIO
from typing import TYPE_CHECKING, Any

from rookery.core.limits import KIB
from rookery.core.text.characters import whole
from rookery.manager.rendering.code_languages import language_named, language_of
from rookery.manager.rendering.sanitiser import sanitised
from rookery.manager.rendering.visible_html import marked, plain

if TYPE_CHECKING:
    from pygments.lexer import Lexer

MOST_HIGHLIGHTED = 32 * KIB
"""Characters of a text; a longer one is plain."""
SECONDS_TO_HIGHLIGHT = 0.3
"""Of work; a text that takes more is plain. Source of the longest takes a third of it."""
LONGEST_LINE = 2_000
"""Characters of a line; a text with a longer one is plain."""
_RETURN = "␍"
"""In the place of one that ends no line, so that it is seen and makes none."""
_LONE_RETURN = re.compile(r"\r(?!\n)")


def lines_of(path: str, text: str) -> tuple[str, ...]:
    """Each line of a file as sanitised HTML, without its end. Lines end with a line feed, before
    which there may be a carriage return; a text that ends with one has an empty last line."""
    html = sanitised("\n".join(_lines(language_of(path), text)))
    return tuple(html.split("\n"))


def highlighted(language: str, text: str) -> str:
    """What somebody says is in this language. To be sanitised."""
    return "\n".join(_lines(language_named(language), text))


def _lines(language: str | None, text: str) -> list[str]:
    lines = _LONE_RETURN.sub(_RETURN, whole(text)).replace("\r\n", "\n").split("\n")
    if language is None or len(text) > MOST_HIGHLIGHTED or max(map(len, lines)) > LONGEST_LINE:
        return [plain(line) for line in lines]
    return _coloured(language, lines)


def _coloured(language: str, lines: list[str]) -> list[str]:
    from pygments.formatters import HtmlFormatter

    html = StringIO()
    try:
        HtmlFormatter(nowrap=True).format(_tokens(language, "\n".join(lines)), html)
    except _TooSlow:
        return [plain(line) for line in lines]
    done = html.getvalue().split("\n")
    # a line feed is always put behind the last line; whatever else a lexer did, it is not ours
    done = done[: len(lines)]
    return [marked(line) for line in done] if len(done) == len(lines) else list(map(plain, lines))


class _TooSlow(Exception):
    pass


def _tokens(language: str, text: str) -> Iterator[tuple[Any, str]]:
    """There are texts for which a lexer's work grows with the square of their length."""
    end = time.thread_time() + SECONDS_TO_HIGHLIGHT
    for token in _lexer(language).get_tokens(text):
        if time.thread_time() > end:
            raise _TooSlow
        yield token


@cache
def _lexer(language: str) -> "Lexer":
    from pygments.lexers import get_lexer_by_name

    return get_lexer_by_name(language, stripnl=False, ensurenl=False)
