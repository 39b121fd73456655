"""Colour themes: one for dark and one for light backgrounds."""

from msgspec import Struct
from rich.style import Style
from textual.theme import Theme as TextualTheme
from textual.widget import Widget

DARK, LIGHT = "rookery-dark", "rookery-light"


class Theme(Struct, frozen=True, kw_only=True):
    """Colours by meaning. Styles have no background unless `on` is used."""

    name: str
    background: str
    text: str
    muted: str
    """Less important text: folded rows, reasoning."""
    line: str
    band: str
    """Background of the user's messages."""
    accent: str
    good: str
    bad: str
    warning: str
    added: str
    removed: str
    dark: bool

    def fg(self, colour: str, *, bold: bool = False, italic: bool = False) -> Style:
        return Style(color=colour, bold=bold or None, italic=italic or None)

    def on(self, colour: str, ground: str, *, bold: bool = False) -> Style:
        return Style(color=colour, bgcolor=ground, bold=bold or None)


_DARK = Theme(
    name=DARK,
    background="#14171c",
    text="#d4d9e0",
    muted="#7f8894",
    line="#2c323b",
    band="#1e232b",
    accent="#82aee6",
    good="#93c58d",
    bad="#e58f88",
    warning="#dcb96f",
    added="#182a1f",
    removed="#2f1d20",
    dark=True,
)
_LIGHT = Theme(
    name=LIGHT,
    background="#fcfbf8",
    text="#252a31",
    muted="#6d757f",
    line="#dbd9d2",
    band="#f0eee7",
    accent="#2b5fa8",
    good="#2c7a3f",
    bad="#b3352c",
    warning="#855c00",
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
        warning=theme.warning,
        error=theme.bad,
        success=theme.good,
        foreground=theme.text,
        background=theme.background,
        surface=theme.background,
        panel=theme.band,
        boost=theme.band,
        dark=theme.dark,
        variables={
            "muted": theme.muted,
            "line": theme.line,
            "band": theme.band,
            "scrollbar": theme.line,
            "scrollbar-hover": theme.muted,
            "scrollbar-active": theme.accent,
            "scrollbar-background": theme.background,
            "scrollbar-background-hover": theme.background,
            "scrollbar-background-active": theme.background,
            "scrollbar-corner-color": theme.background,
            "input-cursor-background": theme.text,
            "input-cursor-foreground": theme.background,
            "input-selection-background": theme.line,
            "screen-selection-background": theme.line,
            "block-cursor-background": theme.line,
            "block-cursor-foreground": theme.text,
            "border": theme.line,
            "border-blurred": theme.line,
        },
    )


def theme_of(widget: Widget) -> Theme:
    return THEMES.get(widget.app.theme, THEMES[DARK])
