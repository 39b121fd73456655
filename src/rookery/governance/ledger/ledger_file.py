"""The ledger as a process writes it: line by line, safe between processes, in constant time.

A stream belongs to one task in one process and is never continued from a second place: if its
last record is not where it was left (a branch was switched, the file was replaced or sealed),
the task goes on in a new stream that names all tips. Whoever appends holds the lock, mends the
torn line that a killed writer may have left, and takes in what others have appended since.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import Enum
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import Any
from uuid import uuid4

from msgspec import Struct

from rookery.faults import kp
from rookery.governance.ledger.active_file import ActiveFile, LedgerTail, TailMemory
from rookery.governance.ledger.records import (
    LedgerEntry,
    Link,
    Writer,
    line_of,
    new_ulid,
    parts_of,
    record_of,
)
from rookery.governance.ledger.segments import (
    ACTIVE,
    move_sealed,
    newest_seal,
    seal_entry,
    sealed_files,
)
from rookery.governance.ledger.state_files import (
    WAIT,
    KnownHeads,
    LedgerUnreadable,
    exclusive,
    kept_key,
    unwritable,
)
from rookery.governance.ledger.verify_ledger import Tip, state_id

SEAL_SIZE = 64 * 1024 * 1024
SEAL_RECORDS = 100_000
CHECKPOINT_EVERY = 1_000
ANCHORS = 64
FLUSH_EVERY = 1.0


class Flush(Enum):
    """When a record is on the medium: at once, within a second, or when the system likes."""

    ALWAYS = "always"
    BATCH = "batch"
    NEVER = "never"


class Appended(Struct, frozen=True, kw_only=True):
    """A record that is in the ledger."""

    id: str
    stream: str
    seq: int
    hash: str


class _Stream(Struct, frozen=True):
    """A task's stream, with the place and the bytes of its last line."""

    name: str
    seq: int = -1
    hash: str | None = None
    offset: int = 0
    line: bytes = b""
    inode: int = 0


class _Page(Struct):
    """The active file while it is written."""

    file: ActiveFile
    tail: LedgerTail
    start: int = 0
    """Where it ended when it was opened."""

    def __post_init__(self) -> None:
        self.start = self.file.size


