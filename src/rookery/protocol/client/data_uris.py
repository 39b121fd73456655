"""Pictures as drivers hand them over: data URIs that hold base64."""

import re

from rookery.core.blocks import Image

_DATA_URI = re.compile(r"data:(image/[a-z0-9.+-]+);base64,([A-Za-z0-9+/]+={0,2})", re.IGNORECASE)
PATTERN = "^data:image/[A-Za-z0-9.+-]+;base64,[A-Za-z0-9+/]+={0,2}$"
"""The same for readers of a JSON Schema."""


def image_in(uri: str) -> Image | None:
    """None if it is no picture in that form."""
    found = _DATA_URI.fullmatch(uri)
    return Image(media_type=found[1].lower(), data=found[2]) if found else None
