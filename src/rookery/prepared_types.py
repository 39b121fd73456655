"""Types that msgspec can read in any thread.

msgspec finds out how to read a type when the type is first used. If two threads do that at once,
msgspec 0.22 may crash the process. So whatever is read into a type of ours is read into
`prepared(type)`. A `Decoder` that is made with its module needs no preparation.
"""

from threading import RLock
from typing import TypeVar

from msgspec import json

T = TypeVar("T")
_prepared: set[object] = set()
_preparing = RLock()


def prepared(kind: type[T]) -> type[T]:
    """The same type, after its first use."""
    if kind not in _prepared:
        with _preparing:
            json.Decoder(kind)
            _prepared.add(kind)
    return kind
