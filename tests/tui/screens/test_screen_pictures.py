"""The pictures of the side screens in the documents show what the product shows."""

import re
from html import unescape
from itertools import takewhile

import pytest

from support.tui_screen_pictures import SCENES, SIZES, file_of, picture

pytestmark = pytest.mark.anyio

STILL = [name for name in SCENES if name != "checkpoints"]
"""Those without times of day, which are not the same everywhere."""


def words(svg: str) -> list[str]:
    """All but the last line, in which something moves."""
    found = (unescape(text) for text in re.findall(r"<text[^>]*>(.*?)</text>", svg))
    return list(takewhile(lambda text: "Waiting" not in text, found))[:-1]


@pytest.mark.parametrize("scene", STILL)
async def test_a_picture_is_up_to_date(scene: str):
    drawn = await picture(*SCENES[scene], SIZES[0])
    assert words(drawn) == words(file_of(scene, SIZES[0]).read_text(encoding="utf-8"))


def test_there_is_one_of_every_screen_and_none_needs_anything_from_elsewhere():
    for scene in SCENES:
        for size in SIZES:
            svg = file_of(scene, size).read_text(encoding="utf-8")
            assert "url(http" not in svg
            assert len(words(svg)) > 10
