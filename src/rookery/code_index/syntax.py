"""Definitions and statements of source texts, and outlines of files.

Parsing runs in a worker process, because a grammar may crash. `Sources` provides the texts.
"""

import json
import os
import selectors
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from threading import Lock
from time import monotonic
from typing import Any, Protocol

import anyio.to_thread
from msgspec import Struct

from rookery.code_index.parser_worker import is_markdown, language_of
from rookery.core.indexed_code import Definition, Outline, Source, SourceListing, headings
from rookery.core.limits import MIB
from rookery.core.text.text_lines import rows_of
from rookery.engine.ports.actions import Permit
from rookery.errors import Denied

LARGEST = MIB
_WORKER = Path(__file__).with_name("parser_worker.py")
_BOUNDS: Mapping[str, Any] = {"memory_bytes": 1024 * MIB, "seconds": 2.0}
_PATIENCE = 10.0
_CHUNK = 64 * 1024
MOST_FILES = 200


class Sources(Protocol):
    """The files of the workspace, without those the agent may not read or that hold credentials."""

    def list(self, most: int, largest: int) -> SourceListing:
        """List at most `most` files of at most `largest` bytes each."""
        ...

    def exists(self, path: str) -> bool:
        """Whether the file or folder exists, indexed or not."""
        ...

    def in_folder(self, folder: str) -> Sequence[str] | None:
        """The files directly in a folder; None if it is not a folder."""
        ...

    def read(self, path: str, largest: int) -> Source | None:
        """Read a file; None if it is missing or cannot be read."""
        ...


class Embedder(Protocol):
    """Computes vectors of texts. Vectors of embedders with different names cannot be compared."""

    name: str

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one vector per text, all of the same length. Raises `ProviderError`."""
        ...


class _WorkerDied(Exception):
    """The worker exited or stopped answering."""


class Syntax(Struct, frozen=True, kw_only=True):
    """Definitions of a text, and the lines at which the parts of large definitions begin."""

    definitions: tuple[Definition, ...] = ()
    statements: tuple[int, ...] = ()


class SyntaxReader:
    """Parses texts one at a time, from any thread.

    The result is empty for a text that is too large, in an unknown language, or that crashes its
    parser. The worker starts with the first text that needs it; `close` ends it, and the next text
    starts another.
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
        # grammars know only line feeds as line ends
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
            except (_WorkerDied, OSError):
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
        self._buffer = b""
        try:
            self.languages = frozenset(self._read_answer()["languages"])
        except _WorkerDied:
            self.kill()
            raise

    def ask(self, language: str, data: bytes) -> Mapping[str, Any]:
        assert self._process.stdin is not None
        header = json.dumps({"language": language, "size": len(data)}).encode() + b"\n"
        left = memoryview(header + data)
        while left:
            left = left[os.write(self._process.stdin.fileno(), left) :]
        return self._read_answer()

    def _read_answer(self) -> dict[str, Any]:
        """Read the next line. A worker also limits its own time, so this timeout is a safeguard."""
        assert self._process.stdout is not None
        out, deadline = self._process.stdout.fileno(), monotonic() + _PATIENCE
        with selectors.DefaultSelector() as selector:
            selector.register(out, selectors.EVENT_READ)
            pieces = [self._buffer]
            while b"\n" not in pieces[-1]:
                if not selector.select(max(0.0, deadline - monotonic())):
                    raise _WorkerDied
                piece = os.read(out, _CHUNK)
                if not piece:
                    raise _WorkerDied
                pieces.append(piece)
        line, _, self._buffer = b"".join(pieces).partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def kill(self) -> None:
        self._process.kill()
        with self._process:
            pass


class Outliner:
    def __init__(self, sources: Sources, syntax: SyntaxReader) -> None:
        self._sources = sources
        self._syntax = syntax

    async def outline(self, path: str, text: str) -> Sequence[Definition]:
        """Definitions in file order; empty if the language is not supported."""
        syntax = await anyio.to_thread.run_sync(
            self._syntax.read, path, text, abandon_on_cancel=True
        )
        return syntax.definitions

    async def outlines_in(
        self, folder: str, permit: Permit, may_show: Callable[[str], bool]
    ) -> Sequence[Outline] | None:
        """Outlines of the files directly in a folder; None if it is not a folder."""
        if folder not in permit.reads:
            raise Denied(f"Reading {folder} was not permitted.")
        return await anyio.to_thread.run_sync(
            self._outlines_in, "" if folder == "." else folder, may_show, abandon_on_cancel=True
        )

    def _outlines_in(
        self, folder: str, may_show: Callable[[str], bool]
    ) -> Sequence[Outline] | None:
        files = self._sources.in_folder(folder)
        if files is None:
            return None
        outlines: list[Outline] = []
        for path in files[:MOST_FILES]:
            source = self._sources.read(path, LARGEST) if may_show(path) else None
            if source is not None:
                outlines.append(Outline(path, self._syntax.read(path, source.text).definitions))
        return outlines


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
    """The line with the name, which can be below decorators; otherwise the first line."""
    near = rows[start - 1 : min(end, start + 9)]
    return next((row for row in near if name and name in row), near[0]).strip()
