"""Appending to the ledger: in constant time, safe across threads and processes.

A stream belongs to one task in one process. If its last record is no longer where it was written
(another branch was checked out, the file was replaced or sealed), the task continues in a new
stream that names all tips. A writer holds the lock, repairs a torn last line that a killed writer
may have left, and reads what others have appended since.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from enum import Enum
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import Any
from uuid import uuid4

from msgspec import Struct

from rookery.faults import kp
from rookery.governance.ledger.active_file import ActiveFile, LedgerTail, TailCache
from rookery.governance.ledger.ledger_reader import format_time
from rookery.governance.ledger.records import (
    OURS,
    LedgerEntry,
    Link,
    Writer,
    build_record,
    encode_line,
    new_ulid,
    split_entry,
)
from rookery.governance.ledger.segments import (
    ACTIVE,
    move_sealed,
    newest_seal,
    seal_entry,
    sealed_files,
)
from rookery.governance.ledger.state_files import (
    LOCK_TIMEOUT,
    KnownHeads,
    LedgerUnreadable,
    exclusive,
    read_or_create_key,
    unwritable,
)
from rookery.governance.ledger.verify_ledger import state_id, tips_json

SEAL_SIZE = 64 * 1024 * 1024
SEAL_RECORDS = 100_000
CHECKPOINT_EVERY = 1_000
ANCHORS = 64
FLUSH_EVERY = 1.0


class Flush(Enum):
    """When records reach the disk: immediately, within a second, or when the system writes."""

    ALWAYS = "always"
    BATCH = "batch"
    NEVER = "never"


class Appended(Struct, frozen=True, kw_only=True):
    """Identity of a record that was appended."""

    id: str
    stream: str
    seq: int
    hash: str


class _Stream(Struct, frozen=True):
    """A task's stream, with the offset and the bytes of its last line."""

    name: str
    seq: int = -1
    hash: str | None = None
    offset: int = 0
    line: bytes = b""
    inode: int = 0


class _OpenLedger(Struct):
    """The active file while it is open for writing."""

    file: ActiveFile
    tail: LedgerTail
    start: int = 0
    """Size of the file when it was opened; a failed write is truncated to it."""

    def __post_init__(self) -> None:
        self.start = self.file.size


