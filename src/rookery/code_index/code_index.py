"""The index of a workspace: finds chunks of its files by words and embeddings.

A search starts an update in a thread, which outlives the search if there is much to do; the search
waits for it only `patience` seconds. Texts of hits are read from the files again, and chunks of
files that have changed are left out.

The database may be deleted at any time. A damaged one, or one of another version, is renamed and
rebuilt. Several processes can search at once; a lock lets only one of them update.
"""

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from threading import Condition, Thread
from time import monotonic, time_ns
from typing import TypeVar

import anyio.to_thread

from rookery.code_index.chunks import fts_query
from rookery.code_index.store import IndexedChunk, Store, UnfitStore
from rookery.code_index.syntax import Embedder, Sources, SyntaxReader
from rookery.code_index.update import LARGEST, IndexUpdate, Progress
from rookery.core.indexed_code import CodeHit, CodeHits, fused
from rookery.core.text.characters import is_utf8
from rookery.engine.ports.actions import Permit
from rookery.errors import Denied, ProviderError, RookeryError, ToolError
from rookery.platform.locks import file_lock

NAME = "code.sqlite"
REBUILT = "The code index was damaged. It was moved aside and is being rebuilt."
BUSY_SECONDS = 5.0
_PRIVATE_FILE = 0o600
_PRIVATE_FOLDER = 0o700
_NO_FULL_TEXT = "no such module"

T = TypeVar("T")

_TEMPORARY_ERRORS = {
    sqlite3.SQLITE_BUSY: "it is in use",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: "the disk does not answer",
    sqlite3.SQLITE_LOCKED: "it is in use",
    sqlite3.SQLITE_NOMEM: "there is no memory left",
    sqlite3.SQLITE_PERM: "it may not be used",
    sqlite3.SQLITE_READONLY: "it cannot be written",
}
MOST_HITS = 12
MOST_PER_FILE = 3
PATIENCE = 2.0
LISTING_PATIENCE = 5
"""How many times as long a search waits until the files are listed."""
_CANDIDATES = 100
_CLOSE_SECONDS = 5.0


class IndexUnavailable(ToolError):
    """The index cannot be used now. No data is lost, since it can be rebuilt."""

    def __init__(self, folder: Path, why: str) -> None:
        super().__init__(
            f"The code index in {folder} cannot be used ({why}). search_files works without it."
        )


class Database:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / NAME
        self.damages = 0
        """Number of times the database was found damaged."""

    def ask(self, query: Callable[[Store], T]) -> T:
        """Run a query, again on a new database if it is damaged. Raises `IndexUnavailable`."""
        for _ in range(2):
            found: os.stat_result | None = None
            try:
                found = self._ensure_file()
                with closing(self._connect()) as connection:
                    return query(Store(connection))
            except (UnfitStore, UnicodeDecodeError):
                # SQLite can return garbage from a damaged page
                self._rename_damaged(found)
            except sqlite3.Error as error:
                self._check_error(error)
                self._rename_damaged(found)
            except OSError as error:
                raise IndexUnavailable(self._folder, error.strerror or str(error)) from error
        raise IndexUnavailable(self._folder, "it was damaged twice in a row")

    @contextmanager
    def update_lock(self) -> Iterator[None]:
        """Hold the update lock, waiting for other processes."""
        with ExitStack() as held:
            try:
                self._make_folder()
                held.enter_context(file_lock(self._folder / "update.lock", wait=None))
            except OSError as error:
                raise IndexUnavailable(self._folder, error.strerror or str(error)) from error
            yield

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, BUSY_SECONDS, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA secure_delete = ON")
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_error(self, error: sqlite3.Error) -> None:
        """Raise `IndexUnavailable` for temporary errors; only damage is a reason to rebuild."""
        why = _TEMPORARY_ERRORS.get(getattr(error, "sqlite_errorcode", 0) & 0xFF)
        if why is None and _NO_FULL_TEXT in str(error):
            why = "the SQLite of this Python has no full-text search"
        if why is not None:
            raise IndexUnavailable(self._folder, why) from error

    def _make_folder(self) -> None:
        self._folder.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)

    def _ensure_file(self) -> os.stat_result:
        """Create the file if it is missing, because SQLite would make it readable to others."""
        self._make_folder()
        with suppress(FileExistsError):
            os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE_FILE))
        return self._path.stat()

    def _rename_damaged(self, found: os.stat_result | None) -> None:
        """Rename the damaged file, unless another process has already replaced it."""
        self.damages += 1
        with file_lock(self._folder / "rename.lock", wait=None):
            if found and self._path.exists() and os.path.samestat(self._path.stat(), found):
                self._path.replace(self._path.with_name(f"{NAME}.damaged"))
                for part in ("-wal", "-shm"):
                    self._path.with_name(NAME + part).unlink(missing_ok=True)


