"""Files of the input area: the earlier inputs, and the draft that was not sent yet."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rookery.platform.disk import put

MAX_ENTRIES = 500
VERSION = 1


class InputHistory:
    """Earlier inputs, newest last; blank and repeated ones are skipped.

    With a file, they are kept for later runs, with those that other processes add meanwhile.
    """

    def __init__(self, path: Path | None = None, draft: "DraftFile | None" = None) -> None:
        self._path = path
        self.draft = draft
        self.entries = _read(path) if path else []

    def add(self, text: str) -> None:
        if not text.strip():
            return
        known = (_read(self._path) if self._path else []) or self.entries
        if known[-1:] != [text]:
            known = [*known, text][-MAX_ENTRIES:]
        self.entries = known
        if self._path:
            with suppress(OSError):  # a warning would only disturb
                _write(self._path, known)


def _read(path: Path) -> list[str]:
    """Read the entries; a missing or broken file has none."""
    try:
        kept: Any = json.loads(path.read_text(encoding="utf-8"))
        entries = kept["entries"]
        return [str(each) for each in entries if isinstance(each, str)][-MAX_ENTRIES:]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []


def _write(path: Path, entries: Sequence[str]) -> None:
    _put(path, json.dumps({"version": VERSION, "entries": list(entries)}, ensure_ascii=False))


class DraftFile:
    """The draft of one running client. Clients of the same folder share the beginning of the name,
    so that the next one finds what a client left behind, even one that was killed."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self._path = folder / f"{name}.{os.getpid()}"
        self._saved = ""

    def take(self) -> str:
        """Take over the newest draft of a client that is gone."""
        for path in self._left_behind():
            with suppress(OSError, UnicodeDecodeError):
                path.rename(self._path)
                self._saved = self._path.read_text(encoding="utf-8")
                return self._saved
        return ""

    def _left_behind(self) -> Iterator[Path]:
        with suppress(OSError):
            found = [path for path in self._folder.glob(f"{self._name}.*") if _is_left(path)]
            yield from sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)

    def save(self, text: str) -> None:
        """Save the draft; a blank one is removed."""
        text = text if text.strip() else ""
        if text == self._saved:
            return
        self._saved = text
        with suppress(OSError):  # a warning would only disturb
            if text:
                _put(self._path, text)
            else:
                self._path.unlink(missing_ok=True)


def _is_left(path: Path) -> bool:
    """Whether the process that wrote the draft has ended."""
    pid = path.suffix.removeprefix(".")
    if not pid.isdecimal():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return int(pid) == os.getpid()


def _put(path: Path, text: str) -> None:
    """Replace the file atomically; only the owner may read it, as users type secrets."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    put(path, [text.encode(errors="replace")], durable=False)
