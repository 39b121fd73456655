"""What a language's grammar knows of a text, asked of a process that may die of it."""

import json
import os
import selectors
import sys
from collections.abc import Mapping
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from threading import Lock
from time import monotonic
from typing import Any

from msgspec import Struct

from rookery.code_index.languages import is_markdown, language_of
from rookery.core.indexed_code import Definition, headings
from rookery.core.limits import MIB
from rookery.core.text.text_lines import rows_of

LARGEST = MIB
_WORKER = Path(__file__).with_name("parser_worker.py")
_BOUNDS: Mapping[str, Any] = {"memory_bytes": 1024 * MIB, "seconds": 2.0}
_PATIENCE = 10.0
_CHUNK = 64 * 1024


class _Died(Exception):
    """The process ended, or is as good as dead."""


class Syntax(Struct, frozen=True, kw_only=True):
    """What a text defines, and the lines at which the parts of large definitions begin."""

    definitions: tuple[Definition, ...] = ()
    statements: tuple[int, ...] = ()


class SyntaxReader:
    """Reads texts, one at a time, from any thread. A text that is too large, of no known
    language, or the death of its parser simply has no syntax. The process is started by the
    first text that needs it, and ended by `close`, after which another text starts another.
    """

    def __init__(self, bounds: Mapping[str, Any] = _BOUNDS) -> None:
        self._bounds = bounds
        self._lock = Lock()
        self._worker: _Worker | None = None
        self._missing: set[str] = set()
        self.crashes = 0

    def read(self, path: str, text: str) -> Syntax:
        rows = rows_of(text)
        if is_markdown(path):
            return Syntax(definitions=tuple(headings(rows)))
        language = language_of(path)
        if not language or len(text) > LARGEST:
            return Syntax()
        # the rows of a grammar end with a line feed only
        joined = text if "\n" in text else "\n".join(rows)
        return _syntax(self._ask(language, joined.encode("utf-8", "replace")), rows)

    def close(self) -> None:
        with self._lock:
            if self._worker is not None:
                self._worker.kill()
            self._worker = None

    def _ask(self, language: str, data: bytes) -> Mapping[str, Any]:
        with self._lock:
            if language in self._missing:
                return {}
            try:
                self._worker = self._worker or _Worker(self._bounds)
                if language in self._worker.languages:
                    return self._worker.ask(language, data)
                self._missing.add(language)
            except (_Died, OSError):
                self.crashes += 1
                if self._worker is not None:
                    self._worker.kill()
                self._worker = None
            return {}


class _Worker:
    def __init__(self, bounds: Mapping[str, Any]) -> None:
        command = [sys.executable, "-I", "-P", "-B", str(_WORKER), json.dumps(bounds)]
        self._process = Popen(
            command, bufsize=0, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, cwd="/", env={}
        )
        self._heard = b""
        try:
            self.languages = frozenset(self._answer()["languages"])
        except _Died:
            self.kill()
            raise

    def ask(self, language: str, data: bytes) -> Mapping[str, Any]:
        assert self._process.stdin is not None
        header = json.dumps({"language": language, "size": len(data)}).encode() + b"\n"
        left = memoryview(header + data)
        while left:
            left = left[os.write(self._process.stdin.fileno(), left) :]
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        """The next line. A worker that works too long ends itself; waiting has an end anyway."""
        assert self._process.stdout is not None
        out, deadline = self._process.stdout.fileno(), monotonic() + _PATIENCE
        with selectors.DefaultSelector() as selector:
            selector.register(out, selectors.EVENT_READ)
            pieces = [self._heard]
            while b"\n" not in pieces[-1]:
                if not selector.select(max(0.0, deadline - monotonic())):
                    raise _Died
                piece = os.read(out, _CHUNK)
                if not piece:
                    raise _Died
                pieces.append(piece)
        line, _, self._heard = b"".join(pieces).partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def kill(self) -> None:
        self._process.kill()
        with self._process:
            pass


def _syntax(answer: Mapping[str, Any], rows: list[str]) -> Syntax:
    definitions = (
        Definition(
            name=name,
            kind=kind,
            start=start,
            end=end,
            depth=depth,
            first_line=_first_line(rows, start, end, name),
        )
        for name, kind, start, end, depth in answer.get("definitions", ())
        if 1 <= start <= end <= len(rows)
    )
    return Syntax(definitions=tuple(definitions), statements=tuple(answer.get("statements", ())))


def _first_line(rows: list[str], start: int, end: int, name: str) -> str:
    """The line that says the name, which decorators may stand above; else the first."""
    near = rows[start - 1 : min(end, start + 9)]
    return next((row for row in near if name and name in row), near[0]).strip()
