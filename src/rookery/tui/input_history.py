"""What was said in earlier sessions, in a file."""

import json
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

MOST = 500
VERSION = 1


class InputHistory:
    """Newest last. Blanks and immediate repeats are not added. What another session has added
    meanwhile is kept. `warn` is told in a sentence why something could not be written."""

    def __init__(self, path: Path, warn: Callable[[str], None]) -> None:
        self._path = path
        self._warn = warn
        self._entries = _read(path)

    @property
    def entries(self) -> Sequence[str]:
        return self._entries

    def add(self, text: str) -> None:
        if not text.strip():
            return
        known = _read(self._path) or self._entries
        if known[-1:] != [text]:
            known = [*known, text][-MOST:]
        self._entries = known
        try:
            _write(self._path, known)
        except OSError as error:
            self._warn(f"What you said is not kept for later: {self._path}: {error.strerror}.")


def _read(path: Path) -> list[str]:
    """A file that is missing or broken holds nothing."""
    try:
        kept: Any = json.loads(path.read_text(encoding="utf-8"))
        entries = kept["entries"]
        return [str(each) for each in entries if isinstance(each, str)][-MOST:]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []


def _write(path: Path, entries: Sequence[str]) -> None:
    """All of it or nothing, and readable for nobody else: people type secrets."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    text = json.dumps({"version": VERSION, "entries": list(entries)}, ensure_ascii=False)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
