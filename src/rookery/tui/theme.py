"""Colour themes: those built in, and the user's own in files.

A file `themes/NAME.toml` names colours by the fields of `Theme`; those it leaves out come from
`base`.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from rich.style import Style
from textual.theme import Theme as TextualTheme
from textual.widget import Widget

from rookery.errors import RookeryError

DARK, LIGHT = "dark", "light"


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

    def on(self, colour: str, ground: str) -> Style:
        return Style(color=colour, bgcolor=ground)


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
_HIGH_CONTRAST = Theme(
    name="high-contrast",
    background="#000000",
    text="#ffffff",
    muted="#c4c4c4",
    line="#707070",
    band="#1c1c1c",
    accent="#6cc7ff",
    good="#63e67a",
    bad="#ff8a80",
    warning="#ffd23f",
    added="#00350f",
    removed="#470008",
    dark=True,
)
_GRUVBOX = Theme(
    name="gruvbox",
    background="#282828",
    text="#ebdbb2",
    muted="#a89984",
    line="#504945",
    band="#3c3836",
    accent="#83a598",
    good="#b8bb26",
    bad="#fb6a5b",
    warning="#fabd2f",
    added="#333a1c",
    removed="#452b29",
    dark=True,
)
_NORD = Theme(
    name="nord",
    background="#2e3440",
    text="#d8dee9",
    muted="#9aa4b5",
    line="#434c5e",
    band="#3b4252",
    accent="#88c0d0",
    good="#a3be8c",
    bad="#e08c94",
    warning="#ebcb8b",
    added="#34453f",
    removed="#4a3a43",
    dark=True,
)
_SOLARIZED_LIGHT = Theme(
    name="solarized-light",
    background="#fdf6e3",
    text="#3f5560",
    muted="#5f7076",
    line="#ddd6c1",
    band="#eee8d5",
    accent="#1a6aa6",
    good="#5b6f00",
    bad="#c02a27",
    warning="#8a6200",
    added="#e6efcf",
    removed="#fadfd4",
    dark=False,
)
_BUILT_IN = (_DARK, _LIGHT, _HIGH_CONTRAST, _GRUVBOX, _NORD, _SOLARIZED_LIGHT)
THEMES = {theme.name: theme for theme in _BUILT_IN}
"""Themes by name; those of the user are added when they are read."""
_COLOURS = tuple(name for name in Theme.__struct_fields__ if name not in ("name", "dark"))
_COLOUR = re.compile(r"#[0-9a-fA-F]{6}")


class ThemeError(RookeryError):
    """A theme does not exist, or its file cannot be used."""


def load_themes(folder: Path) -> Iterator[ThemeError]:
    """Read all of the user's themes. Yields the problems."""
    for path in sorted(folder.glob("*.toml")):
        try:
            _load(path)
        except ThemeError as problem:
            yield problem


def find_theme(name: str, folder: Path) -> Theme:
    """The theme of this name. Raises `ThemeError`."""
    path = folder / f"{name}.toml"
    if name not in THEMES and path.parent == folder and path.exists():
        _load(path)
    if name not in THEMES:
        raise ThemeError(f"No such theme: {name}. Choose one of: {', '.join(THEMES)}.")
    return THEMES[name]


def _load(path: Path) -> None:
    import tomllib

    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
        THEMES[path.stem] = _theme(path.stem, given)
    except (OSError, ValueError) as error:
        raise ThemeError(f"themes/{path.name} is not used: {error}") from error


def _theme(name: str, given: Mapping[str, Any]) -> Theme:
    """Raises `ValueError`."""
    base = given.get("base", DARK)
    if base not in THEMES:
        raise ValueError(f"base must be one of {', '.join(THEMES)}")
    colours = {key: value for key, value in given.items() if key != "base"}
    for key, value in colours.items():
        if key not in _COLOURS:
            raise ValueError(f"unknown colour {key}; known are {', '.join(_COLOURS)}")
        if not (isinstance(value, str) and _COLOUR.fullmatch(value)):
            raise ValueError(f"{key} must be a colour such as #82aee6")
    theme = replace(THEMES[base], name=name, **colours)
    return replace(theme, dark=luminance(theme.background) < 0.5)


def luminance(colour: str) -> float:
    """How bright a colour is, from 0 to 1."""
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


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