class Ledger:
    """One workspace's ledger. Several tasks and threads may share it."""

    def __init__(
        self,
        folder: Path,
        *,
        writer: Writer,
        heads: KnownHeads | None = None,
        flush: Flush = Flush.ALWAYS,
        lock_wait: float = WAIT,
        seal_size: int = SEAL_SIZE,
        seal_records: int = SEAL_RECORDS,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.folder = folder
        self.heads_problem = ""
        """Why the known heads could not be written, if they could not."""
        self._active = folder / ACTIVE
        self._state = folder / ".state"
        self._memory = TailMemory(self._state / "head.json")
        self._writer = writer
        self._heads = heads
        self._flush = flush
        self._lock_wait = lock_wait
        self._seal_size, self._seal_records = seal_size, seal_records
        self._now = now
        self._guard = RLock()
        self._streams: dict[str, _Stream] = {}
        self._torn: dict[str, Any] | None = None
        """What was cut off the file and is to be told in a record."""
        self._unflushed = False
        self._flushed_at = time.monotonic()

    def append(self, entry: LedgerEntry) -> Appended:
        """Record one thing. Raises LedgerUnwritable, and then nothing of it was recorded."""
        parts = parts_of(entry)
        with self._writing(entry.task_id) as page:
            if page.tail.size >= self._seal_size or page.tail.records >= self._seal_records:
                self._put(page, seal_entry(entry.task_id, page.tail))
                self._turn(page)
                self._torn = None
                self._open_stream(page, entry.task_id)
            for part in parts:
                done = self._put(page, part)
            if page.tail.since_checkpoint >= CHECKPOINT_EVERY:
                self._put(page, _checkpoint_entry(entry.task_id, page.tail))
                self._memory.keep()
        return done

    def has_recorded(self, task_id: str) -> bool:
        return task_id in self._streams

    def holds_own(self, task_id: str) -> bool:
        """Whether what the task recorded last is still where it was put; true if it recorded
        nothing yet, or the file was sealed since."""
        own = self._streams.get(task_id)
        if own is None:
            return True
        if any(path.stat().st_ino == own.inode for path in sealed_files(self.folder)):
            return True
        with self._open() as page:
            return self._is_where_it_was_left(own, page)

    def checkpoint(self, task_id: str) -> None:
        """Record the tips, as at the end of a task. A task that recorded nothing needs none."""
        if task_id in self._streams:
            with self._writing(task_id) as page:
                self._put(page, _checkpoint_entry(task_id, page.tail))
                self._memory.keep()

    def seal(self, task_id: str) -> None:
        """Close the active file for good. Nothing is done to one without records."""
        if self.tail().records:
            with self._writing(task_id) as page:
                self._put(page, seal_entry(task_id, page.tail))
                self._note_heads(page.tail)
                self._turn(page)

    def flush(self) -> None:
        """What was appended is on the medium when this returns."""
        if self._unflushed:
            with self._open() as page:
                os.fsync(page.file.fd)
                self._note_flush()
                self._note_heads(page.tail)

    @property
    def flushed(self) -> bool:
        """Whether all that was appended is as safe as was asked for."""
        return not self._unflushed or self._flush is Flush.NEVER

    def tail(self) -> LedgerTail:
        """The active file as it is now."""
        with self._open() as page:
            return page.tail

    def close(self) -> None:
        """Flush, and leave behind what spares the next process a reading of the whole file."""
        if self._flush is not Flush.NEVER:
            self.flush()
        if self._streams:
            with self._open():
                self._memory.keep()

    @contextmanager
    def _open(self) -> Iterator[_Page]:
        """The active file, whole and read up to its end. Nobody else writes meanwhile."""
        lock = self._state / "locks" / "trace"
        try:
            if not self.folder.is_dir():
                raise unwritable(f"no such folder: {self.folder}")
            with self._guard, exclusive(lock, wait=self._lock_wait):
                page = self._page()
                try:
                    yield page
                finally:
                    page.file.close()
        except LedgerUnreadable as error:
            raise unwritable(error.why) from error
        except OSError as error:
            raise unwritable(error.strerror or str(error)) from error

    def _page(self) -> _Page:
        file = ActiveFile(self._active)
        try:
            self._torn = file.mend(self._state / "quarantine") or self._torn
            page = _Page(file, self._memory.tail_of(file))
            if page.tail.ends_with_seal:  # whoever wrote the seal did not live to move the file
                self._turn(page)
            return page
        except BaseException:
            file.close()
            raise

    @contextmanager
    def _writing(self, task_id: str) -> Iterator[_Page]:
        """The same, to append to it. What was appended is kept and remembered, or none of it."""
        with self._open() as page:
            before = dict(self._streams)
            try:
                self._open_stream(page, task_id)
                yield page
                self._flush_now(page.file)
            except BaseException:
                page.file.undo(page.start)
                self._streams = before
                self._memory.forget()
                raise
            kp("ledger.appended")
            self._torn = None
            if self.flushed:  # what is not on the medium yet is remembered when it is
                self._note_heads(page.tail)

    def _turn(self, page: _Page) -> None:
        """Move the file that ends with its seal away, and go on with a new one."""
        os.fsync(page.file.fd)
        move_sealed(self._active, page.tail.last_line)
        self._memory.forget()
        page.file.close()
        page.file = ActiveFile(self._active)
        page.start = 0
        page.tail = self._memory.tail_of(page.file)

    def _put(self, page: _Page, entry: LedgerEntry) -> Appended:
        """Append one record to its task's stream, which is open."""
        stream = self._streams[entry.task_id]
        link = Link(stream=stream.name, seq=stream.seq + 1, prev=stream.hash)
        record = record_of(
            entry,
            id=str(uuid4()),
            timestamp=self._time(),
            writer=self._writer,
            link=link,
            key=self._key,
        )
        mark, line = record["metadata"]["orchestration"]["hash"], line_of(record)
        self._streams[entry.task_id] = _Stream(
            link.stream, link.seq, mark, page.file.size, line, page.file.inode
        )
        page.file.append(line)
        page.tail.take(line)
        return Appended(id=record["id"], stream=link.stream, seq=link.seq, hash=mark)

    @cached_property
    def _key(self) -> bytes:
        """Without one, records are not signed, and verifying says so."""
        try:
            return kept_key(self._heads.trace_key) if self._heads else b""
        except OSError:
            return b""

    def _open_stream(self, page: _Page, task_id: str) -> None:
        """Go on with the task's stream, or begin a new one; tell of what was repaired."""
        if not self._is_where_it_was_left(self._streams.get(task_id), page):
            opening = self._opening(task_id, page.tail)
            self._streams[task_id] = _Stream(new_ulid())
            for entry in opening:
                self._put(page, entry)
            self._memory.keep()
        if self._torn:
            self._put(page, LedgerEntry(kind="repair", task_id=task_id, more=self._torn))

    def _is_where_it_was_left(self, own: _Stream | None, page: _Page) -> bool:
        if own is None or page.tail.head(own.name) != (own.seq, own.hash):
            return False
        return page.file.holds(own.line, at=own.offset)

    def _opening(self, task_id: str, tail: LedgerTail) -> list[LedgerEntry]:
        """What begins a stream: all tips, of which one record names no more than so many."""
        seal = None if tail.records else newest_seal(self.folder)
        tips = seal.tips if seal else tail.tips
        more: dict[str, Any] = {"segment": seal.segment} if seal else {}
        if own := self._streams.get(task_id):
            sealed = any(path.stat().st_ino == own.inode for path in sealed_files(self.folder))
            more["reason"] = "sealed" if sealed else "head_missing"
        more["anchors"] = _named(tips[:ANCHORS])
        opening = [LedgerEntry(kind="stream_start", task_id=task_id, more=more)]
        if len(tips) > ANCHORS:
            rest = {"anchors": _named(tips[ANCHORS:])}
            opening.append(LedgerEntry(kind="checkpoint", task_id=task_id, more=rest))
        return opening

    def _time(self) -> str:
        now = self._now()
        return f"{now:%Y-%m-%dT%H:%M:%S}.{now.microsecond // 1000:03}Z"

    def _flush_now(self, file: ActiveFile) -> None:
        self._unflushed = True
        due = time.monotonic() - self._flushed_at >= FLUSH_EVERY
        if self._flush is Flush.ALWAYS or (self._flush is Flush.BATCH and due):
            os.fdatasync(file.fd)
            self._note_flush()

    def _note_flush(self) -> None:
        self._unflushed = False
        self._flushed_at = time.monotonic()

    def _note_heads(self, tail: LedgerTail) -> None:
        """The record is written, whether it can be remembered elsewhere or not."""
        if self._heads is None or not tail.records:
            return
        try:
            self._heads.note(tail)
            self.heads_problem = ""
        except OSError as error:
            self.heads_problem = f"{self._heads.path} cannot be written ({error.strerror})."


def _named(tips: Sequence[Tip]) -> list[dict[str, Any]]:
    return [{"stream": stream, "seq": seq, "hash": mark} for stream, seq, mark in tips]


def _checkpoint_entry(task_id: str, tail: LedgerTail) -> LedgerEntry:
    more = {
        "tips": _named(tail.tips),
        "records": tail.sealed_records + tail.records,
        "state": state_id(tail.tips),
    }
    return LedgerEntry(kind="checkpoint", task_id=task_id, more=more)
