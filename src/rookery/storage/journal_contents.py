"""What a journal contains, and a snapshot of that beside it.

A long journal is read once: its lines are checked, folded, and not kept in memory. The snapshot
saves the next process even that. It only repeats what the journal says, and counts only if it is
undamaged, was written by this very code, and the journal still begins with exactly the bytes it was
made from. Otherwise it is ignored, and replaced in time. It may be deleted at any time.
"""

import hashlib
import os
import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import groupby, pairwise
from pathlib import Path
from typing import BinaryIO, ClassVar, Self

import msgspec
from msgspec import Struct

from rookery import VERSION
from rookery.core.event_list import EventList
from rookery.core.facts import AgentTask, Event, Noted, PromptRefused, TaskOpened
from rookery.core.folds.task_record import KnownFiles, TaskRecord
from rookery.core.folds.task_state import TaskState
from rookery.errors import StorageError
from rookery.faults import kp
from rookery.first_use import prepared
from rookery.platform.disk import put, reason
from rookery.storage.journal_lines import (
    ASIDE,
    FORMAT,
    JOURNAL,
    Blobs,
    End,
    counting_lines,
    opened_journal,
    pieces_of,
    set_aside,
    understood,
    without_beginning,
)

SNAPSHOT = "journal.snapshot"
_HASH = hashlib.sha256
_CHECKSUM = _HASH().digest_size
_LINES_AT_ONCE = 256


class _Snapshot(Struct, frozen=True):
    maker: bytes
    """A hash of the code that wrote it."""
    end: End
    digest: bytes
    """A hash of the journal up to there."""
    on_record: frozenset[str]
    codes: bytes
    ends: bytes
    state: TaskState
    call_ids: frozenset[str]
    agents: tuple[tuple[str, AgentTask], ...]
    files: KnownFiles


class JournalContents:
    """What was read from a journal and written to it. Its newest events are kept in memory."""

    kept: ClassVar[int] = 4_000
    """Events in memory; twice as many before older ones are dropped."""
    interval: ClassVar[int] = 5_000
    """Events between two snapshots. A shorter journal has none."""
    interval_at_end: ClassVar[int] = 1_000
    """Events since the last snapshot after which a journal that is closed gets another."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.end = End()
        self.format = FORMAT
        self.on_record = frozenset[str]()
        """Files that were moved aside and are mentioned in a note."""
        self.record = TaskRecord()
        self._digest = _HASH()
        self._ends = array("Q")
        self._saved = 0
        """Events in the snapshot."""

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read all valid lines. Raises `OSError`."""
        with opened_journal(folder / JOURNAL) as file:
            contents = cls(folder)
            if not contents._restored(file):
                contents = cls(folder)
            start, after = contents.end.size, contents.end.seq
            for line in counting_lines(file, Blobs(folder / "blobs"), start=start, after=after):
                contents.add(line.event, line.raw)
                contents.record.append(line.event)
                contents.let_go(file.fileno())
            if contents.end.seq > cls.kept:
                contents.record.events.let_go(cls.kept, contents.lines(file.fileno()))
        return contents

    @classmethod
    def recover(cls, folder: Path) -> Self:
        """Read a journal and remove invalid data from it. The caller holds the task's lock.

        A journal of a newer format is not touched, because it may not be damaged at all.
        """
        contents, journal = cls.read(folder), folder / JOURNAL
        if contents.end.seq == 0:
            raise StorageError(without_beginning(folder))
        if contents.format <= FORMAT and contents.end.size < journal.stat().st_size:
            set_aside(journal, contents.end.size)
        return contents

    def add(self, event: Event, line: bytes) -> None:
        """Note a line that was read or written. Its event is the record's owner's to append."""
        self.end = End(event.seq, self.end.size + len(line))
        self._digest.update(line)
        self._ends.append(self.end.size)
        match event.fact:
            case TaskOpened(format=version):
                self.format = version
            case Noted(text=text):
                self.on_record |= {found.group() for found in ASIDE.finditer(text)}
            case _:
                pass

    def let_go(self, fd: int) -> None:
        """Drop old events from memory when there are many. They can be read again from `fd`."""
        events = self.record.events
        if events.in_memory > 2 * self.kept and len(events) == self.end.seq:
            events.let_go(self.kept, self.lines(fd))

    def lines(self, fd: int) -> "StoredLines":
        return StoredLines(fd, self._ends, Blobs(self.folder / "blobs"))

    def save(self, *, at_end: bool = False) -> None:
        """Replace the snapshot, if it is due. It need not survive a power failure."""
        record, count = self.record, self.end.seq
        interval = self.interval_at_end if at_end else self.interval
        if count < self.interval or count - self._saved < interval:
            return
        if len(record.events) != count or self.format > FORMAT:
            return
        if any(record.events.places(PromptRefused)):
            return  # a refusal takes back later edits of the message, too
        self._saved = count
        with suppress(OSError, ValueError, TypeError, OverflowError, msgspec.MsgspecError):
            snapshot = _Snapshot(
                maker=_maker(),
                end=self.end,
                digest=self._digest.digest(),
                on_record=self.on_record,
                codes=bytes(record.events.codes),
                ends=self._ends.tobytes(),
                state=record.state,
                call_ids=frozenset(record.call_ids),
                agents=tuple(record.agents),
                files=record.files,
            )
            body = msgspec.msgpack.encode(snapshot)
            if msgspec.msgpack.decode(body, type=prepared(_Snapshot)) != snapshot:
                return  # a value that cannot be read back
            kp("snapshot.before_write")
            put(self.folder / SNAPSHOT, [_HASH(body).digest(), body], durable=False)
            kp("snapshot.written")

    def _restored(self, file: BinaryIO) -> bool:
        """Take over what the snapshot says, if the journal begins as it did then."""
        snapshot = _found_snapshot(self.folder)
        if snapshot is None or not self._begins_with(snapshot, file):
            return False
        self._ends.frombytes(snapshot.ends)
        self._saved = snapshot.end.seq
        self.end, self.on_record = snapshot.end, snapshot.on_record
        events = EventList(codes=snapshot.codes, stored=self.lines(file.fileno()))
        events.remember(self.kept)
        known = snapshot.state, snapshot.call_ids, snapshot.agents, snapshot.files
        self.record = TaskRecord(events, *known)
        return True

    def _begins_with(self, snapshot: _Snapshot, file: BinaryIO) -> bool:
        left = snapshot.end.size
        for piece in pieces_of(file.fileno(), 0):
            self._digest.update(piece[:left])
            left -= len(piece)
            if left <= 0:
                break
        return left <= 0 and self._digest.digest() == snapshot.digest


