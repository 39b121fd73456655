"""Words for somebody whose path lies outside a scope: what is near, and what would cover it."""

import re
from collections.abc import Sequence
from itertools import takewhile

from rookery.governance.scope.scope_patterns import literal_folder, scope_pattern, split

MOST_NAMED = 8
"""More paths than these are covered by their folder rather than one by one."""

_SIGN_AT_THE_START = re.compile(r"[!~]|\\\\|[A-Za-z][A-Za-z0-9+.-]*:|\s*$")
_MEANING = re.compile(r"([\\*?\[\]{},])")


def nearest(patterns: Sequence[str], path: str) -> str:
    """The granting pattern that has the most folders in common with the path, the first if there
    are several; empty if there is none at all."""
    granting = [text for text in patterns if not text.startswith("!")]
    return max(granting, key=lambda text: _shared(text, path), default="")


def smallest_pattern(paths: Sequence[str]) -> str:
    """The narrowest pattern we can write that covers all of the paths."""
    unique = list(dict.fromkeys(paths))
    if len(unique) == 1:
        return literally(unique[0])
    folders = _common([path.split("/")[:-1] for path in unique])
    rests = ["/".join(path.split("/")[len(folders) :]) for path in unique]
    start = "".join(f"{literally(each, first=not at)}/" for at, each in enumerate(folders))
    if len(unique) > MOST_NAMED:
        return f"{start}**"
    return f"{start}{{{','.join(literally(each, first=not folders) for each in rests)}}}"


def writable_prefixes(patterns: Sequence[str]) -> tuple[str, ...]:
    """What each granting pattern begins with before anything in it varies: a file or a folder, or
    empty for the root. Nothing that any of them grants lies outside."""
    granting = [scope_pattern(text) for text in patterns if not text.startswith("!")]
    found = ("/".join(literal_folder(way)) for each in granting for way in each.ways)
    return tuple(dict.fromkeys(found))


def literally(path: str, *, first: bool = True) -> str:
    """A pattern for that path and nothing else but what is below it. What stands `first` must not
    be taken for a sign of its own."""
    spelled = _MEANING.sub(r"\\\1", path)
    return f"./{spelled}" if first and _SIGN_AT_THE_START.match(spelled) else spelled


def _shared(text: str, path: str) -> int:
    ways = scope_pattern(text).ways
    return max(len(_common([literal_folder(way), split(path)])) for way in ways)


def _common(rows: Sequence[Sequence[str]]) -> list[str]:
    """What all of them begin with."""
    columns = takewhile(lambda column: len(set(column)) == 1, zip(*rows, strict=False))
    return [column[0] for column in columns]
