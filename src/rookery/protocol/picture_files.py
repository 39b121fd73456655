"""Images from a driving program: as data URIs or files."""

import os
import re
from collections.abc import Sequence
from functools import partial

import anyio.to_thread

from rookery.core.blocks import Image, Sight, picture
from rookery.core.limits import Limits

_DATA_URI = re.compile(r"data:(image/[a-z0-9.+-]+);base64,([A-Za-z0-9+/]+={0,2})", re.IGNORECASE)
PATTERN = "^data:image/[A-Za-z0-9.+-]+;base64,[A-Za-z0-9+/]+={0,2}$"
"""The same for JSON Schema."""

MOST = Limits().image_bytes


def image_in(uri: str) -> Image | None:
    """None if it is not an image in this form."""
    found = _DATA_URI.fullmatch(uri)
    return Image(media_type=found[1].lower(), data=found[2]) if found else None


async def load_pictures(
    given: Sequence[str], workspace: str
) -> tuple[tuple[Image, ...], list[dict[str, str]]]:
    """The images, and a problem by name for each that cannot be used."""
    images: list[Image] = []
    problems: list[dict[str, str]] = []
    for one in given:
        if one.startswith("data:"):
            image, problem = image_in(one), "It is not an image as a base64 data URI."
        else:
            read = partial(_read, os.path.join(workspace, one))
            image, problem = await anyio.to_thread.run_sync(read)
        if image:
            images.append(image)
        else:
            problems.append({"path": one[:200], "error": problem})
    return tuple(images), problems


def _read(path: str) -> tuple[Image | None, str]:
    """An image or the problem. Only regular files are read, as others may never end."""
    try:
        if not os.path.isfile(path):
            return None, "No such file."
        with open(path, "rb") as file:
            data = file.read(MOST + 1)
    except (OSError, ValueError) as error:
        return None, f"It cannot be read ({error})."
    shown = picture(data[:MOST], Sight(sees=True, most=MOST), complete=len(data) <= MOST)
    if shown is None:
        return None, "It is not an image."
    return shown.image, shown.words
