"""Pictures: shown to models that see, described to the others."""

import base64

from rookery.core.blocks import Image
from rookery.core.image_facts import ImageFacts, image_facts
from rookery.core.limits import KIB, MIB
from rookery.core.values import value
from rookery.engine.ports import FileBytes, ToolContext

MOST_PIXELS = 40_000_000
TOGETHER = 20 * MIB
"""Bytes of pictures that one call shows."""

_SHOWN_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")


@value
class Picture:
    """What is said of a picture, and the picture itself if it is shown."""

    words: str
    image: Image | None = None


def picture(file: FileBytes, ctx: ToolContext, room: int) -> Picture | None:
    """None if it is none. `room` is what is left for pictures in this call."""
    facts = image_facts(file.data)
    if facts is None:
        return None
    if reason := _why_not_shown(facts, file, ctx, room):
        return Picture(words=f"{_words(facts, file)}; {reason}")
    image = Image(media_type=facts.media_type, data=base64.b64encode(file.data).decode())
    return Picture(words=_words(facts, file), image=image)


def _why_not_shown(facts: ImageFacts, file: FileBytes, ctx: ToolContext, room: int) -> str:
    size = len(file.data)
    if facts.media_type not in _SHOWN_TYPES:
        return "models cannot be shown this type"
    if not ctx.sees_images:
        return "this model cannot see images"
    if not facts.pixels:
        return "its header is damaged, so it is not shown"
    if size > ctx.limits.image_bytes or not file.sha:
        return f"too large to be shown, the limit is {ctx.limits.image_bytes // MIB} MiB"
    if facts.pixels > MOST_PIXELS:
        return f"too large to be shown, the limit is {MOST_PIXELS // 1_000_000} megapixels"
    if size > room:
        return f"not shown, one call shows {TOGETHER // MIB} MiB of images; read it by itself"
    return ""


def _words(facts: ImageFacts, file: FileBytes) -> str:
    extent = f", {facts.width}x{facts.height}" if facts.pixels else ""
    more = "" if file.sha else "more than "
    return f"Image, {facts.name}{extent}, {more}{_size(len(file.data))}"


def _size(size: int) -> str:
    return f"{size / MIB:.1f} MB" if size >= MIB else f"{-(-size // KIB)} KB"
