"""The file format of a journal: lines, blobs, and recovery.

A line is the event's JSON, a tab, the CRC-32 of the JSON in eight hex digits, and a line feed. The
JSON contains neither tabs nor line feeds, so lines can be found without parsing. A line is valid if
its checksum matches and its `seq` is the next one. A tool result too large for a line is a blob, a
file named by its SHA-256.

A killed process may leave half a line, a failing disk worse. `recover` copies invalid data beside
the journal before cutting it off, so that a crash in between loses nothing.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Iterator, Set
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rookery.core.facts import (
    CheckpointSaved,
    CommandDetached,
    CommandEnded,
    Condensed,
    Event,
    Fact,
    FilesChanged,
    HistoryRepaired,
    Noted,
    OfferWithdrawn,
    Reminded,
    RequestFailed,
    StepCancelled,
    TaskReopened,
    TodosChanged,
    ToolFinished,
    ToolStarted,
)
from rookery.core.limits import KIB, MIB
from rookery.errors import StorageError
from rookery.faults import kp
from rookery.first_use import lazy_pattern, prepared
from rookery.platform.disk import private_folder, put, reason, sync_folder
from rookery.protocol.codec import event_from_json, event_to_json

LARGEST_INLINE = 64 * KIB
FORMAT = 1
LONGEST = 128 * MIB
SEAL = len(b"\t01234567\n")
JOURNAL = "journal.jsonl"
ASIDE = lazy_pattern(r"journal\.torn-(\d+)-[0-9a-f]{8}")


MAY_WAIT: frozenset[type[Fact]] = frozenset(
    {
        CheckpointSaved,
        CommandDetached,
        CommandEnded,
        Condensed,
        FilesChanged,
        HistoryRepaired,
        Noted,
        OfferWithdrawn,
        Reminded,
        RequestFailed,
        StepCancelled,
        TaskReopened,
        TodosChanged,
    }
)
"""Facts that need no sync of their own: without them the task resumes in the same place. A
crash of the process loses none."""


class SyncRule:
    """Which facts are synced with the next one. So are the start and the end of a call that changes
    nothing: without them the call is made again, and the request that sends its result is synced
    before it is sent."""

    def __init__(self) -> None:
        self._repeatable: str | None = None

    def may_wait(self, fact: Fact) -> bool:
        match fact:
            case ToolStarted(call_id=call_id):
                self._repeatable = call_id if fact.harmless else None
                return fact.harmless
            case ToolFinished(call_id=call_id, spent=None):
                return call_id == self._repeatable
            case _:
                return type(fact) in MAY_WAIT


class Blobs:
    """The blobs of one task. The folder is created with the first one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, data: bytes) -> str:
        """Store durably and return the name to fetch it by."""
        name = hashlib.sha256(data).hexdigest()
        private_folder(self._folder)
        if self.fetch(name) is None:
            put(self._folder / name, [data])
        else:
            sync_folder(self._folder)  # the process that wrote it may have died before this
        return name

    def fetch(self, name: str) -> bytes | None:
        """The stored data, or None if it is missing or corrupted."""
        try:
            data = (self._folder / name).read_bytes()
        except OSError:
            return None
        return data if hashlib.sha256(data).hexdigest() == name else None


class BlobReference(msgspec.Struct, frozen=True):
    sha256: str
    bytes: int


class _Referring(msgspec.Struct):
    text_blob: BlobReference | None = None


class JournalLine(Struct, frozen=True):
    """An event with its line and the offset of the line's end."""

    event: Event
    end: int
    raw: bytes
    blob: BlobReference | None


class End(Struct, frozen=True):
    """Where the valid part of a journal ends."""

    seq: int = 0
    size: int = 0


def line_from(event: Event, blobs: Blobs) -> bytes:
    """The event's line. A text too large for it is stored durably in `blobs` first."""
    json = event_to_json(event)
    if isinstance(event.fact, ToolFinished) and len(json) > LARGEST_INLINE:
        data = event.fact.text.encode()
        if len(data) > LARGEST_INLINE:
            json = _referring_json(event, event.fact, data, blobs)
    return b"%b\t%08x\n" % (json, crc32(json))


def counting_lines(
    file: BinaryIO, blobs: Blobs | None = None, *, start: int = 0, after: int = 0
) -> Iterator[JournalLine]:
    """The valid lines from byte `start`, where event `after` ended.

    Stops before the first invalid line. Without `blobs`, large texts stay empty. Raises
    `StorageError` for an intact line that this version cannot understand.
    """
    file.seek(start)
    end, seq = start, after
    while raw := file.readline(LONGEST):
        found = understood(raw, seq + 1, blobs)
        if found is None:
            return
        event, blob = found
        end, seq = end + len(raw), event.seq
        yield JournalLine(event, end, raw, blob)


def understood(
    raw: bytes, expected: int, blobs: Blobs | None
) -> tuple[Event, BlobReference | None] | None:
    """The event in a line, if that is intact and has event `expected`."""
    json = _intact(raw)
    if json is None:
        return None
    event, blob = _decoded(json)
    if event.seq != expected:
        return None
    if blobs and blob and isinstance(event.fact, ToolFinished):
        event = replace(event, fact=replace(event.fact, text=_text_of(blob, blobs)))
    return event, blob


