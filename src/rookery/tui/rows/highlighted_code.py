"""Program text in colours."""

from functools import lru_cache

from rich.style import Style
from rich.syntax import Syntax
from rich.text import Text

from rookery.tui.theme import Look

LONGEST = 20_000
"""Characters that are worth colouring."""
_THEMES = {True: "github-dark", False: "friendly"}


def coloured(code: str, language: str, look: Look) -> list[Text]:
    """The lines of a program, in colours if its language is known."""
    if not language or len(code) > LONGEST:
        return list(Text(code).split("\n", allow_blank=True)) or [Text()]
    text = Text(code)
    for span in _syntax(language, look.dark).highlight(code).spans:
        if isinstance(span.style, Style):
            style = span.style
            ink = Style(color=style.color, bold=style.bold, italic=style.italic)
            text.stylize(ink, span.start, span.end)
    return list(text.split("\n", allow_blank=True)) or [Text()]


@lru_cache(maxsize=64)
def _syntax(language: str, dark: bool) -> Syntax:
    return Syntax("", language, theme=_THEMES[dark], background_color="default")