class StoredLines:
    """Reads the events of a journal by their places. It keeps the file open by itself."""

    def __init__(self, fd: int, ends: "array[int]", blobs: Blobs) -> None:
        self._fd = os.dup(fd)
        self._ends = ends
        self._blobs = blobs

    def __del__(self) -> None:
        os.close(self._fd)

    def __call__(self, places: Iterable[int]) -> Iterator[Event]:
        for run in _runs(places):
            for start in range(0, len(run), _LINES_AT_ONCE):
                yield from self._read(run[start], run[start : start + _LINES_AT_ONCE][-1] + 1)

    def _read(self, first: int, end: int) -> Iterator[Event]:
        ends = [self._ends[first - 1] if first else 0, *self._ends[first:end]]
        data = os.pread(self._fd, ends[-1] - ends[0], ends[0])
        for number, (start, stop) in enumerate(pairwise(ends), first + 1):
            found = understood(data[start - ends[0] : stop - ends[0]], number, self._blobs)
            if found is None:
                raise StorageError(
                    f"The session's journal was damaged while it was open: event {number} can no "
                    "longer be read. Close the session, then continue it with --continue."
                )
            yield found[0]


def _runs(places: Iterable[int]) -> Iterator[Sequence[int]]:
    """Group the places into runs of consecutive numbers."""
    if isinstance(places, range) and places.step == 1:
        yield places
        return
    for _, numbered in groupby(enumerate(places), _start_of_run):
        yield [place for _, place in numbered]


def _start_of_run(numbered: tuple[int, int]) -> int:
    number, place = numbered
    return place - number


def _found_snapshot(folder: Path) -> _Snapshot | None:
    try:
        raw = (folder / SNAPSHOT).read_bytes()
        checksum, body = raw[:_CHECKSUM], raw[_CHECKSUM:]
        if _HASH(body).digest() != checksum:
            return None
        snapshot = msgspec.msgpack.decode(body, type=prepared(_Snapshot))
    except (OSError, ValueError, msgspec.MsgspecError):
        return None
    return snapshot if snapshot.maker == _maker() else None


@cache
def _maker() -> bytes:
    """A hash of the code that decides what a snapshot holds. Without its source, no two processes
    have the same."""
    source = Path(__file__).parents[1]
    modules = [*sorted((source / "core").rglob("*.py")), source / "protocol" / "codec.py"]
    digest = _HASH(f"{VERSION} {sys.version} {sys.byteorder}".encode())
    try:
        for path in [*modules, Path(__file__)]:
            digest.update(path.read_bytes())
    except OSError:
        digest.update(os.urandom(32))
    return digest.digest()


def read_record(folder: Path) -> TaskRecord:
    """The valid events of a stored task, and what is known from them. Needs no lock."""
    try:
        contents = JournalContents.read(folder)
        contents.save()
        return contents.record
    except OSError as error:
        raise unreadable(folder, error) from error


def unreadable(folder: Path, error: OSError) -> StorageError:
    if isinstance(error, FileNotFoundError):
        return StorageError(f"No such session: {folder.name}.")
    return StorageError(
        f"The journal of session {folder.name} cannot be read ({reason(error)}). "
        f"Check the permissions of {folder} and the disk it is on."
    )
