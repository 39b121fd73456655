"""The files of a ledger: the active one and the sealed ones, plain or compressed.

Readers stream. From the end backwards a file is read block by block, so that the newest
records of a very long ledger come at once.
"""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

ACTIVE = "agent_trace.jsonl"
SEALED = "trace"
_BLOCK = 64 * 1024
_TIME = re.compile(r"[0-9TZ:.-]{10,40}")


def active_file(folder: Path) -> Path:
    return folder / ACTIVE


def sealed_files(folder: Path) -> list[Path]:
    """Oldest first. Of a segment that is there plain and compressed, the plain one."""
    found = sorted((folder / SEALED).glob("*.jsonl*"))
    plain = {path.name for path in found if path.suffix == ".jsonl"}
    return [
        path for path in found if path.name.removesuffix(".gz") not in plain or path.suffix != ".gz"
    ]


def segment_name(first_time: str, root: str) -> str:
    """Names sort by time, and hold no character that a file system refuses."""
    when = first_time if _TIME.fullmatch(first_time) else "unknown"
    return f"{when.replace(':', '')}-{root[:8]}.jsonl"


def lines(path: Path) -> Iterator[bytes]:
    """The lines of a file with their line ends."""
    with _opened(path) as file:
        yield from file


def lines_backwards(path: Path) -> Iterator[bytes]:
    """The same, last line first."""
    with _seekable(path) as file:
        at = file.seek(0, os.SEEK_END)
        rest = b""
        while at:
            size = min(_BLOCK, at)
            at -= size
            file.seek(at)
            pieces = (file.read(size) + rest).split(b"\n")
            rest = pieces[0]
            yield from (piece + b"\n" for piece in reversed(pieces[1:]) if piece)
        if rest:
            yield rest + b"\n"


def newest_first(folder: Path) -> Iterator[bytes]:
    """Every line of the ledger, from the last one of the active file on."""
    active = active_file(folder)
    if active.exists():
        yield from lines_backwards(active)
    for path in reversed(sealed_files(folder)):
        yield from lines_backwards(path)


def oldest_first(folder: Path) -> Iterator[bytes]:
    for path in sealed_files(folder):
        yield from lines(path)
    if active_file(folder).exists():
        yield from lines(active_file(folder))


def compress(path: Path) -> Path:
    """Replace a sealed file by a compressed one with the same content."""
    import gzip

    packed = path.with_name(path.name + ".gz")
    unfinished = packed.with_suffix(".unfinished")
    with open(path, "rb") as source, gzip.open(unfinished, "wb") as target:
        while block := source.read(_BLOCK):
            target.write(block)
    unfinished.replace(packed)
    path.unlink()
    return packed


@contextmanager
def _opened(path: Path) -> Iterator[Iterable[bytes]]:
    if path.suffix != ".gz":
        with open(path, "rb") as plain:
            yield plain
        return
    import gzip

    with gzip.open(path, "rb") as packed:
        yield packed


@contextmanager
def _seekable(path: Path) -> Iterator[IO[bytes]]:
    """A compressed file is unpacked beside, for it cannot be read backwards."""
    if path.suffix != ".gz":
        with open(path, "rb") as plain:
            yield plain
        return
    import gzip
    import tempfile

    with tempfile.TemporaryFile() as unpacked, gzip.open(path, "rb") as packed:
        while block := packed.read(_BLOCK):
            unpacked.write(block)
        yield unpacked
