"""An index of a workspace on disk, which counts what it reads."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import anyio
import pytest

from rookery.code_index.code_index import CodeIndex
from rookery.code_index.syntax import Embedder, SyntaxReader
from rookery.core.indexed_code import CodeHits, Source, SourceListing
from rookery.core.limits import Limits
from rookery.engine.ports.actions import Permit
from rookery.workspace.files import WorkspaceFiles
from rookery.workspace.source_files import WorkspaceSources


class CountingSources:
    """The real ones; `before_read` is called with every path that is read."""

    def __init__(self, root: Path, home: Path) -> None:
        self._sources = WorkspaceSources(WorkspaceFiles(root, Limits(), home=home), Limits())
        self.read_paths: list[str] = []
        self.before_read: Callable[[str], None] = lambda path: None

    def list(self, most: int, largest: int) -> SourceListing:
        return self._sources.list(most, largest)

    def exists(self, path: str) -> bool:
        return self._sources.exists(path)

    def in_folder(self, folder: str) -> Sequence[str] | None:
        return self._sources.in_folder(folder)

    def read(self, path: str, largest: int) -> Source | None:
        self.before_read(path)
        self.read_paths.append(path)
        return self._sources.read(path, largest)


def anything(path: str) -> bool:
    return True


def long_after() -> int:
    """A clock for which every change is long ago."""
    return time.time_ns() + 10**12


class Shelf:
    """A workspace, and indexes of it."""

    def __init__(self, folder: Path, syntax: SyntaxReader) -> None:
        self._syntax = syntax
        self.root = folder / "workspace"
        self.cache = folder / "cache" / "code"
        self.home = folder / "home"
        self.root.mkdir()
        self.home.mkdir()
        self.sources = CountingSources(self.root, self.home)
        self._opened: list[CodeIndex] = []

    def put(self, path: str, content: str | bytes) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    def open(
        self,
        *,
        embedder: Embedder | None = None,
        patience: float = 60.0,
        now: Callable[[], int] = long_after,
    ) -> CodeIndex:
        index = CodeIndex(
            self.cache,
            self.sources,
            self._syntax,
            embedder=embedder,
            patience=patience,
            now=now,
        )
        self._opened.append(index)
        return index

    def close(self) -> None:
        for index in self._opened:
            index.close()

    def reads(self) -> list[str]:
        """The files read since the last call."""
        paths, self.sources.read_paths = self.sources.read_paths, []
        return sorted(set(paths))


async def ask(
    index: CodeIndex, query: str, path: str = ".", may_show: Callable[[str], bool] = anything
) -> CodeHits:
    return await index.search(query, path, Permit("", reads=frozenset([path])), may_show)


async def ask_until(index: CodeIndex, query: str, note: str) -> CodeHits:
    """Ask an impatient index until it says so, since a busy machine may take longer to begin."""
    with anyio.fail_after(60):
        while True:
            found = await ask(index, query)
            if note in " ".join(found.notes):
                return found


def paths(found: CodeHits) -> list[str]:
    return list(dict.fromkeys(hit.path for hit in found.hits))


@pytest.fixture(scope="session")
def parser() -> Iterator[SyntaxReader]:
    """One for all tests: it takes a while to start."""
    reader = SyntaxReader()
    yield reader
    reader.close()


@pytest.fixture
def shelf(tmp_path: Path, parser: SyntaxReader) -> Iterator[Shelf]:
    shelf = Shelf(tmp_path, parser)
    yield shelf
    shelf.close()
