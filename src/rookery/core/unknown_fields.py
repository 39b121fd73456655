"""Names fields that a request does not have, so that a misspelled one is never dropped. So is
a field that is there twice: readers take one of its values, and it may be the wrong one.

A field that is dropped leaves its default in force, which may be the wider one:
`auto_aprove: false` would start an agent that acts without asking.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import fields

KIND = "kind"
_LONGEST_SHOWN = 60
_NEARLY = 0.85


def unknown_field(given: Iterable[str], known: Iterable[str]) -> str:
    """A clause about the first field that is not known, with the nearest that is; or nothing."""
    names = list(known)
    for name in given:
        if name not in names:
            return _clause(name, names)
    return ""


def misspelled_field(given: Iterable[str], known: Sequence[str]) -> str:
    """A clause about the first field that is nearly a known one; or nothing. For formats of
    others, whose own fields are to be let through."""
    from difflib import get_close_matches

    for name in given:
        if name not in known and (near := get_close_matches(name, known, n=1, cutoff=_NEARLY)):
            return f"has no field {name!r}; did you mean {near[0]!r}?"
    return ""


def unknown_field_within(given: object, read: object) -> str:
    """The same for all that a value was `read` from, however deep."""
    if isinstance(read, Struct) and isinstance(given, Mapping):
        names = [field.name for field in fields(read)]
        here = unknown_field((each for each in given if each != KIND), names)
        return here or _first(_parts(given, read, names))
    if isinstance(read, tuple | list) and isinstance(given, Sequence):
        return _first(zip(given, read, strict=False))
    return ""


class _Repeated(Exception):
    """Some object has this field twice."""


def repeated_field(text: bytes | str) -> str:
    """A clause about the first field that an object in this JSON has twice; or nothing."""
    import json

    try:
        json.loads(text, object_pairs_hook=_with_each_once)
    except _Repeated as found:
        return f"has the field {_shortened(str(found))!r} twice."
    except (ValueError, RecursionError):  # whoever reads it says so
        return ""
    return ""


def _with_each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read: dict[str, Any] = {}
    for name, given in pairs:
        if name in read:
            raise _Repeated(name)
        read[name] = given
    return read


def _parts(given: Mapping[str, Any], read: Any, names: Iterable[str]) -> list[tuple[Any, Any]]:
    return [(given[name], getattr(read, name)) for name in names if name in given]


def _first(parts: Iterable[tuple[Any, Any]]) -> str:
    found = (unknown_field_within(given, read) for given, read in parts)
    return next((clause for clause in found if clause), "")


def _clause(name: str, known: Sequence[str]) -> str:
    from difflib import get_close_matches

    shown = _shortened(name)
    if near := get_close_matches(name.lower(), known, n=1, cutoff=0.6):
        return f"has no field {shown!r}; did you mean {near[0]!r}?"
    listed = ", ".join(known)
    return f"has no field {shown!r}; it has {listed}." if listed else f"has no field {shown!r}."


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST_SHOWN else f"{name[:_LONGEST_SHOWN]}…"
