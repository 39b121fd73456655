"""The file the index is in. It may be deleted at any time.

One that is damaged or of another version is set aside and made anew. Several processes use it
at once: all may ask it, one at a time brings it up to date.
"""

import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from rookery.code_index.store import Store, UnfitStore
from rookery.errors import ToolError

NAME = "code.sqlite"
REBUILT = "The code index was damaged. It was set aside and is being made anew."
BUSY_SECONDS = 5.0
_PRIVATE_FILE = 0o600
_PRIVATE_FOLDER = 0o700
_NO_FULL_TEXT = "no such module"

T = TypeVar("T")

_PASSING_TROUBLE = {
    sqlite3.SQLITE_BUSY: "it is in use",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: "the disk does not answer",
    sqlite3.SQLITE_LOCKED: "it is in use",
    sqlite3.SQLITE_NOMEM: "there is no memory left",
    sqlite3.SQLITE_PERM: "it may not be used",
    sqlite3.SQLITE_READONLY: "it cannot be written",
}


class Unusable(ToolError):
    """There is no index now, and nothing was lost by that."""

    def __init__(self, folder: Path, why: str) -> None:
        super().__init__(
            f"The code index in {folder} cannot be used ({why}). search_files works without it."
        )


class Database:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / NAME
        self.damages = 0
        """How many were found damaged so far."""

    def ask(self, question: Callable[[Store], T]) -> T:
        """Raises `Unusable`. A question that stumbles over damage is asked again of a new index."""
        for _ in range(2):
            found: os.stat_result | None = None
            try:
                found = self._find_or_make()
                with closing(self._connected()) as connection:
                    return question(Store(connection))
            except (UnfitStore, UnicodeDecodeError):
                # values that were never written: SQLite passes on what a damaged page seems to hold
                self._set_aside(found)
            except sqlite3.Error as error:
                self._judge(error)
                self._set_aside(found)
            except OSError as error:
                raise Unusable(self._folder, error.strerror or str(error)) from error
        raise Unusable(self._folder, "it was damaged twice in a row")

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Waits until no other process brings the index up to date."""
        try:
            self._make_folder()
            lock = self._locked("update.lock")
        except OSError as error:
            raise Unusable(self._folder, error.strerror or str(error)) from error
        try:
            yield
        finally:
            os.close(lock)

    def _connected(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, BUSY_SECONDS, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA secure_delete = ON")
        except BaseException:
            connection.close()
            raise
        return connection

    def _judge(self, error: sqlite3.Error) -> None:
        """Only damage is a reason to begin anew."""
        why = _PASSING_TROUBLE.get(getattr(error, "sqlite_errorcode", 0) & 0xFF)
        if why is None and _NO_FULL_TEXT in str(error):
            why = "the SQLite of this Python has no full-text search"
        if why is not None:
            raise Unusable(self._folder, why) from error

    def _make_folder(self) -> None:
        self._folder.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)

    def _find_or_make(self) -> os.stat_result:
        """The file as it is before SQLite opens it, which would make it readable to others."""
        self._make_folder()
        with suppress(FileExistsError):
            os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE_FILE))
        return self._path.stat()

    def _locked(self, name: str) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(self._folder / name, flags, _PRIVATE_FILE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _set_aside(self, found: os.stat_result | None) -> None:
        """Rename what was found unfit, unless another process has already replaced it."""
        self.damages += 1
        lock = self._locked("rename.lock")
        try:
            if found and self._path.exists() and os.path.samestat(self._path.stat(), found):
                self._path.replace(self._path.with_name(f"{NAME}.damaged"))
                for part in ("-wal", "-shm"):
                    self._path.with_name(NAME + part).unlink(missing_ok=True)
        finally:
            os.close(lock)
