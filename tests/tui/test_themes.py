"""Built-in themes, the user's own, and the list of them."""

from pathlib import Path

import pytest

from rookery.tui.theme import DARK, THEMES, Theme, ThemeError, find_theme, load_themes
from support.tui_scenes import completed
from support.tui_session import play

BUILT_IN = dict(THEMES)


@pytest.fixture(autouse=True)
def only_built_in_themes_afterwards():
    yield
    for name in set(THEMES) - set(BUILT_IN):
        del THEMES[name]


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    """As WCAG 2 defines it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", BUILT_IN.values(), ids=list(BUILT_IN))
def test_every_built_in_theme_is_readable(theme: Theme):
    for name in ("text", "muted", "accent", "good", "bad", "warning"):
        assert contrast(getattr(theme, name), theme.background) >= 4.5, name
    for ground in (theme.band, theme.added, theme.removed):
        assert contrast(theme.text, ground) >= 4.5, ground


def test_a_file_changes_colours_of_its_base(tmp_path: Path):
    (tmp_path / "mine.toml").write_text('base = "light"\naccent = "#ff0000"\n')
    theme = find_theme("mine", tmp_path)
    assert (theme.accent, theme.text, theme.dark) == ("#ff0000", BUILT_IN["light"].text, False)
    (tmp_path / "night.toml").write_text('base = "light"\nbackground = "#000000"\n')
    assert find_theme("night", tmp_path).dark


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('accnt = "#ff0000"', "unknown colour accnt"),
        ('accent = "red"', "accent must be a colour such as #82aee6"),
        ("accent = 3", "accent must be a colour"),
        ('base = "none"', "base must be one of dark, light"),
        ("accent =", "themes/mine.toml is not used"),
        ('accent = "\x1b[31m"', "themes/mine.toml is not used"),
    ],
)
def test_a_broken_file_is_refused_with_the_reason(tmp_path: Path, text: str, why: str):
    (tmp_path / "mine.toml").write_text(text)
    (problem,) = load_themes(tmp_path)
    assert why in str(problem)
    assert "mine" not in THEMES


@pytest.mark.parametrize("name", ["none", "../secret", "/etc/passwd"])
def test_an_unknown_theme_is_refused(tmp_path: Path, name: str):
    (tmp_path / "themes").mkdir()
    (tmp_path / "secret.toml").write_text('base = "dark"')
    with pytest.raises(ThemeError, match="No such theme"):
        find_theme(name, tmp_path / "themes")


@pytest.mark.anyio
async def test_a_marked_theme_is_previewed_and_escape_returns_to_the_old_one(tmp_path: Path):
    (tmp_path / "mine.toml").write_text('accent = "#ff0000"')
    async with play(themes=tmp_path) as it:
        completed(it.host)
        await it.settle()
        await it.type("/theme")
        await it.press("enter")
        await it.see("solarized-light")
        await it.see("mine")
        assert it.app.theme == DARK
        await it.press("down")
        await it.until(lambda: it.app.theme == "light")
        await it.press("escape")
        await it.until(lambda: it.app.theme == DARK)
        await it.type("/theme mine")
        await it.press("enter")
        await it.until(lambda: it.app.theme == "mine")
