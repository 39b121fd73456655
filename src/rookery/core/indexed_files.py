"""Files as an index of their contents knows them."""

from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

Mark: TypeAlias = tuple[int, int, int, int]
"""Size, times of change of content and of file, and inode: as long as they stay, so does it."""


class Found(Struct, frozen=True):
    path: str
    mark: Mark


class Listing(Struct, frozen=True, kw_only=True):
    """The files to be indexed. Unless it is `complete`, there are others nobody looked at."""

    files: Sequence[Found]
    complete: bool = True
    notes: tuple[str, ...] = ()


class Source(Struct, frozen=True, kw_only=True):
    """A file as it is. What is no text has an empty one."""

    text: str
    mark: Mark
    digest: bytes