class Ledger:
    """The ledger of one workspace. Tasks and threads can share it."""

    def __init__(
        self,
        folder: Path,
        *,
        writer: Writer = OURS,
        heads: KnownHeads | None = None,
        flush: Flush = Flush.ALWAYS,
        lock_wait: float = LOCK_TIMEOUT,
        seal_size: int = SEAL_SIZE,
        seal_records: int = SEAL_RECORDS,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.folder = folder
        self._active = folder / ACTIVE
        self._state = folder / ".state"
        self._tail_cache = TailCache(self._state / "head.json")
        self._writer = writer
        self._heads = heads
        self._flush = flush
        self._lock_wait = lock_wait
        self._seal_size, self._seal_records = seal_size, seal_records
        self._now = now
        self._guard = RLock()
        self._streams: dict[str, _Stream] = {}
        self._torn: dict[str, Any] | None = None
        """Details of a torn line that was cut off and is not recorded yet."""
        self._unflushed = False
        self._flushed_at = time.monotonic()

    def append(self, entry: LedgerEntry) -> Appended:
        """Append one entry. Raises LedgerUnwritable; then nothing of it was recorded."""
        parts = split_entry(entry)
        with self._writing(entry.task_id) as active:
            if active.tail.size >= self._seal_size or active.tail.records >= self._seal_records:
                self._append(active, seal_entry(entry.task_id, active.tail))
                self._rotate(active)
                self._torn = None
                self._open_stream(active, entry.task_id)
            for part in parts:
                done = self._append(active, part)
            if active.tail.since_checkpoint >= CHECKPOINT_EVERY:
                self._append(active, _checkpoint_entry(entry.task_id, active.tail))
                self._tail_cache.save()
        return done

    def has_recorded(self, task_id: str) -> bool:
        return task_id in self._streams

    def has_last_record(self, task_id: str) -> bool:
        """Whether the task's last record is still where it was written; true if there is none,
        or if the file was sealed since."""
        if task_id not in self._streams:
            return True
        with self._open() as active:
            own = self._streams.get(task_id)  # not before: another thread may have been appending
            if own is None or any(
                path.stat().st_ino == own.inode for path in sealed_files(self.folder)
            ):
                return True
            return self._is_unchanged(own, active)

    def checkpoint(self, task_id: str) -> None:
        """Record the tips at the end of a task. Does nothing if the task has recorded nothing."""
        if task_id in self._streams:
            with self._writing(task_id) as active:
                self._append(active, _checkpoint_entry(task_id, active.tail))
                self._tail_cache.save()

    def seal(self, task_id: str) -> None:
        """Seal the active file and start a new one. Does nothing if it has no records."""
        if self.tail().records:
            with self._writing(task_id) as active:
                self._append(active, seal_entry(task_id, active.tail))
                self._update_heads(active.tail)
                self._rotate(active)

    def flush(self) -> None:
        """Sync what was appended to disk."""
        if self._unflushed:
            with self._open() as active:
                os.fsync(active.file.fd)
                self._mark_flushed()
                self._update_heads(active.tail)

    @property
    def flushed(self) -> bool:
        """Whether everything appended is as durable as the `Flush` mode asks for."""
        return not self._unflushed or self._flush is Flush.NEVER

    def tail(self) -> LedgerTail:
        """The state of the active file as it is now."""
        with self._open() as active:
            return active.tail

    def close(self) -> None:
        """Flush, and write the cache that saves the next process from reading the whole file."""
        if self._flush is not Flush.NEVER:
            self.flush()
        if self._streams:
            with self._open():
                self._tail_cache.save()

    @contextmanager
    def _open(self) -> Iterator[_OpenLedger]:
        """Lock and open the active file, repaired and read up to its end."""
        lock = self._state / "locks" / "trace"
        try:
            if not self.folder.is_dir():
                raise unwritable(f"no such folder: {self.folder}")
            with self._guard, exclusive(lock, wait=self._lock_wait):
                active = self._open_active()
                try:
                    yield active
                finally:
                    active.file.close()
        except LedgerUnreadable as error:
            raise unwritable(error.why) from error
        except OSError as error:
            raise unwritable(error.strerror or str(error)) from error

    def _open_active(self) -> _OpenLedger:
        file = ActiveFile(self._active)
        try:
            self._torn = file.repair(self._state / "quarantine") or self._torn
            active = _OpenLedger(file, self._tail_cache.tail_of(file))
            if active.tail.ends_with_seal:  # the writer was killed before moving the file
                self._rotate(active)
            return active
        except BaseException:
            file.close()
            raise

    @contextmanager
    def _writing(self, task_id: str) -> Iterator[_OpenLedger]:
        """Open the file to append to the task's stream. On failure, everything is undone."""
        with self._open() as active:
            before = dict(self._streams)
            try:
                self._open_stream(active, task_id)
                yield active
                self._flush_now(active.file)
            except BaseException:
                active.file.undo(active.start)
                self._streams = before
                self._tail_cache.discard()
                raise
            kp("ledger.appended")
            self._torn = None
            if self.flushed:  # unsynced records are noted by `flush`
                self._update_heads(active.tail)

    def _rotate(self, active: _OpenLedger) -> None:
        """Move the sealed file away and continue with a new one."""
        os.fsync(active.file.fd)
        move_sealed(self._active, active.tail.last_line)
        self._tail_cache.discard()
        active.file.close()
        active.file = ActiveFile(self._active)
        active.start = 0
        active.tail = self._tail_cache.tail_of(active.file)

    def _append(self, active: _OpenLedger, entry: LedgerEntry) -> Appended:
        """Append one record to its task's stream, which must be open."""
        stream = self._streams[entry.task_id]
        link = Link(stream=stream.name, seq=stream.seq + 1, prev=stream.hash)
        record = build_record(
            entry,
            id=str(uuid4()),
            timestamp=format_time(self._now()),
            writer=self._writer,
            link=link,
            key=self._key,
        )
        hash_, line = record["metadata"]["orchestration"]["hash"], encode_line(record)
        self._streams[entry.task_id] = _Stream(
            link.stream, link.seq, hash_, active.file.size, line, active.file.inode
        )
        active.file.append(line)
        active.tail.add(line)
        return Appended(id=record["id"], stream=link.stream, seq=link.seq, hash=hash_)

    @cached_property
    def _key(self) -> bytes:
        """The signing key; without one, records are unsigned, which verifying reports."""
        try:
            return read_or_create_key(self._heads.trace_key) if self._heads else b""
        except OSError:
            return b""

    def _open_stream(self, active: _OpenLedger, task_id: str) -> None:
        """Continue the task's stream or start a new one, and record a repair if there was one."""
        if not self._is_unchanged(self._streams.get(task_id), active):
            entries = self._start_entries(task_id, active.tail)
            self._streams[task_id] = _Stream(new_ulid())
            for entry in entries:
                self._append(active, entry)
            self._tail_cache.save()
        if self._torn:
            self._append(active, LedgerEntry(kind="repair", task_id=task_id, more=self._torn))

    def _is_unchanged(self, own: _Stream | None, active: _OpenLedger) -> bool:
        if own is None or active.tail.head(own.name) != (own.seq, own.hash):
            return False
        return active.file.holds(own.line, at=own.offset)

    def _start_entries(self, task_id: str, tail: LedgerTail) -> list[LedgerEntry]:
        """The entries that start a stream and name all tips, at most `ANCHORS` in the first."""
        seal = None if tail.records else newest_seal(self.folder)
        tips = seal.tips if seal else tail.tips
        more: dict[str, Any] = {"segment": seal.segment} if seal else {}
        if own := self._streams.get(task_id):
            sealed = any(path.stat().st_ino == own.inode for path in sealed_files(self.folder))
            more["reason"] = "sealed" if sealed else "head_missing"
        more["anchors"] = tips_json(tips[:ANCHORS])
        entries = [LedgerEntry(kind="stream_start", task_id=task_id, more=more)]
        if len(tips) > ANCHORS:
            rest = {"anchors": tips_json(tips[ANCHORS:])}
            entries.append(LedgerEntry(kind="checkpoint", task_id=task_id, more=rest))
        return entries

    def _flush_now(self, file: ActiveFile) -> None:
        self._unflushed = True
        due = time.monotonic() - self._flushed_at >= FLUSH_EVERY
        if self._flush is Flush.ALWAYS or (self._flush is Flush.BATCH and due):
            os.fdatasync(file.fd)
            self._mark_flushed()

    def _mark_flushed(self) -> None:
        self._unflushed = False
        self._flushed_at = time.monotonic()

    def _update_heads(self, tail: LedgerTail) -> None:
        """Update the known heads. A failure is ignored: the record is written."""
        if self._heads is not None and tail.records:
            with suppress(OSError):
                self._heads.note(tail)


def _checkpoint_entry(task_id: str, tail: LedgerTail) -> LedgerEntry:
    more = {
        "tips": tips_json(tail.tips),
        "records": tail.sealed_records + tail.records,
        "state": state_id(tail.tips),
    }
    return LedgerEntry(kind="checkpoint", task_id=task_id, more=more)
