"""The screenshots in the documentation are up to date."""

import re
from html import unescape
from itertools import takewhile

import pytest

from rookery.tui.theme import DARK, LIGHT
from support.tui_pictures import NAMES, SIDE_SCREENS, SIZES, file_of, picture, side_screen_picture

pytestmark = pytest.mark.anyio


def words(svg: str) -> list[str]:
    return [unescape(text) for text in re.findall(r"<text[^>]*>(.*?)</text>", svg)]


def still_words(svg: str) -> list[str]:
    """The text of a side screen without its animated last line."""
    return list(takewhile(lambda text: "Waiting" not in text, words(svg)))[:-1]


@pytest.mark.parametrize("scene", [name for name in NAMES if name != "working"])
async def test_a_picture_is_up_to_date(scene: str):
    """Only screens without animation."""
    drawn = await picture(scene, SIZES[0])
    assert words(drawn) == words(file_of(scene, SIZES[0]).read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", [name for name in SIDE_SCREENS if name != "checkpoints"])
async def test_a_picture_of_a_side_screen_is_up_to_date(name: str):
    """Only screens without times of day, which depend on the machine."""
    drawn = await side_screen_picture(name, SIZES[0])
    kept = file_of(name, SIZES[0]).read_text(encoding="utf-8")
    assert still_words(drawn) == still_words(kept)


def test_every_scene_has_a_picture_without_external_resources():
    files = [file_of(name, size, DARK) for name in (*NAMES, *SIDE_SCREENS) for size in SIZES]
    for file in (*files, file_of("edit", SIZES[0], LIGHT)):
        svg = file.read_text(encoding="utf-8")
        assert "url(http" not in svg
        assert len(words(svg)) > 10
