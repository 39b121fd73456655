"""Large texts beside a journal, each stored once in a file named by its SHA-256."""

import hashlib
from pathlib import Path

from rookery.core.limits import KIB
from rookery.platform.disk import private_folder, put, sync_folder

LARGEST_INLINE = 64 * KIB


class Blobs:
    """The blobs of one task. The folder is made when the first one comes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, data: bytes) -> str:
        """Durable when it returns; what it returns is the name to fetch it by."""
        name = hashlib.sha256(data).hexdigest()
        private_folder(self._folder)
        if self.fetch(name) is None:
            put(self._folder / name, [data])
        else:
            sync_folder(self._folder)  # whoever wrote it may have died before this
        return name

    def fetch(self, name: str) -> bytes | None:
        """What was kept, or None if it is missing or no longer what it was."""
        try:
            data = (self._folder / name).read_bytes()
        except OSError:
            return None
        return data if hashlib.sha256(data).hexdigest() == name else None
