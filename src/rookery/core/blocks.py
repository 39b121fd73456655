"""The blocks of a turn, whole or shortened, and images.

Images go to models that accept them and are described to others. Type and size are read from the
file header only. Nothing is decoded, and every offset is checked before it is read.
"""

import base64
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from rookery.core.limits import KIB, MIB

LEFT_OUT = "\n[… {count} characters left out …]\n"
PICTURE_LEFT_OUT = "[a picture was left out]"
SHORTEST = 200
"""Characters a shortened text always keeps: the note about the cut and a few words."""


class Text(Struct, frozen=True, kw_only=True):
    text: str


class Thinking(Struct, frozen=True, kw_only=True):
    """Reasoning that the provider returned.

    `signature` goes back to the provider unchanged. Only the wire format in `source` understands
    it, so no other provider receives it.
    """

    text: str
    signature: str = ""
    source: str = ""


class Image(Struct, frozen=True, kw_only=True):
    """An image; `data` is base64."""

    media_type: str
    data: str


class ToolCall(Struct, frozen=True, kw_only=True, dict=True):
    """A call as the model made it. `problem` says why its arguments cannot be used."""

    id: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""

    @cached_property
    def key(self) -> str:
        """The same for two calls that ask for the same thing."""
        text = json.dumps([self.name, dict(self.arguments)], sort_keys=True, default=str)
        return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


class ToolResult(Struct, frozen=True, kw_only=True):
    call_id: str
    text: str
    images: tuple[Image, ...] = ()
    is_error: bool = False


Block: TypeAlias = Text | Thinking | Image | ToolCall | ToolResult


def shorter(text: str, longest: int) -> str:
    """The beginning and the end of a text that is longer than `longest`."""
    longest = max(longest, SHORTEST)
    if len(text) <= longest:
        return text
    kept = longest - len(LEFT_OUT) - len(str(len(text)))
    head = kept * 3 // 5
    tail = kept - head
    return text[:head] + LEFT_OUT.format(count=len(text) - kept) + text[len(text) - tail :]


def shorter_block(block: Block, longest: int) -> Block | None:
    """The block with no text longer than `longest`; None if it must be dropped.

    Reasoning is signed by its provider, so it is kept unchanged or dropped.
    """
    match block:
        case Text(text=text):
            return Text(text=shorter(text, longest))
        case Thinking(text=text, signature=signature):
            return block if len(text) + len(signature) <= longest else None
        case Image():
            return Text(text=PICTURE_LEFT_OUT)
        case ToolCall(arguments=arguments):
            return replace(block, arguments=_shorter_arguments(arguments, longest))
        case ToolResult(text=text, images=images):
            note = f"\n{PICTURE_LEFT_OUT}" if images else ""
            return replace(block, text=shorter(text, longest) + note, images=())


def _shorter_arguments(arguments: Mapping[str, Any], longest: int) -> Mapping[str, Any]:
    cut = {
        name: shorter(value, longest) if isinstance(value, str) else value
        for name, value in arguments.items()
    }
    spelled = json.dumps(cut, ensure_ascii=False, default=str)
    return cut if len(spelled) <= 4 * longest else {"left_out": shorter(spelled, longest)}


LONGEST_CYCLE = 3


def times_repeated(recent: tuple[str, ...], key: str) -> int:
    """How often the latest calls already went through the cycle that this call would close."""
    walk = (*recent, key)
    return max(_laps(walk, cycle) for cycle in range(1, LONGEST_CYCLE + 1))


def _laps(walk: tuple[str, ...], cycle: int) -> int:
    lap = walk[-cycle:]
    laps = 0
    while len(walk) >= cycle * (laps + 2) and walk[-cycle * (laps + 2) :][:cycle] == lap:
        laps += 1
    return laps


_MOST_SEGMENTS = 10_000
_AVIF_BRANDS = {b"avif", b"avis"}
_BITMAP_HEADERS = frozenset((12, 40, 52, 56, 64, 108, 124))
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_ALONE = frozenset((0x01, *range(0xD0, 0xD9)))

MOST_PIXELS = 40_000_000
TOGETHER = 20 * MIB
"""Largest total size of the images in one request."""
SHOWN_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")


class ImageFacts(Struct, frozen=True):
    """`width` and `height` are 0 if they are not known."""

    name: str
    media_type: str
    width: int = 0
    height: int = 0

    @property
    def pixels(self) -> int:
        return self.width * self.height


def image_facts(data: bytes) -> ImageFacts | None:
    """None if it is not an image of a known type."""
    return next((facts for read in _READERS if (facts := read(data)) is not None), None)


