"""The pictures of a letter, which are data URIs."""

import re

from rookery.core.blocks import Image
from rookery.errors import CommandRejected
from rookery.manager.sessions.orders import Letter

_DATA_URI = re.compile(r"data:(image/[a-z0-9.+-]+);base64,([A-Za-z0-9+/]+={0,2})", re.IGNORECASE)
MOST = 4
"""In one letter."""


def images_of(letter: Letter) -> tuple[Image, ...]:
    return tuple(_image(uri) for uri in letter.images)


def check(letter: Letter) -> Letter:
    """The letter, if its pictures are some. Raises `CommandRejected` with what is wrong."""
    if len(letter.images) > MOST:
        raise CommandRejected(f"A message takes {MOST} pictures at most. Leave some out.")
    images_of(letter)
    return letter


def _image(uri: str) -> Image:
    if not (found := _DATA_URI.fullmatch(uri)):
        raise CommandRejected("Pictures are given as data URIs: data:image/...;base64,...")
    return Image(media_type=found[1].lower(), data=found[2])
