"""Characters: what cannot be encoded, look-alike punctuation, names that only look different.

Python's text may hold halves of surrogate pairs, from JSON escapes or from bytes that were no
text; none of them can be encoded. Some file systems treat names as equal that differ in case,
composition, trailing dots and spaces, or what follows a colon: a rule that compares names must
use `folded`, or it can be got around there.
"""

import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

_PLAIN = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u00a0\u202f\u205f\u3000", " "),
        **dict.fromkeys(map(chr, range(0x2000, 0x200B)), " "),
        "\u2026": "...",
    }
)


@lru_cache(maxsize=4096)
def folded(name: str) -> str:
    """A name that is the same for all names some file system takes for one."""
    bare = name.partition(":")[0].rstrip(" .") or name
    return caseless(bare)


def caseless(text: str) -> str:
    """Without regard to case and composition."""
    composed = unicodedata.normalize("NFC", text).casefold()
    return unicodedata.normalize("NFC", composed)


def folded_names(path: str) -> tuple[str, ...]:
    """The names in a path, from the outermost."""
    return tuple(folded(name) for name in path.split("/") if name not in ("", "."))


def plain_punctuation(text: str) -> str:
    """The text with typewriter quotes, dashes, dots and spaces."""
    return text if text.isascii() else text.translate(_PLAIN)


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
