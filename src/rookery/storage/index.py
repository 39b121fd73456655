"""A search index of all tasks, derived from the journals only.

Running tasks never wait for it: a reader updates it and reads only what was appended since. The
file may be deleted at any time. A damaged index, or one of another version, is moved aside and
rebuilt. If the file cannot be written or stays locked, an index in memory is used.
"""

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rookery.core.stored_tasks import SearchHit, TaskSummary
from rookery.core.text.characters import is_utf8
from rookery.errors import StorageError
from rookery.first_use import prepared
from rookery.platform.disk import PRIVATE_FILE, private_folder, reason
from rookery.platform.locks import file_lock
from rookery.storage.journal_lines import (
    JOURNAL,
    SEAL,
    Blobs,
    counting_lines,
    never_started,
    opened_journal,
)
from rookery.storage.summary import see, snippet, words_of

VERSION = 4
MOST_FOUND = 100

_SCHEMA = (
    """CREATE TABLE tasks (
        id TEXT PRIMARY KEY, workspace TEXT, updated INTEGER, summary BLOB,
        seq INTEGER, end INTEGER, seal BLOB, size INTEGER, changed INTEGER)""",
    "CREATE TABLE passages (id INTEGER PRIMARY KEY, task TEXT, text TEXT)",
    "CREATE INDEX passages_by_task ON passages (task)",
)
_FULL_TEXT = "CREATE VIRTUAL TABLE words USING fts5 (text, content='passages', content_rowid='id')"
_FIND_WORDS = (
    "SELECT task, passages.text FROM words JOIN passages ON passages.id = words.rowid "
    "WHERE words MATCH ? ORDER BY rank"
)
_FIND_SUBSTRING = "SELECT task, text FROM passages WHERE text LIKE ? ESCAPE '\\' ORDER BY id"

Mark: TypeAlias = tuple[int, int]
"""A journal's size and mtime; it is unchanged while they are."""

_ABSENT: Mark = (-1, 0)
_UNKNOWN: Mark = (-2, 0)

BUSY_SECONDS = 5.0

T = TypeVar("T")

_PASSING_TROUBLE = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
}


class _JournalProgress(Struct, frozen=True):
    """How far a journal has been read; `seal` is the end of the last line read."""

    summary: TaskSummary
    seq: int = 0
    end: int = 0
    seal: bytes = b""


class UnfitIndex(Exception):
    """The index has another version, or contains invalid data."""


