"""Texts of files that were looked at, by their hashes: as many of the newest as there is room for.

They tell what has changed about a file since the model read it.
"""

from typing import TypeVar

from rookery.core.limits import MIB
from rookery.engine.ports.files import FileBytes, FileText

MOST = 4 * MIB
"""Characters of all texts together."""

T = TypeVar("T", bound=FileText | FileBytes | None)


class KnownTexts:
    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._texts: dict[str, str] = {}
        self._size = 0

    def get(self, sha: str) -> str | None:
        return self._texts.get(sha)

    def noted(self, file: T) -> T:
        """The file itself. A text whose hash is not known is not kept, and no very long one."""
        if isinstance(file, FileText) and file.sha and len(file.text) <= self._most:
            self._drop(file.sha)
            self._texts[file.sha] = file.text
            self._size += len(file.text)
            while self._size > self._most:
                self._drop(next(iter(self._texts)))
        return file

    def _drop(self, sha: str) -> None:
        self._size -= len(self._texts.pop(sha, ""))
