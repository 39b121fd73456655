"""One task's log on disk: a checksummed line per event, append-only.

An event is written with one `write`, and synced before `write` returns if later actions rely on it.
A task has one writer, the holder of its `TaskLock`, which the operating system releases when the
process dies. docs/journal.md describes the file.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import ClassVar

from rookery.core.facts import Event, Fact, Noted
from rookery.core.folds.task_record import TaskRecord
from rookery.core.limits import MIB
from rookery.errors import StorageError
from rookery.faults import kp
from rookery.platform.disk import (
    PRIVATE_FILE,
    private_folder,
    put,
    reason,
    remove_unfinished,
    sync,
    sync_folder,
)
from rookery.platform.locks import lock_within, open_lock, try_lock
from rookery.storage.journal_contents import JournalContents, unreadable
from rookery.storage.journal_lines import (
    FORMAT,
    JOURNAL,
    LONGEST,
    MAY_WAIT,
    Blobs,
    SyncRule,
    counting_lines,
    line_from,
    never_started,
    opened_journal,
    pieces_of,
    report,
    set_aside,
)

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
SECONDS_OF_A_LOOK = 0.25
"""Longer than `is_locked` takes, which holds the lock for a moment."""


class TaskLock:
    """Held from construction until `release`. Readers need none.

    The file beside the journal says who holds the lock, for error messages. It means nothing once
    the lock is free.
    """

    def __init__(self, folder: Path) -> None:
        self._path = path = folder / "lock"
        try:
            self._fd = open_lock(path)
        except FileNotFoundError as error:
            raise StorageError(f"No such session: {folder.name}.") from error
        except OSError as error:
            raise StorageError(
                f"Session {folder.name} cannot be opened: {path} is not writable "
                f"({reason(error)}). Make its folder writable, or start a new session "
                "elsewhere."
            ) from error
        try:
            self._take(path)
        except BaseException:
            self.release()
            raise

    @property
    def in_place(self) -> bool:
        """Whether the lock file has not been deleted or replaced."""
        try:
            return os.path.samestat(os.fstat(self._fd), self._path.stat())
        except OSError:
            return False

    def release(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _take(self, path: Path) -> None:
        task = path.parent.name
        try:
            if not lock_within(self._fd, SECONDS_OF_A_LOOK):
                raise StorageError(
                    f"Session {task} is open in {self._holder()}. Close it there, or start another."
                )
            if not self.in_place:
                raise FileNotFoundError(path)
            self._sign()
        except FileNotFoundError as error:
            raise StorageError(f"No such session: {task}.") from error  # just deleted
        except OSError as error:
            raise StorageError(
                f"Session {task} cannot be opened: {path} cannot be locked ({reason(error)})."
            ) from error

    def _sign(self) -> None:
        name = f"{os.getpid()} {os.uname().nodename}\n".encode()
        with suppress(OSError):  # a courtesy: a full disk must not keep a task from being deleted
            os.pwrite(self._fd, name, 0)
            os.ftruncate(self._fd, len(name))

    def _holder(self) -> str:
        pid, _, host = os.pread(self._fd, 300, 0).decode(errors="replace").strip().partition(" ")
        return f"process {pid} on {host}" if pid.isdecimal() else "another process"


def is_locked(folder: Path) -> bool:
    """Whether a process works on the task in the folder."""
    try:
        fd = os.open(folder / "lock", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not try_lock(fd, shared=True)
    finally:
        os.close(fd)


class Journal:
    """The journal of one task, held by its only writer until it is closed.

    `recovered` says what was moved aside when it was opened, or rewritten since. It is empty once
    that sentence is in the journal itself.
    """

    waits: ClassVar[frozenset[type[Fact]]] = MAY_WAIT
    largest: ClassVar[int] = 1024 * MIB
    reads: ClassVar[type[JournalContents]] = JournalContents

    def __init__(self, lock: TaskLock, contents: JournalContents) -> None:
        self._folder = contents.folder
        self._lock = lock
        self._contents = contents
        self._rule = SyncRule()
        self._blobs = Blobs(contents.folder / "blobs")
        self._refusal = self.recovered = ""
        self._synced = True
        self._fd = _opened_to_append(contents.folder)

    @classmethod
    def create(cls, folder: Path) -> "Journal":
        """Create an empty journal in a folder without a task, or with one that never started."""
        try:
            with ExitStack() as undo:
                lock = TaskLock(private_folder(folder))
                undo.callback(lock.release)
                if not never_started(folder / JOURNAL):
                    raise StorageError(f"Session {folder.name} already exists.")
                journal = cls(lock, cls.reads(folder))
                undo.callback(journal.close)
                if (folder / JOURNAL).stat().st_size:
                    set_aside(folder / JOURNAL, 0)
                sync_folder(folder)
                undo.pop_all()
        except OSError as error:
            raise StorageError(
                f"Session {folder.name} could not be created in {folder} ({reason(error)})."
            ) from error
        return journal

    @classmethod
    def open(cls, folder: Path) -> "Journal":
        """Open the journal of an existing task. Invalid lines are moved aside."""
        try:
            with ExitStack() as undo:
                lock = TaskLock(folder)
                undo.callback(lock.release)
                contents = cls.reads.recover(folder)
                journal = cls(lock, contents)
                undo.callback(journal.close)
                remove_unfinished(folder)
                remove_unfinished(folder / "blobs")
                undo.pop_all()
        except OSError as error:
            raise unreadable(folder, error) from error
        journal.recovered = report(folder, contents.on_record)
        if contents.format > FORMAT:
            journal._refusal = (
                f"Session {folder.name} was written by a newer version (format "
                f"{contents.format}); this one can only read it. Update, then "
                "continue it."
            )
        return journal

    @property
    def warning(self) -> str:
        """A warning for the user before the journal is full."""
        if self._contents.end.size < self.largest // 2:
            return ""
        return (
            f"The journal of this session has grown to {self._contents.end.size / MIB:,.0f} MiB; "
            f"the limit is {self.largest / MIB:,.0f} MiB. Continue in a new session soon."
        )

    def write(self, event: Event) -> None:
        """Durable on return, unless the fact may wait. After an error nothing has changed."""
        assert event.fact.lasting
        assert event.seq == self._contents.end.seq + 1
        if self._refusal:
            raise StorageError(self._refusal)
        if self._synced:
            self._contents.save()
        self._contents.let_go(self._fd)
        try:
            if self._is_gone():
                self._write_again()
            line = line_from(event, self._blobs)
            self._check_size(len(line))
            kp("journal.before_write")
            self._append(line)
            kp("journal.written")
            self._synced = not self._rule.may_wait(event.fact)
            if self._synced:
                self._sync()
            kp("journal.synced")
            self._contents.add(event, line)
            if isinstance(event.fact, Noted) and event.fact.text == self.recovered:
                self.recovered = ""
        except OSError as error:
            self._take_back()
            raise _unwritten(self._folder, error) from error
        except BaseException:
            self._take_back()
            raise

    def read(self) -> TaskRecord:
        """Return the contents. The caller of `write` also appends the event to this record."""
        if len(self._contents.record.events) != self._contents.end.seq:
            self._contents = self.reads.read(self._folder)
        return self._contents.record

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            if self._synced:
                self._contents.save(at_end=True)
            os.close(fd)
            self._lock.release()

    def _check_size(self, added: int) -> None:
        if added > LONGEST:
            raise StorageError(
                f"An event of {added:,} bytes is too large for the session's journal; the "
                f"limit is {LONGEST:,}. Everything up to here is kept."
            )
        if self._contents.end.size + added > self.largest:
            raise StorageError(
                f"The session's journal is full: the limit is {self.largest:,} bytes. Everything "
                "up to here is kept; continue in a new session."
            )

    def _is_gone(self) -> bool:
        """Whether the journal was deleted or moved while it is open here."""
        try:
            there = os.stat(self._folder / JOURNAL)
        except (FileNotFoundError, NotADirectoryError):
            return True
        if os.path.samestat(there, os.fstat(self._fd)):
            return False
        raise StorageError(
            f"Another file replaced the session's journal in {self._folder}, so "
            "nothing more is written. Close the session, then continue it with "
            "--continue."
        )

    def _write_again(self) -> None:
        """Write the open file to its path again; its content is complete even if the name was
        deleted."""
        try:
            if not self._lock.in_place:
                lock = TaskLock(private_folder(self._folder))
                self._lock.release()
                self._lock = lock
            put(self._folder / JOURNAL, pieces_of(self._fd, 0))
            fd = _opened_to_append(self._folder)
        except (OSError, StorageError) as error:
            why = reason(error) if isinstance(error, OSError) else error
            raise StorageError(
                f"The folder of this session was deleted and cannot be created again: {why}"
            ) from error
        os.close(self._fd)
        self._fd = fd
        self.recovered = (
            f"The folder of this session, {self._folder}, was deleted while it ran. "
            "Its journal was written again, so the session can continue; long "
            "outputs beside it are gone."
        )

    def _append(self, line: bytes) -> None:
        """Write a line at once. A short write is continued, which succeeds or raises."""
        while line:
            line = line[os.write(self._fd, line) :]

    def _sync(self) -> None:
        try:
            sync(self._fd)
        except OSError as error:
            # a failed sync may have dropped what earlier writes left in memory
            self._refuse(error)
            raise

    def _take_back(self) -> None:
        """Remove the line that was being written."""
        try:
            os.ftruncate(self._fd, self._contents.end.size)
        except OSError as error:
            self._refuse(error)

    def _refuse(self, error: OSError) -> None:
        self._refusal = (
            f"The end of the session's journal in {self._folder} is uncertain "
            f"({reason(error)}). Close the session, then continue it with --continue."
        )


def read_events(folder: Path) -> Iterator[Event]:
    """The valid events of a stored task. Needs no lock."""
    try:
        with opened_journal(folder / JOURNAL) as file:
            for line in counting_lines(file, Blobs(folder / "blobs")):
                yield line.event
    except OSError as error:
        raise unreadable(folder, error) from error


def _opened_to_append(folder: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(folder / JOURNAL, flags, PRIVATE_FILE)


def _unwritten(folder: Path, error: OSError) -> StorageError:
    remedy = "Free some space" if error.errno in _FULL else f"Make {folder} writable again"
    return StorageError(
        f"The session's journal could not be written ({reason(error)}); everything up "
        f"to here is kept. {remedy}, then continue with --continue."
    )
