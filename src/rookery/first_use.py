"""Work that is done when a pattern or a type is first used."""

import re
from threading import RLock
from typing import Any, AnyStr, TypeVar, cast
from weakref import ref

from msgspec import json

T = TypeVar("T")
_prepared: set[object] = set()
"""Weak references to classes, because those of custom tools end with their host; other types."""
_preparing = RLock()


def lazy_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """A regular expression that is compiled when it is first used. Compiling one takes as long as
    loading a small module, and a run uses few of them. So the modules that every run loads define
    their patterns with this; elsewhere `re.compile` is fine."""
    return cast("re.Pattern[AnyStr]", _LazyPattern(pattern, flags))


class _LazyPattern:
    def __init__(self, *given: Any) -> None:
        self._given = given

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(*self._given), name)
        setattr(self, name, value)  # found at once from now on
        return value


def prepared(kind: type[T]) -> type[T]:
    """The same type, once msgspec knows how to read it. If two threads use a type for the first
    time at once, msgspec 0.22 may crash the process. So data is read into `prepared(kind)`; a
    `Decoder` that is made with its module needs no preparation."""
    is_class = isinstance(kind, type)
    if (ref(kind) if is_class else kind) not in _prepared:
        with _preparing:
            json.Decoder(kind)
            _prepared.add(ref(kind, _prepared.discard) if is_class else kind)
    return kind
