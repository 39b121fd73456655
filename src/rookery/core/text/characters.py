"""Characters: hidden ones, look-alikes, and what cannot be encoded.

Foreign text could contain instructions that no person sees, so hidden and reordering characters are
marked as `<U+200B>`. Exceptions: joiners in emoji and in scripts that need them, variation
selectors after a matching sign, direction marks in right-to-left lines. Direction overrides are
always marked.

Python strings may contain lone surrogates, from JSON escapes or undecodable bytes; these cannot be
encoded. Some file systems treat names as equal that differ in case, composition, trailing dots and
spaces, or what follows a colon: rules that compare names must use `folded`.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from heapq import nsmallest
from typing import Any, TypeVar

from rookery.first_use import lazy_pattern

T = TypeVar("T")

_BORDERS = "/._- "


def best_matches(
    candidates: Iterable[T], letters: str, most: int, name: Callable[[T], str]
) -> list[T]:
    """Items whose name contains the letters in order, ignoring case. Without letters, the first
    items."""
    wanted = "".join(letters.split()).casefold()
    scored = (
        (rank, place, candidate)
        for place, candidate in enumerate(candidates)
        if (rank := _rank(name(candidate), wanted)) is not None
    )
    return [candidate for _, _, candidate in nsmallest(most, scored, key=lambda each: each[:2])]


def _rank(name: str, wanted: str) -> tuple[int, int, int] | None:
    """Lower is better: contiguous in the last part, contiguous, at word starts, scattered. None
    if it does not match."""
    if not wanted:
        return (0, 0, 0)
    text = name.casefold()
    last = text.rstrip("/").rpartition("/")[2]
    if (at := last.find(wanted)) >= 0:
        return (0 if at == 0 else 1, at, len(text))
    if (at := text.find(wanted)) >= 0:
        return (2, at, len(text))
    gaps = _gaps(text, wanted)
    return None if gaps is None else (3, gaps, len(text))


def _gaps(text: str, wanted: str) -> int | None:
    """How scattered the letters are, from the end, where names differ most."""
    at, gaps = len(text), 0
    for letter in reversed(wanted):
        found = text.rfind(letter, 0, at)
        if found < 0:
            return None
        starts_word = found == 0 or text[found - 1] in _BORDERS
        gaps += 0 if found == at - 1 or starts_word else 1
        at = found
    return gaps


INVISIBLE: tuple[tuple[int, int], ...] = (
    (0x00AD, 0x00AD),
    (0x034F, 0x034F),
    (0x061C, 0x061C),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),
    (0x2028, 0x202E),
    (0x2060, 0x206F),
    (0x2800, 0x2800),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0E),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFFB),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
)
"""The first and last character of each range."""
JOINER = 0x200D
"""Between two emoji it joins them and hides nothing."""
EMOJI = "\u2190-\u21ff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f300-\U0001faff"
"""For use inside brackets of a regular expression."""


_ALL = "".join(f"{chr(first)}-{chr(last)}" for first, last in INVISIBLE)
_HIDDEN = f"[{_ALL}\ufe0f]+"
_MARK = lazy_pattern(r"<U\+([0-9A-F]{4,6})>")
_JOINED_SCRIPTS = "\u0600-\u08ff\u0900-\u0dff\u0e00-\u109f\u1780-\u18af\ufb50-\ufdff\ufe70-\ufefe"
_RIGHT_TO_LEFT = "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]"
_FLAG = (
    "\U0001f3f4(?:"
    + "|".join(
        "".join(chr(0xE0000 + ord(letter)) for letter in code)
        for code in ("gbeng", "gbsct", "gbwls")
    )
    + ")\U000e007f"
)
_MAY_JOIN = f"[{EMOJI}\ufe0f{_JOINED_SCRIPTS}]"
_MAY_BE_SELECTED = (
    f"[{EMOJI}#*0-9\u00a9\u00ae\u203c-\u3299\u3400-\u9fff\uf900-\ufaff\U0001f000-\U0003ffff]"
)
_SELECTORS = "[\ufe00-\ufe0f\U000e0100-\U000e01ef]"
_MONGOLIAN = "[\u1820-\u18aa]"
_JOINERS = "\u200c\u200d"
_DIRECTIONS = "\u200e\u200f\u061c"
LONGEST_LINE = 4096


def marked(text: str) -> str:
    """The text with hidden characters spelled out, except those that ordinary text needs."""
    if text.isascii() or not _compiled(_HIDDEN).search(text):
        return text
    flags = {found.start() + 1 for found in _compiled(_FLAG).finditer(text)}
    return _compiled(_HIDDEN).sub(lambda found: _shown(found, flags), text)


def unmarked(text: str, original: str) -> str:
    """Replace marks with the characters they stand for in the original, unless the original
    contains the mark itself. A line that was copied whole becomes the original line."""
    lines = _lines_by_mark(original)
    return "\n".join(
        lines[line] if line in lines else _MARK.sub(lambda found: _put_back(found, original), line)
        for line in text.split("\n")
    )


@cache
def _compiled(expression: str) -> re.Pattern[str]:
    """Compiled on first use: most text is plain, and compiling takes long."""
    return re.compile(expression)


def _lines_by_mark(original: str) -> dict[str, str]:
    """Original lines by their marked form, where it is unique."""
    shown: dict[str, set[str]] = {}
    for line in set(original.replace("\r\n", "\n").split("\n")):
        shown.setdefault(marked(line), set()).add(line)
    return {mark: min(lines) for mark, lines in shown.items() if len(lines) == 1}


def marks_in(text: str) -> bool:
    return bool(_MARK.search(text))


def hidden_marks(text: str) -> list[str]:
    """The marks of hidden characters in a text."""
    found = (match for match in _MARK.finditer(text) if _is_hidden(_character(match)))
    return list(dict.fromkeys(match[0] for match in found))


def _is_hidden(character: str) -> bool:
    return bool(character) and bool(_compiled(_HIDDEN).fullmatch(character))


def _put_back(found: re.Match[str], original: str) -> str:
    character = _character(found)
    meant = _is_hidden(character) and character in original and found[0] not in original
    return character if meant else found[0]


def _character(found: re.Match[str]) -> str:
    code = int(found[1], 16)
    return chr(code) if code <= 0x10FFFF else ""


def _shown(found: re.Match[str], flags: set[int]) -> str:
    if found.start() in flags:
        return found[0]
    return "".join(_spelled(found, at) for at in range(found.start(), found.end()))


def _spelled(found: re.Match[str], at: int) -> str:
    text = found.string
    character = text[at]
    return character if _is_needed(text, at) else f"<U+{ord(character):04X}>"


def _is_needed(text: str, at: int) -> bool:
    """Whether ordinary text has the character here and would look different without it."""
    character, before, after = text[at], text[at - 1 : at], text[at + 1 : at + 2]
    if character in _JOINERS:
        return bool(_compiled(_MAY_JOIN).match(before) and _compiled(_MAY_JOIN).match(after))
    if _compiled(_SELECTORS).match(character):
        return bool(_compiled(_MAY_BE_SELECTED).match(before))
    if character in _DIRECTIONS:
        return before not in _DIRECTIONS and bool(_compiled(_RIGHT_TO_LEFT).search(_line(text, at)))
    if "\u180b" <= character <= "\u180d":
        return bool(_compiled(_MONGOLIAN).match(before))
    return character == "\u2800" and any("\u2801" <= side <= "\u28ff" for side in (before, after))


def _line(text: str, at: int) -> str:
    start = max(text.rfind("\n", 0, at) + 1, at - LONGEST_LINE)
    end = text.find("\n", at)
    return text[start : min(end if end >= 0 else len(text), at + LONGEST_LINE)]


def texts_in(value: object) -> Iterator[str]:
    """Every string in the arguments of a call."""
    match value:
        case str():
            yield value
        case dict():
            for each in value.values():
                yield from texts_in(each)
        case list() | tuple():
            for each in value:
                yield from texts_in(each)


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
    """Equal for all names that some file system treats as the same."""
    bare = name.partition(":")[0].rstrip(" .") or name
    return caseless(bare)


def caseless(text: str) -> str:
    """The text without differences of case and composition."""
    if text.isascii():
        return text.lower()
    composed = unicodedata.normalize("NFC", text).casefold()
    return unicodedata.normalize("NFC", composed)


def folded_names(path: str) -> tuple[str, ...]:
    """The names in a path, outermost first."""
    if path.isascii() and ":" not in path:  # faster, for very many paths
        names = path.lower().split("/")
        return tuple([name.rstrip(" .") or name for name in names if name not in ("", ".")])
    return tuple(folded(name) for name in path.split("/") if name not in ("", "."))


def plain_punctuation(text: str) -> str:
    """The text with ASCII quotes, dashes, dots and spaces."""
    return text if text.isascii() else text.translate(_PLAIN)


def is_utf8(text: str) -> bool:
    """Whether it can be encoded. Undecodable bytes, as in a file name, cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def whole(text: str) -> str:
    """Join surrogate pairs that were split; a lone half becomes U+FFFD."""
    if is_utf8(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def whole_values(value: Any) -> Any:
    """The same JSON value with every string made whole."""
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
    """Decode text with surrogate-escaped bytes as UTF-8; invalid bytes become U+FFFD."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
