"""What counts in a journal, and what becomes of the rest.

A process that was killed may leave half a line behind, a failing disk worse. What does not
count is copied beside the journal first and cut off only then, so that a crash in between
loses nothing and recovering twice is recovering once.
"""

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

from msgspec import Struct

from rookery.core.facts import Noted, TaskOpened
from rookery.core.limits import MIB
from rookery.errors import StorageError
from rookery.faults import kp
from rookery.platform.disk import put, reason
from rookery.storage.journal_lines import FORMAT, counting_lines

JOURNAL = "journal.jsonl"
_ASIDE = re.compile(r"journal\.torn-(\d+)-[0-9a-f]{8}")


class End(Struct, frozen=True):
    """Where the part of a journal that counts ends."""

    seq: int = 0
    size: int = 0


class Condition(Struct, frozen=True):
    """A journal as it was found: `report` says what was set aside and is not yet on record."""

    end: End
    format: int
    report: str


def recover(folder: Path) -> Condition:
    """Leave only what counts in the journal. For whoever holds the task's lock.

    A journal of a newer format is not touched: what we take for damage may be none.
    """
    journal = folder / JOURNAL
    end, version, on_record = _examine(journal)
    if end.seq == 0:
        raise StorageError(_without_beginning(folder))
    if version <= FORMAT and end.size < journal.stat().st_size:
        set_aside(journal, end.size)
    return Condition(end, version, _report(folder, on_record))


@contextmanager
def opened_journal(journal: Path) -> Iterator[BinaryIO]:
    """The journal, to be read. Raises `OSError` for what could keep a reader waiting."""
    with open(os.open(journal, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        yield file


def never_begun(journal: Path) -> bool:
    """Nothing was ever acknowledged: the process that made it died before its first line."""
    try:
        with opened_journal(journal) as file:
            return not any(b"\n" in piece for piece in pieces_of(file.fileno(), 0))
    except FileNotFoundError:
        return True


def set_aside(journal: Path, start: int) -> None:
    """Move what follows byte `start` to a file whose name tells its place and content."""
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
            f"The damaged end of {journal} could not be set aside ({reason(error)}); nothing of "
            "it was changed. Free some space or make its folder writable, then open it again."
        ) from error
    finally:
        os.close(fd)


def _examine(journal: Path) -> tuple[End, int, set[str]]:
    """Where it ends, its format, and the files set aside that its notes speak of."""
    end, version, on_record = End(), FORMAT, set[str]()
    with opened_journal(journal) as file:
        for line in counting_lines(file):
            end = End(line.event.seq, line.end)
            match line.event.fact:
                case TaskOpened(format=version):
                    pass
                case Noted(text=text):
                    on_record |= {found.group() for found in _ASIDE.finditer(text)}
                case _:
                    pass
    return end, version, on_record


def pieces_of(fd: int, start: int) -> Iterator[bytes]:
    while piece := os.pread(fd, MIB, start):
        yield piece
        start += len(piece)


def _without_beginning(folder: Path) -> str:
    if never_begun(folder / JOURNAL):
        return f"Task {folder.name} was never begun: its process ended first. Start it anew."
    return (
        f"The journal of task {folder.name} is damaged from its first line on, so the task cannot "
        f"be opened. Nothing of it was changed: put {folder} back from a backup, or delete it and "
        "start anew."
    )


def _report(folder: Path, on_record: set[str]) -> str:
    names = sorted(path.name for path in folder.iterdir() if _ASIDE.fullmatch(path.name))
    return " ".join(_sentence(folder / name) for name in names if name not in on_record)


def _sentence(aside: Path) -> str:
    found = _ASIDE.fullmatch(aside.name)
    assert found
    return (
        f"The end of this task's journal was damaged, so the task goes on from where it could "
        f"still be read. From byte {int(found[1]):,} on it no longer counts; those "
        f"{aside.stat().st_size:,} bytes are kept beside it in {aside.name}."
    )