class SessionIndex:
    """One open index. `full_text` says whether this SQLite has full-text search."""

    def __init__(self, connection: sqlite3.Connection, *, full_text: bool) -> None:
        self._db = connection
        if self._number("PRAGMA user_version") == 0:
            self._lay_out(full_text)
        if self._number("PRAGMA user_version") != VERSION:
            raise UnfitIndex
        self._full_text = self._number("SELECT count(*) FROM sqlite_master WHERE name = 'words'")

    def refresh(self, folders: Mapping[str, Path]) -> int:
        """Update all tasks. Returns the number of journals read."""
        rows = self._db.execute("SELECT id, size, changed FROM tasks")
        known = {task_id: (size, changed) for task_id, size, changed in rows}
        for task_id in known.keys() - folders.keys():
            self.forget(task_id)
        stale = [
            task_id for task_id, folder in folders.items() if known.get(task_id) != _mark(folder)
        ]
        for task_id in stale:
            self._catch_up(task_id, folders[task_id])
        return len(stale)

    def summaries(self, workspace: str | None = None) -> list[TaskSummary]:
        """Newest first; of one workspace, or of all."""
        rows = self._db.execute(
            "SELECT summary FROM tasks WHERE ?1 IS NULL OR workspace = ?1 "
            "ORDER BY updated DESC, id DESC",
            (workspace,),
        )
        summaries = [
            msgspec.json.decode(msgspec.convert(encoded, bytes), type=prepared(TaskSummary))
            for (encoded,) in rows
        ]
        return [summary for summary in summaries if summary.updated or summary.damage]

    def search(self, words: str, workspace: str | None = None) -> list[SearchHit]:
        """The tasks that contain all of the words, newest first."""
        terms = words.split()
        if not terms or not is_utf8(words):  # stored text is
            return []
        passages = self._by_words(terms) or self._by_substring(terms)
        found = [task for task in self.summaries(workspace) if task.id in passages]
        return [SearchHit(task, snippet(passages[task.id], terms)) for task in found[:MOST_FOUND]]

    def forget(self, task_id: str) -> None:
        with self._writing():
            self._forget_words(task_id)
            self._db.execute("DELETE FROM tasks WHERE id = ?", (task_id,))

    def scrub(self) -> None:
        """Remove deleted data from the file completely."""
        if self._full_text:
            self._db.execute("INSERT INTO words (words) VALUES ('optimize')")
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _lay_out(self, full_text: bool) -> None:
        with self._writing():
            if self._number("PRAGMA user_version"):
                return  # another process was faster
            for statement in (*_SCHEMA, _FULL_TEXT) if full_text else _SCHEMA:
                self._db.execute(statement)
            self._db.execute(f"PRAGMA user_version = {VERSION}")

    def _catch_up(self, task_id: str, folder: Path) -> None:
        mark = _mark(folder)  # taken first: what is appended meanwhile makes it stale again
        with self._writing():
            before = self._reading(task_id)
            try:
                after = self._read(folder, before, mark)
            except OSError as error:
                damage = f"Its journal cannot be read ({reason(error)})."
                after, mark = _JournalProgress(replace(before.summary, damage=damage)), _UNKNOWN
            summary = after.summary
            row = (task_id, summary.workspace, summary.updated, msgspec.json.encode(summary))
            self._db.execute(
                "INSERT OR REPLACE INTO tasks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*row, after.seq, after.end, after.seal, *mark),
            )

    def _reading(self, task_id: str) -> _JournalProgress:
        row = self._db.execute(
            "SELECT summary, seq, end, seal FROM tasks WHERE id = ?", (task_id,)
        ).fetchone()
        if row is None:
            return _JournalProgress(TaskSummary(id=task_id))
        encoded, seq, end, seal = msgspec.convert(row, tuple[bytes, int, int, bytes])
        if seq and end < SEAL:
            raise UnfitIndex
        return _JournalProgress(
            msgspec.json.decode(encoded, type=prepared(TaskSummary)), seq, end, seal
        )

    def _read(self, folder: Path, reading: _JournalProgress, mark: Mark) -> _JournalProgress:
        """Continue where reading ended, or from the start if that line is gone."""
        journal, blobs = folder / JOURNAL, Blobs(folder / "blobs")
        damage = ""
        if mark == _ABSENT or not _is_still_there(journal, reading):
            self._forget_words(reading.summary.id)
            reading = _JournalProgress(TaskSummary(id=reading.summary.id))
        if mark == _ABSENT:
            return reading
        try:
            with opened_journal(journal) as file:
                for line in counting_lines(file, blobs, start=reading.end, after=reading.seq):
                    summary = see(reading.summary, line.event)
                    reading = _JournalProgress(summary, line.event.seq, line.end, line.raw[-SEAL:])
                    self._remember(summary.id, words_of(line.event.fact))
            if reading.end < mark[0] and (reading.seq or not never_started(journal)):
                damage = f"Its journal is damaged after event {reading.seq}."
        except StorageError as error:
            damage = str(error)
        return replace(reading, summary=replace(reading.summary, damage=damage))

    def _remember(self, task_id: str, text: str) -> None:
        if not text:
            return
        row = self._db.execute("INSERT INTO passages VALUES (NULL, ?, ?)", (task_id, text))
        if self._full_text:
            self._db.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (row.lastrowid, text))

    def _forget_words(self, task_id: str) -> None:
        if self._full_text:
            self._db.execute(
                "INSERT INTO words (words, rowid, text) "
                "SELECT 'delete', id, text FROM passages WHERE task = ?",
                (task_id,),
            )
        self._db.execute("DELETE FROM passages WHERE task = ?", (task_id,))

    def _by_words(self, terms: Sequence[str]) -> dict[str, str]:
        """A passage of each task with a word that starts with each term."""
        searchable = [term.replace('"', '""') for term in terms if any(map(str.isalnum, term))]
        phrases = [f'"{term}" *' for term in searchable]
        if not (self._full_text and phrases):
            return {}
        best = self._passages(_FIND_WORDS, " OR ".join(phrases))
        for phrase in phrases:
            having = self._passages(_FIND_WORDS, phrase)
            best = {task: text for task, text in best.items() if task in having}
        return best

    def _by_substring(self, terms: Sequence[str]) -> dict[str, str]:
        """The same by substring: for parts of words, and scripts without spaces."""
        found = [self._passages(_FIND_SUBSTRING, f"%{_escaped(term)}%") for term in terms]
        return {
            task: text for task, text in found[0].items() if all(task in other for other in found)
        }

    def _passages(self, query: str, pattern: str) -> dict[str, str]:
        """The first matching passage of each task."""
        passages: dict[str, str] = {}
        for task, text in self._db.execute(query, (pattern,)):
            passages.setdefault(str(task), str(text))
        return passages

    @contextmanager
    def _writing(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def _number(self, query: str) -> Any:
        return self._db.execute(query).fetchone()[0]


def ask_index(path: Path, folders: Mapping[str, Path], question: Callable[[SessionIndex], T]) -> T:
    """Answer a question from an up-to-date index of the tasks' folders."""
    for _ in range(2):
        try:
            found = _find_or_make(path)
            with closing(sqlite3.connect(path, BUSY_SECONDS, isolation_level=None)) as connection:
                return _ask(connection, folders, question)
        except (UnfitIndex, msgspec.MsgspecError, UnicodeDecodeError):
            # values that were never written: SQLite passes on what a damaged page seems to hold
            _set_aside(path, found)
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in _PASSING_TROUBLE:
                break
            _set_aside(path, found)
        except (OSError, StorageError):
            break
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        return _ask(connection, folders, question)


def damaged_copy(path: Path) -> Path:
    return path.with_name(f"{path.name}.damaged")


def _mark(folder: Path) -> Mark:
    try:
        found = (folder / JOURNAL).stat()
    except FileNotFoundError:
        return _ABSENT
    except OSError:
        return _UNKNOWN
    return found.st_size, found.st_ctime_ns


def _is_still_there(journal: Path, reading: _JournalProgress) -> bool:
    """Whether the last line read is still in its place."""
    if reading.seq == 0:
        return False
    with opened_journal(journal) as file:
        file.seek(reading.end - SEAL)
        return file.read(SEAL) == reading.seal


def _escaped(term: str) -> str:
    return term.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_")


def _ask(
    connection: sqlite3.Connection,
    folders: Mapping[str, Path],
    question: Callable[[SessionIndex], T],
) -> T:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA secure_delete = ON")
    modules = connection.execute("SELECT 1 FROM pragma_module_list WHERE name = 'fts5'")
    index = SessionIndex(connection, full_text=modules.fetchone() is not None)
    index.refresh(folders)
    return question(index)


def _find_or_make(path: Path) -> os.stat_result:
    """Create the file before SQLite does, which would make it readable by others."""
    private_folder(path.parent)
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE))
    return path.stat()


def _set_aside(path: Path, found: os.stat_result) -> None:
    """Move an unusable index aside, unless another process has already replaced it."""
    with file_lock(path.with_name(f"{path.name}.lock"), wait=None):
        if path.exists() and os.path.samestat(path.stat(), found):
            path.replace(damaged_copy(path))
            for part in ("-wal", "-shm"):
                path.with_name(path.name + part).unlink(missing_ok=True)
