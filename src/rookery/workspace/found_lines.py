"""What a search has found so far, up to its limits, and how a model is shown it."""

import base64
from pathlib import PurePosixPath
from typing import Any

from msgspec import Struct, field

from rookery.core.limits import Limits
from rookery.platform.paths import visible

_CUT = " [cut]"


class FoundLines(Struct):
    """Takes what ripgrep says in JSON, in the order of the files that were searched."""

    limits: Limits
    matches: int = 0
    oversized: int = 0
    """Lines that were found but are too long to be looked at."""
    full: bool = False
    _size: int = 0
    _files: dict[str, dict[int, tuple[str, bool]]] = field(default_factory=dict)

    def take(self, message: object) -> None:
        match message:
            case {"type": "match" | "context" as kind, "data": dict(data)}:
                self._add(_path(data["path"]), data, is_match=kind == "match")
            case {"type": "end", "data": {"binary_offset": int(), "path": path}}:
                self._forget(_path(path))

    def _add(self, path: str, data: dict[str, Any], *, is_match: bool) -> None:
        enough = self.matches >= self.limits.search_matches or self._size > self.limits.read_bytes
        self.full = self.full or (is_match and enough)
        if self.full:
            return
        text = _cut(_text(data["lines"]).rstrip("\r\n"), self.limits.search_line_length)
        self.matches += is_match
        self._size += len(text)
        self._files.setdefault(path, {})[data["line_number"]] = text, is_match

    def _forget(self, path: str) -> None:
        """It has turned out not to be text."""
        rows = self._files.pop(path, {})
        self.matches -= sum(is_match for _, is_match in rows.values())
        self._size -= sum(len(text) for text, _ in rows.values())

    def report(self) -> str:
        if self.full:
            header = (
                f"Showing the first {self.matches} of {self.matches}+ matches. "
                "Narrow the search to see others."
            )
        else:
            header = f"Found {self.matches} {'match' if self.matches == 1 else 'matches'}."
        parts = [f"# {visible(path)}\n{_groups(rows)}" for path, rows in self._files.items()]
        return "\n\n".join([header, *parts])


def _groups(rows: dict[int, tuple[str, bool]]) -> str:
    shown: list[str] = []
    last = 0
    for number, (text, is_match) in rows.items():
        if not is_match and not any(rows.get(near, ("", False))[1] for near in _beside(number)):
            continue
        if last and number > last + 1:
            shown.append("----")
        shown.append(f"{number:>3} | {text}")
        last = number
    return "\n".join(shown)


def _beside(number: int) -> tuple[int, int]:
    return number - 1, number + 1


def _path(spelled: dict[str, str]) -> str:
    return str(PurePosixPath(_text(spelled)))


def _text(spelled: dict[str, str]) -> str:
    """ripgrep spells what is not UTF-8 in base64."""
    if "text" in spelled:
        return spelled["text"]
    return base64.b64decode(spelled["bytes"]).decode("utf-8", "replace")


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[:length] + _CUT