def _png(data: bytes) -> ImageFacts | None:
    if not data.startswith(b"\x89PNG\r\n\x1a\n"):
        return None
    there = data[8:16] == b"\0\0\0\rIHDR"
    return _facts("PNG", "image/png", _big(data, 16, 4) if there else 0, _big(data, 20, 4))


def _gif(data: bytes) -> ImageFacts | None:
    if not data.startswith((b"GIF87a", b"GIF89a")):
        return None
    return _facts("GIF", "image/gif", _little(data, 6, 2), _little(data, 8, 2))


def _jpeg(data: bytes) -> ImageFacts | None:
    if not data.startswith(b"\xff\xd8\xff"):
        return None
    frame = next((at for marker, at in _segments(data) if marker in _JPEG_FRAMES), None)
    if frame is None:
        return ImageFacts("JPEG", "image/jpeg")
    return _facts("JPEG", "image/jpeg", _big(data, frame + 5, 2), _big(data, frame + 3, 2))


def _segments(data: bytes) -> Iterator[tuple[int, int]]:
    """Markers and the offset of the length that follows each."""
    at = 2
    for _ in range(_MOST_SEGMENTS):
        while data[at : at + 2] == b"\xff\xff":
            at += 1
        if len(data) < at + 4 or data[at] != 0xFF:
            return
        marker = data[at + 1]
        if marker in _JPEG_ALONE:
            at += 2
            continue
        yield marker, at + 2
        at += 2 + max(2, _big(data, at + 2, 2))


def _webp(data: bytes) -> ImageFacts | None:
    if data[:4] != b"RIFF" or data[8:12] != b"WEBP":
        return None
    width = height = 0
    match data[12:16]:
        case b"VP8 " if data[23:26] == b"\x9d\x01\x2a":
            width, height = _little(data, 26, 2) & 0x3FFF, _little(data, 28, 2) & 0x3FFF
        case b"VP8L" if data[20:21] == b"\x2f" and len(data) >= 25:
            bits = _little(data, 21, 4)
            width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X" if len(data) >= 30:
            width, height = _little(data, 24, 3) + 1, _little(data, 27, 3) + 1
    return _facts("WebP", "image/webp", width, height)


def _never_shown(data: bytes) -> ImageFacts | None:
    """Types that no model accepts; their size does not matter."""
    if data.startswith(b"BM") and _little(data, 14, 4) in _BITMAP_HEADERS:
        return ImageFacts("BMP", "image/bmp")
    if data.startswith(b"\0\0\1\0") and 0 < _little(data, 4, 2) * 16 <= len(data) - 6:
        return ImageFacts("ICO", "image/x-icon")
    if data.startswith((b"II*\0", b"MM\0*")):
        return ImageFacts("TIFF", "image/tiff")
    if data[4:8] == b"ftyp" and _AVIF_BRANDS & {data[at : at + 4] for at in range(8, 40, 4)}:
        return ImageFacts("AVIF", "image/avif")
    return None


def _facts(name: str, media_type: str, width: int, height: int) -> ImageFacts:
    known = width > 0 and height > 0
    return ImageFacts(name, media_type, *((width, height) if known else (0, 0)))


def _big(data: bytes, at: int, size: int) -> int:
    """The big-endian number at an offset, or 0 if the data is too short."""
    there = data[at : at + size]
    return int.from_bytes(there, "big") if len(there) == size else 0


def _little(data: bytes, at: int, size: int) -> int:
    there = data[at : at + size]
    return int.from_bytes(there, "little") if len(there) == size else 0


_READERS: tuple[Callable[[bytes], ImageFacts | None], ...] = (
    *(_png, _jpeg, _gif, _webp, _never_shown),
)


class Picture(Struct, frozen=True, kw_only=True):
    """The description of an image, and the image itself if the model can see it."""

    words: str
    image: Image | None = None


class Sight(Struct, frozen=True, kw_only=True):
    """Whether the model accepts images, the limit for each, and what is left of the total limit."""

    sees: bool
    most: int
    room: int = TOGETHER


def picture(data: bytes, sight: Sight, *, complete: bool = True) -> Picture | None:
    """None if it is not an image. `complete` says that `data` is the whole file."""
    facts = image_facts(data)
    if facts is None:
        return None
    words = _words(facts, len(data), complete=complete)
    if reason := _why_not_shown(facts, len(data), sight, complete=complete):
        return Picture(words=f"{words}; {reason}")
    image = Image(media_type=facts.media_type, data=base64.b64encode(data).decode())
    return Picture(words=words, image=image)


def _why_not_shown(facts: ImageFacts, size: int, sight: Sight, *, complete: bool) -> str:
    if facts.media_type not in SHOWN_TYPES:
        return "models do not accept this type"
    if not sight.sees:
        return "this model does not accept images"
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
