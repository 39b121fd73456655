"""The pictures in the documents show what the product shows."""

import re
from html import unescape

import pytest

from rookery.tui.theme import DARK, LIGHT
from support.tui_pictures import NAMES, SIZES, file_of, picture

pytestmark = pytest.mark.anyio

STILL = [name for name in NAMES if name != "working"]
"""Those in which nothing moves."""


def words(svg: str) -> list[str]:
    return [unescape(text) for text in re.findall(r"<text[^>]*>(.*?)</text>", svg)]


@pytest.mark.parametrize("scene", STILL)
async def test_a_picture_is_up_to_date(scene: str):
    drawn = await picture(scene, SIZES[0])
    assert words(drawn) == words(file_of(scene, SIZES[0]).read_text(encoding="utf-8"))


def test_there_is_one_of_every_moment_and_none_needs_anything_from_elsewhere():
    files = [file_of(name, size, DARK) for name in NAMES for size in SIZES]
    for file in (*files, file_of("edit", SIZES[0], LIGHT)):
        svg = file.read_text(encoding="utf-8")
        assert "url(http" not in svg
        assert words(svg)
