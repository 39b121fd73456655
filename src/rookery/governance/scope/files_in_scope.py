"""How many files a scope pattern means at this moment."""

import os
import unicodedata
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path

from rookery.governance.scope.scope_patterns import scope_pattern

MOST_FILES = 200_000
_NOT_LOOKED_INTO = {".git", ".hg", ".jj", ".svn"}


class FilesInScope:
    """The files below a governance root, looked for once."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def count(self, pattern: str) -> int:
        """Raises `PatternError`."""
        covers = scope_pattern(pattern).covers
        return sum(1 for path in self._paths if covers(path))

    def any(self, pattern: str) -> bool:
        covers = scope_pattern(pattern).covers
        return any(covers(path) for path in self._paths)

    @cached_property
    def _paths(self) -> tuple[str, ...]:
        return tuple(islice(self._walked(), MOST_FILES))

    def _walked(self) -> Iterator[str]:
        for here, folders, names in os.walk(self._root):
            folders[:] = sorted(set(folders) - _NOT_LOOKED_INTO)
            below = os.path.relpath(here, self._root)
            start = "" if below == "." else f"{below}/"
            yield from (unicodedata.normalize("NFC", f"{start}{name}") for name in sorted(names))
