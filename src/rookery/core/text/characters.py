"""Text that is not made of whole characters, made whole.

Python's text may hold halves of surrogate pairs. JSON escapes bring them, and so do bytes that
were no text where they were read. None of them can be encoded.
"""

from collections.abc import Mapping
from typing import Any


def is_utf8(text: str) -> bool:
    """Whether it can be encoded. What was no text where it was read cannot: a file's name, say."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def whole(text: str) -> str:
    """Halves of a character that came apart are joined again; a lone half becomes U+FFFD."""
    if is_utf8(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def whole_values(value: Any) -> Any:
    """The same JSON value with every text in it whole."""
    match value:
        case str():
            return whole(value)
        case Mapping():
            return {whole_values(key): whole_values(each) for key, each in value.items()}
        case list() | tuple():
            return [whole_values(each) for each in value]
        case _:
            return value


def as_utf8(text: str) -> str:
    """Text whose unreadable bytes Python kept as halves, read as UTF-8; what is none is U+FFFD."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
