"""The ledger's active file while its lock is held: mended, read on, and appended to."""

import os
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from rookery.core.limits import MIB
from rookery.faults import kp
from rookery.governance.ledger.segments import LARGEST_FILE
from rookery.governance.ledger.state_folder import make_state_folder
from rookery.governance.ledger.verify_ledger import (
    LONGEST_LINE,
    bounded_lines,
    decoded_objects,
    leaf_hash,
    own_part,
)
from rookery.platform.small_files import UnfitFile, regular_file

_BLOCK = 256 * 1024


class ActiveFile:
    def __init__(self, path: Path) -> None:
        """Raises OSError, and so for what is no file of a ledger: it may have come with a clone."""
        self.path = path
        self.fd = regular_file(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        found = os.fstat(self.fd)
        self.inode, self.size = found.st_ino, found.st_size
        if self.size > LARGEST_FILE:
            self.close()
            raise UnfitFile(path, f"holds more than {LARGEST_FILE // MIB} MiB")

    def close(self) -> None:
        os.close(self.fd)

    def holds(self, line: bytes, *, at: int) -> bool:
        return at >= 0 and os.pread(self.fd, len(line), at) == line

    def lines_from(self, offset: int) -> Iterator[bytes]:
        """The whole lines from there to the end."""
        with open(os.dup(self.fd), "rb") as file:
            file.seek(offset)
            yield from bounded_lines(file.readline)

    def append(self, data: bytes) -> None:
        """All of it, in one call if the system takes it. After a failure, undo."""
        left = memoryview(data)
        while left:
            left = left[os.write(self.fd, left) :]
            kp("ledger.written")
        self.size += len(data)

    def undo(self, size: int) -> None:
        """Take back what was written beyond the size. What cannot be taken back is a torn line,
        which the next writer mends."""
        with suppress(OSError):
            os.ftruncate(self.fd, size)
            self.size = size

    def mend(self, quarantine: Path) -> dict[str, Any] | None:
        """Complete the last line, or move it away if it is no whole record.

        Returns what a repair record says of it.
        """
        if not self.size or os.pread(self.fd, 1, self.size - 1) == b"\n":
            return None
        start = self._last_line_start()
        fragment = os.pread(self.fd, self.size - start, start)
        if _is_whole(fragment):
            self.append(b"\n")
            return None
        digest = sha256(fragment).hexdigest()
        make_state_folder(quarantine)
        kept = quarantine / f"{digest[:16]}.txt"
        kept.write_bytes(fragment)
        kp("ledger.quarantined")
        os.ftruncate(self.fd, start)
        self.size = start
        return {"bytes": len(fragment), "sha256": digest, "kept": kept.name}

    def _last_line_start(self) -> int:
        at = self.size
        while at:
            if self.size - at > LONGEST_LINE:
                raise UnfitFile(self.path, "ends with a line that is longer than any record")
            size = min(_BLOCK, at)
            at -= size
            found = os.pread(self.fd, size, at).rfind(b"\n")
            if found >= 0:
                return at + found + 1
        return 0


def _is_whole(fragment: bytes) -> bool:
    try:
        objects = list(decoded_objects(fragment.decode("utf-8")))
        return bool(objects) and all(_verifies(record) for record in objects)
    except (ValueError, RecursionError):
        return False


def _verifies(record: Any) -> bool:
    own = own_part(record)
    return own is not None and leaf_hash(record) == own["hash"]