def flaw(raw: bytes, expected: int) -> str:
    """Why the line that should contain event `expected` is invalid."""
    if not raw.endswith(b"\n"):
        return "it is not complete"
    json = _intact(raw)
    if json is None:
        return "its checksum does not match"
    return f"it has event {event_from_json(json).seq} instead of {expected}"


@contextmanager
def opened_journal(journal: Path) -> Iterator[BinaryIO]:
    """Open the journal for reading. Raises `OSError` for files that could block a reader."""
    with open(os.open(journal, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        yield file


def never_started(journal: Path) -> bool:
    """Whether the process that created it died before writing its first line."""
    try:
        with opened_journal(journal) as file:
            return not any(b"\n" in piece for piece in pieces_of(file.fileno(), 0))
    except FileNotFoundError:
        return True


def set_aside(journal: Path, start: int) -> None:
    """Move what follows byte `start` to a file named by its offset and content."""
    fd = os.open(journal, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        checksum = 0
        for piece in pieces_of(fd, start):
            checksum = crc32(piece, checksum)
        put(journal.with_name(f"journal.torn-{start}-{checksum:08x}"), pieces_of(fd, start))
        kp("recovery.copied")
        os.ftruncate(fd, start)
        kp("recovery.cut")
        os.fsync(fd)
    except OSError as error:
        raise StorageError(
            f"The damaged end of {journal} could not be saved ({reason(error)}); "
            "nothing was changed. Free some space or make its folder writable, then "
            "open it again."
        ) from error
    finally:
        os.close(fd)


def pieces_of(fd: int, start: int) -> Iterator[bytes]:
    while piece := os.pread(fd, MIB, start):
        yield piece
        start += len(piece)


def _referring_json(event: Event, fact: ToolFinished, data: bytes, blobs: Blobs) -> bytes:
    reference = BlobReference(sha256=blobs.keep(data), bytes=len(data))
    json = event_to_json(replace(event, fact=replace(fact, text="")))
    return b'%b,"text_blob":%b}' % (json[:-1], msgspec.json.encode(reference))


def _intact(raw: bytes) -> bytes | None:
    """The JSON of a line, if the line is complete."""
    json, checksum = raw[:-SEAL], raw[-SEAL:]
    return json if checksum == b"\t%08x\n" % crc32(json) else None


def _decoded(json: bytes) -> tuple[Event, BlobReference | None]:
    try:
        event = event_from_json(json)
        if b'"text_blob"' not in json:
            return event, None
        return event, msgspec.json.decode(json, type=prepared(_Referring)).text_blob
    except (ValueError, msgspec.MsgspecError) as error:
        raise StorageError(
            f"This version cannot read a line of the journal ({error}). Open the "
            "session with the version that wrote it."
        ) from error


def _text_of(reference: BlobReference, blobs: Blobs) -> str:
    data = blobs.fetch(reference.sha256)
    if data is None:
        return (
            f"[This output of {reference.bytes:,} bytes is lost: the file blobs/{reference.sha256} "
            "beside the journal is missing or damaged.]"
        )
    return data.decode("utf-8", "replace")


def without_beginning(folder: Path) -> str:
    if never_started(folder / JOURNAL):
        return f"Session {folder.name} never started: its process ended first. Start it again."
    return (
        f"The journal of session {folder.name} is damaged from its first line, so the "
        f"session cannot be opened. Nothing was changed. Restore {folder} from a "
        "backup, or delete it."
    )


def report(folder: Path, on_record: Set[str]) -> str:
    new = (path for path in _set_aside_files(folder) if path.name not in on_record)
    return " ".join(map(_sentence, new))


def lost_lines(folder: Path, *, held: bool) -> int:
    """The number of complete lines that are invalid or were moved aside. Half a line was never
    acknowledged. In a journal that is `held`, the invalid ones were moved aside. Raises
    `OSError`."""
    if not (folder / JOURNAL).exists():
        return 0
    if held:
        return sum(map(_line_ends_in, _set_aside_files(folder)))
    with opened_journal(folder / JOURNAL) as file:
        end = 0
        for line in counting_lines(file):
            end = line.end
        return _line_ends(file, end) + sum(map(_line_ends_in, _set_aside_files(folder)))


def _line_ends_in(path: Path) -> int:
    with opened_journal(path) as file:
        return _line_ends(file, 0)


def _line_ends(file: BinaryIO, start: int) -> int:
    return sum(piece.count(b"\n") for piece in pieces_of(file.fileno(), start))


def _set_aside_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if ASIDE.fullmatch(path.name))


def _sentence(aside: Path) -> str:
    found = ASIDE.fullmatch(aside.name)
    assert found
    return (
        f"The end of this task's journal was damaged, so the task continues from the last "
        f"readable event. Everything from byte {int(found[1]):,} on is ignored; those "
        f"{aside.stat().st_size:,} bytes are kept beside it in {aside.name}."
    )
