"""Pictures: shown to models that see, described to the others."""

import base64

from msgspec import Struct

from rookery.core.blocks import Image
from rookery.core.image_facts import ImageFacts, image_facts
from rookery.core.limits import KIB, MIB

MOST_PIXELS = 40_000_000
TOGETHER = 20 * MIB
"""Bytes of pictures that are shown at once."""

_SHOWN_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")


class Picture(Struct, frozen=True, kw_only=True):
    """What is said of a picture, and the picture itself if it is shown."""

    words: str
    image: Image | None = None


class Sight(Struct, frozen=True, kw_only=True):
    """Whether a model sees pictures, how large each may be, and what is left for all."""

    sees: bool
    most: int
    room: int = TOGETHER


def picture(data: bytes, sight: Sight, *, complete: bool = True) -> Picture | None:
    """None if it is none. It is `complete` if `data` is all of the file."""
    facts = image_facts(data)
    if facts is None:
        return None
    words = _words(facts, len(data), complete=complete)
    if reason := _why_not_shown(facts, len(data), sight, complete=complete):
        return Picture(words=f"{words}; {reason}")
    image = Image(media_type=facts.media_type, data=base64.b64encode(data).decode())
    return Picture(words=words, image=image)


def _why_not_shown(facts: ImageFacts, size: int, sight: Sight, *, complete: bool) -> str:
    if facts.media_type not in _SHOWN_TYPES:
        return "models cannot be shown this type"
    if not sight.sees:
        return "this model cannot see images"
    if not facts.pixels:
        return "its header is damaged, so it is not shown"
    if size > sight.most or not complete:
        return f"too large to be shown, the limit is {sight.most // MIB} MiB"
    if facts.pixels > MOST_PIXELS:
        return f"too large to be shown, the limit is {MOST_PIXELS // 1_000_000} megapixels"
    if size > sight.room:
        return f"not shown, one call shows {TOGETHER // MIB} MiB of images; read it by itself"
    return ""


def _words(facts: ImageFacts, size: int, *, complete: bool) -> str:
    extent = f", {facts.width}x{facts.height}" if facts.pixels else ""
    more = "" if complete else "more than "
    return f"Image, {facts.name}{extent}, {more}{_size(size)}"


def _size(size: int) -> str:
    return f"{size / MIB:.1f} MB" if size >= MIB else f"{-(-size // KIB)} KB"
