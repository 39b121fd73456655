"""The records that are appended from now on, as they come."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from rookery.governance.ledger.segments import active_file, open_ledger_file
from rookery.governance.ledger.traced import TracedRecord, records_on
from rookery.governance.ledger.verify_ledger import LONGEST_LINE

PAUSE = 0.5
"""Seconds between looks. Python has no way of its own to be told that a file grew, and whoever
watches a ledger does not mind half a second."""


def followed(folder: Path) -> Iterator[TracedRecord]:
    """For ever, from where the ledger ends when this is called. A file that is sealed is read to
    its end before the next one is."""
    path = active_file(folder)
    file = _opened(path)
    if file:
        file.seek(0, os.SEEK_END)
    return _from(file, path)


def _from(file: IO[bytes] | None, path: Path) -> Iterator[TracedRecord]:
    while True:
        if file:
            with file:
                yield from _appended(file, path)
        else:
            time.sleep(PAUSE)
        file = _opened(path)


def _opened(path: Path) -> IO[bytes] | None:
    try:
        return open_ledger_file(path)
    except FileNotFoundError:
        return None


def _appended(file: IO[bytes], path: Path) -> Iterator[TracedRecord]:
    """Until another file has taken the place of this one."""
    rest = b""
    while True:
        replaced = not _is_there(file, path)
        while block := file.readline(LONGEST_LINE):
            rest += block
            if rest.endswith(b"\n") or len(rest) >= LONGEST_LINE:
                yield from records_on(rest)
                rest = b""
        if replaced:
            return
        time.sleep(PAUSE)


def _is_there(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