class CodeIndex:
    """Index of one workspace, with its database in `folder`."""

    def __init__(
        self,
        folder: Path,
        sources: Sources,
        syntax: SyntaxReader,
        *,
        embedder: Embedder | None = None,
        patience: float = PATIENCE,
        now: Callable[[], int] = time_ns,
    ) -> None:
        self._database = Database(folder)
        self._sources = sources
        self._embedder = embedder
        self._patience = patience
        self._now = now
        self._syntax = syntax
        self._changed = Condition()
        self._wanted = self._done = 0
        self._thread: Thread | None = None
        self._closed = False
        self._progress = Progress()
        self._reported = 0
        self._trouble: Exception | None = None
        """Error of the last finished update."""

    async def search(
        self, query: str, path: str, permit: Permit, may_show: Callable[[str], bool]
    ) -> CodeHits:
        """Find the best chunks in `path` that `may_show` allows. Raises `ToolError`."""
        if path not in permit.reads:
            raise Denied(f"Reading {path} was not permitted.")
        below = "" if path == "." else path
        return await anyio.to_thread.run_sync(
            self._search, query, below, may_show, abandon_on_cancel=True
        )

    def close(self) -> None:
        """Stop the update at the next file; the next search continues it."""
        with self._changed:
            self._closed = True
            thread = self._thread
        if thread is not None:
            thread.join(_CLOSE_SECONDS)

    # ── answering ───────────────────────────────────────────────────────────────────────

    def _search(self, query: str, below: str, may_show: Callable[[str], bool]) -> CodeHits:
        expression = fts_query(query)
        if not expression:
            raise ToolError("The query has no words to search for.")
        if not is_utf8(below):
            raise ToolError(
                "Files with a name that is not UTF-8 are not indexed. Use search_files."
            )
        if not self._sources.exists(below):
            raise ToolError(f"No such path: {below}. Use list_files to see what exists.")
        up_to_date = self._catch_up()
        vector, failure = self._vector(query)

        def answer(store: Store) -> list[tuple[IndexedChunk, float]]:
            return self._ranked(store, expression, vector, below)

        damages = self._database.damages
        ranked = self._database.ask(answer)
        if self._database.damages > damages:  # it ran on an empty database
            up_to_date = self._catch_up()
            ranked = self._database.ask(answer)
        hits, changed = self._current_hits(ranked, may_show)
        notes = self._notes(failure or self._trouble, up_to_date=up_to_date, changed=changed)
        return CodeHits(hits=tuple(hits), notes=tuple(notes))

    def _ranked(
        self, store: Store, expression: str, vector: Sequence[float], below: str
    ) -> list[tuple[IndexedChunk, float]]:
        by_words = store.by_words(expression, below, _CANDIDATES, MOST_PER_FILE)
        by_vector: list[IndexedChunk] = []
        if vector and self._embedder is not None:
            name = self._embedder.name
            by_vector = store.by_vector(vector, name, below, _CANDIDATES, MOST_PER_FILE)
        spots = {spot.id: spot for spot in (*by_words, *by_vector)}
        rankings = [[spot.id for spot in ranking] for ranking in (by_words, by_vector) if ranking]
        return [(spots[id], score) for id, score in fused(rankings)]

    def _vector(self, query: str) -> tuple[Sequence[float], ProviderError | None]:
        if self._embedder is None:
            return (), None
        try:
            return self._embedder.embed([query])[0], None
        except ProviderError as error:
            return (), error

    def _current_hits(
        self, ranked: Iterable[tuple[IndexedChunk, float]], may_show: Callable[[str], bool]
    ) -> tuple[list[CodeHit], int]:
        """The best hits whose files are unchanged, and the number of changed files."""
        hits: list[CodeHit] = []
        texts: dict[str, str | None] = {}
        changed: set[str] = set()
        for spot, score in _few_per_file(ranked):
            if spot.path not in texts:
                allowed = may_show(spot.path)
                texts[spot.path] = self._text(spot) if allowed else None
                if allowed and texts[spot.path] is None:
                    changed.add(spot.path)
            text = texts[spot.path]
            if text is not None:
                chunk = spot.chunk
                words = text[chunk.begin : chunk.finish]
                hits.append(CodeHit(spot.path, chunk.start, chunk.end, words, score))
            if len(hits) == MOST_HITS:
                break
        return hits, len(changed)

    def _text(self, spot: IndexedChunk) -> str | None:
        source = self._sources.read(spot.path, LARGEST)
        return source.text if source is not None and source.digest == spot.digest else None

    def _notes(self, trouble: Exception | None, *, up_to_date: bool, changed: int) -> Iterator[str]:
        if self._database.damages > self._reported:
            self._reported = self._database.damages
            yield f"({REBUILT})"
        if not up_to_date:
            yield _pending_note(self._progress)
        if changed:
            yield f"(Left out, because they just changed: {changed} files.)"
        match trouble:
            case ProviderError() as error:
                yield f"(Searched by words only, at least in part: {error})"
            case ToolError() as error:
                yield f"(Not up to date: {error})"
        yield from self._progress.notes

    # ── keeping up to date ──────────────────────────────────────────────────────────────

    def _catch_up(self) -> bool:
        """Update the index. Return whether it was up to date within `patience`."""
        began = monotonic()
        with self._changed:
            if self._closed:
                raise ToolError("The code index is closed.")
            self._wanted += 1
            wanted = self._wanted
            if self._thread is None:
                self._thread = Thread(target=self._update, name="code index", daemon=True)
                self._thread.start()
            while self._done < wanted and (left := began + self._wait() - monotonic()) > 0:
                self._changed.wait(left)
            in_time = self._done >= wanted
            if in_time and self._trouble and not isinstance(self._trouble, RookeryError):
                raise self._trouble
            return in_time

    def _wait(self) -> float:
        """Seconds a search waits. Listing very many files takes some, and often none changed."""
        return self._patience * (1 if self._progress.listed else LISTING_PATIENCE)

    def _update(self) -> None:
        while True:
            with self._changed:
                if self._closed or self._done == self._wanted:
                    self._thread = None
                    return
                goal = self._wanted
            try:
                self._run_pass(goal)
                trouble = None
            except Exception as error:  # raised by the search
                trouble = error
            self._finish(goal, trouble)

    def _run_pass(self, goal: int) -> None:
        self._set_progress(Progress())
        update = IndexUpdate(
            self._sources,
            self._syntax,
            stopped=lambda: self._closed,
            report=self._set_progress,
            now=self._now,
        )
        with self._database.update_lock():
            self._database.ask(update.words)
            embedder = self._embedder
            if embedder is not None and not self._closed:
                self._database.ask(
                    lambda store: update.vectors(store, embedder, lambda: self._wanted > goal)
                )

    def _set_progress(self, progress: Progress) -> None:
        with self._changed:
            self._progress = progress
            self._changed.notify_all()

    def _finish(self, goal: int, trouble: Exception | None) -> None:
        with self._changed:
            self._done = goal
            self._trouble = trouble
            self._changed.notify_all()


def _pending_note(progress: Progress) -> str:
    if not progress.listed:
        return "(Not up to date yet: files are still being indexed. Search again.)"
    if progress.waiting:
        return f"(Not indexed yet: {progress.waiting} files. Search again for these.)"
    return "(Some code was searched by words only: not all embeddings are ready.)"


def _few_per_file(
    ranked: Iterable[tuple[IndexedChunk, float]],
) -> Iterator[tuple[IndexedChunk, float]]:
    shown: dict[str, int] = {}
    for spot, score in ranked:
        shown[spot.path] = shown.get(spot.path, 0) + 1
        if shown[spot.path] <= MOST_PER_FILE:
            yield spot, score
