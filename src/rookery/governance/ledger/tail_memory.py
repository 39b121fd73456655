"""Remembers the active file's tail between appends and between processes (`.state/head.json`).

It only saves reading. What it remembers is believed if the file still has its last line there.
"""

import json
from pathlib import Path

from rookery.core.limits import MIB
from rookery.governance.ledger.active_file import ActiveFile
from rookery.governance.ledger.tail import LedgerTail
from rookery.platform.small_files import whole_file

_LARGEST = 64 * MIB


class TailMemory:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: tuple[int, LedgerTail] | None = None

    def tail_of(self, file: ActiveFile) -> LedgerTail:
        """The file up to its end, of which only what is new is read."""
        tail = _if_it_fits(self._known, file) or _if_it_fits(self._kept(), file) or LedgerTail()
        if tail.size < file.size:
            for line in file.lines_from(tail.size):
                tail.take(line)
        self._known = (file.inode, tail)
        return tail

    def keep(self) -> None:
        """Leave what is known to the next process."""
        if self._known:
            inode, tail = self._known
            unfinished = self._path.with_suffix(".unfinished")
            unfinished.unlink(missing_ok=True)  # it may be a link, and must lead nowhere
            with open(unfinished, "x", encoding="utf-8") as file:
                json.dump({"inode": inode, **tail.as_json()}, file)
            unfinished.replace(self._path)

    def forget(self) -> None:
        self._known = None
        self._path.unlink(missing_ok=True)

    def _kept(self) -> tuple[int, LedgerTail] | None:
        try:
            held = json.loads(whole_file(self._path, largest=_LARGEST))
            return int(held["inode"]), LedgerTail.from_json(held)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None  # a cache: without it, the file is read


def _if_it_fits(known: tuple[int, LedgerTail] | None, file: ActiveFile) -> LedgerTail | None:
    if known is None or known[0] != file.inode:
        return None
    tail = known[1]
    fits = tail.size <= file.size and file.holds(tail.last_line, at=tail.size - len(tail.last_line))
    return tail if fits else None
