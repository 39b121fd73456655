"""Colours: two sets, one for dark and one for light ground, few and each with one meaning."""

from msgspec import Struct
from rich.style import Style
from textual.theme import Theme as TextualTheme
from textual.widget import Widget

DARK, LIGHT = "rookery-dark", "rookery-light"


class Theme(Struct, frozen=True, kw_only=True):
    """What things are drawn with. No style has a ground of its own unless it says so."""

    name: str
    ground: str
    words: str
    quiet: str
    """Of less interest: folded things, what was only thought."""
    line: str
    band: str
    """The ground of what the user said."""
    accent: str
    good: str
    bad: str
    careful: str
    added: str
    removed: str
    dark: bool

    def ink(self, colour: str, *, bold: bool = False, italic: bool = False) -> Style:
        return Style(color=colour, bold=bold or None, italic=italic or None)

    def on(self, colour: str, ground: str, *, bold: bool = False) -> Style:
        return Style(color=colour, bgcolor=ground, bold=bold or None)


_DARK = Theme(
    name=DARK,
    ground="#14171c",
    words="#d4d9e0",
    quiet="#7f8894",
    line="#2c323b",
    band="#1e232b",
    accent="#82aee6",
    good="#93c58d",
    bad="#e58f88",
    careful="#dcb96f",
    added="#182a1f",
    removed="#2f1d20",
    dark=True,
)
_LIGHT = Theme(
    name=LIGHT,
    ground="#fcfbf8",
    words="#252a31",
    quiet="#6d757f",
    line="#dbd9d2",
    band="#f0eee7",
    accent="#2b5fa8",
    good="#2c7a3f",
    bad="#b3352c",
    careful="#855c00",
    added="#e2f2e4",
    removed="#fbe4e1",
    dark=False,
)
THEMES = {theme.name: theme for theme in (_DARK, _LIGHT)}


def textual_theme(theme: Theme) -> TextualTheme:
    return TextualTheme(
        name=theme.name,
        primary=theme.accent,
        secondary=theme.accent,
        accent=theme.accent,
        warning=theme.careful,
        error=theme.bad,
        success=theme.good,
        foreground=theme.words,
        background=theme.ground,
        surface=theme.ground,
        panel=theme.band,
        boost=theme.band,
        dark=theme.dark,
        variables={
            "quiet": theme.quiet,
            "line": theme.line,
            "band": theme.band,
            "scrollbar": theme.line,
            "scrollbar-hover": theme.quiet,
            "scrollbar-active": theme.accent,
            "scrollbar-background": theme.ground,
            "scrollbar-background-hover": theme.ground,
            "scrollbar-background-active": theme.ground,
            "scrollbar-corner-color": theme.ground,
            "input-cursor-background": theme.words,
            "input-cursor-foreground": theme.ground,
            "input-selection-background": theme.line,
            "screen-selection-background": theme.line,
            "block-cursor-background": theme.line,
            "block-cursor-foreground": theme.words,
            "border": theme.line,
            "border-blurred": theme.line,
        },
    )


def theme_of(widget: Widget) -> Theme:
    return THEMES.get(widget.app.theme, THEMES[DARK])
