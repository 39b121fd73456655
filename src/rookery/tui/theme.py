"""Colours: two sets, one for dark and one for light ground, few and each with one meaning."""

from msgspec import Struct
from rich.style import Style
from textual.theme import Theme
from textual.widget import Widget

DARK, LIGHT = "rookery-dark", "rookery-light"


class Look(Struct, frozen=True, kw_only=True):
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


_DARK = Look(
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
_LIGHT = Look(
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
LOOKS = {look.name: look for look in (_DARK, _LIGHT)}


def theme_of(look: Look) -> Theme:
    return Theme(
        name=look.name,
        primary=look.accent,
        secondary=look.accent,
        accent=look.accent,
        warning=look.careful,
        error=look.bad,
        success=look.good,
        foreground=look.words,
        background=look.ground,
        surface=look.ground,
        panel=look.band,
        boost=look.band,
        dark=look.dark,
        variables={
            "quiet": look.quiet,
            "line": look.line,
            "band": look.band,
            "scrollbar": look.line,
            "scrollbar-hover": look.quiet,
            "scrollbar-active": look.accent,
            "scrollbar-background": look.ground,
            "scrollbar-background-hover": look.ground,
            "scrollbar-background-active": look.ground,
            "scrollbar-corner-color": look.ground,
            "input-cursor-background": look.words,
            "input-cursor-foreground": look.ground,
            "input-selection-background": look.line,
            "screen-selection-background": look.line,
            "block-cursor-background": look.line,
            "block-cursor-foreground": look.words,
            "border": look.line,
            "border-blurred": look.line,
        },
    )


def worn(widget: Widget) -> Look:
    return LOOKS.get(widget.app.theme, LOOKS[DARK])
