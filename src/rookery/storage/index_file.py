"""The file the index is in. It may be deleted at any time.

An index that is damaged or of another version is set aside and made anew. One that cannot
be written, or is being written for too long, is not waited for: the question is then
answered from an index in memory.
"""

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import msgspec

from rookery.errors import StorageError
from rookery.platform.disk import PRIVATE_FILE, private_folder
from rookery.storage.index import Index, UnfitIndex

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


def ask_index(path: Path, folders: Mapping[str, Path], question: Callable[[Index], T]) -> T:
    """Answer a question from an index that knows all that is in the tasks' folders now."""
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


def _ask(
    connection: sqlite3.Connection, folders: Mapping[str, Path], question: Callable[[Index], T]
) -> T:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA secure_delete = ON")
    modules = connection.execute("SELECT 1 FROM pragma_module_list WHERE name = 'fts5'")
    index = Index(connection, full_text=modules.fetchone() is not None)
    index.refresh(folders)
    return question(index)


def _find_or_make(path: Path) -> os.stat_result:
    """The file as it is before SQLite opens it, which would make it readable to others."""
    private_folder(path.parent)
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE))
    return path.stat()


def _set_aside(path: Path, found: os.stat_result) -> None:
    """Rename what was found unfit, unless another process has already replaced it."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
    with open(os.open(path.with_name(f"{path.name}.lock"), flags, PRIVATE_FILE), "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists() and os.path.samestat(path.stat(), found):
            path.replace(damaged_copy(path))
            for part in ("-wal", "-shm"):
                path.with_name(path.name + part).unlink(missing_ok=True)


def damaged_copy(path: Path) -> Path:
    return path.with_name(f"{path.name}.damaged")
