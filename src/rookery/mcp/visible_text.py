"""Words that a server chose, made fit to be shown to a model or a person."""

import re
import unicodedata

from rookery.core.text.characters import whole

_UNSEEN = {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}
_KEPT = {"\n", "\t"}
_TAG = re.compile(r"<(?=[\s/]*[A-Za-z!?])(?!U\+)")
_SELECTORS = (range(0xFE00, 0xFE0F), range(0xE0100, 0xE01F0))


def visible(text: str, most: int) -> str:
    """At most so many characters, with nothing in them that is hidden or reorders the rest."""
    text = whole(text)
    cut = text if len(text) <= most else text[: most - 1] + "…"
    return cut if cut.isascii() and cut.isprintable() else "".join(map(_spelled, cut))


def visible_line(text: str, most: int) -> str:
    """The same on one line, in which there is no tag: nothing in it can pose as anybody else."""
    return visible(_TAG.sub("‹", " ".join(text.split())), most)


def _spelled(char: str) -> str:
    if char in _KEPT:
        return char
    code = ord(char)
    hidden = unicodedata.category(char) in _UNSEEN or any(code in each for each in _SELECTORS)
    return f"<U+{code:04X}>" if hidden else char
