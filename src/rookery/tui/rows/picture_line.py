"""Pictures on one line: a terminal shows of them only that they are there."""

from collections.abc import Iterable

from rookery.core.blocks import Image
from rookery.core.limits import KIB, MIB
from rookery.core.text.terminal_text import harmless_line

MARK = "▣"


def byte_count(image: Image) -> int:
    """Of the picture itself, which is kept as base64."""
    return len(image.data) * 3 // 4 - image.data[-2:].count("=")


def size_in_words(size: int) -> str:
    return f"{size / MIB:.1f} MB" if size >= MIB else f"{-(-size // KIB)} KB"


def labels(pictures: Iterable[tuple[str, Image]]) -> list[str]:
    """One for each picture, given its name."""
    return [
        f"{MARK} {number} {name} {size_in_words(byte_count(image))}"
        for number, (name, image) in enumerate(pictures, 1)
    ]


def nameless(images: Iterable[Image]) -> str:
    """Pictures of which nobody knows any longer what they were called."""
    return "  ".join(labels((harmless_line(_kind(image)), image) for image in images))


def _kind(image: Image) -> str:
    return image.media_type.rpartition("/")[2].upper()
