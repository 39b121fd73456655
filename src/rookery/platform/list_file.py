"""A short list of values in a file of the user's: private, replaced whole, shared by processes."""

import json
import os
import shlex
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from rookery.errors import StorageError
from rookery.platform.disk import private_folder, put, reason
from rookery.platform.locks import file_lock

LARGEST_FILE = 4 * 1024 * 1024

T = TypeVar("T")


class KeptList(Generic[T]):
    """Values of one class, oldest first. What others could have written is not believed."""

    def __init__(self, file: Path, kind: type[T]) -> None:
        self.file = file
        self._kind = kind

    def read(self) -> list[T]:
        """What is kept; nothing if there is no file. Raises `StorageError` if it cannot count."""
        try:
            data = self._data()
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise StorageError(f"{self.file} cannot be read ({reason(error)}).") from error
        try:
            # not msgspec's decoder: a path may hold bytes that are no text, which JSON can escape
            return msgspec.convert(json.loads(data), list[self._kind])  # type: ignore[name-defined]
        except (ValueError, RecursionError, msgspec.ValidationError) as error:
            raise StorageError(
                f"{self.file} is damaged, so nothing in it counts. Remove it and decide anew."
            ) from error

    @property
    def problem(self) -> str:
        """Why nothing that is kept counts, in a sentence; usually nothing."""
        try:
            self.read()
        except StorageError as error:
            return str(error)
        return ""

    def believed(self) -> list[T]:
        """What is kept; nothing if there is a `problem`."""
        with suppress(StorageError):
            return self.read()
        return []

    def update(self, change: Callable[[Sequence[T]], Sequence[T]]) -> None:
        """Keep what `change` makes of the list, whoever else is changing it. Raises
        `StorageError`, and then keeps what was there."""
        private_folder(self.file.parent)
        try:
            with file_lock(self.file.with_name(f"{self.file.name}.lock"), wait=None):
                kept = self.read()
                wanted = list(change(kept))
                if wanted != kept:
                    put(self.file, [_spelled(wanted)])
        except OSError as error:
            raise StorageError(f"{self.file} could not be written ({reason(error)}).") from error

    def _data(self) -> bytes:
        fd = os.open(self.file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as stream:
            self._insist_on_privacy(os.fstat(fd))
            return stream.read(LARGEST_FILE)

    def _insist_on_privacy(self, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise StorageError(
                f"{self.file} is no file of yours, so nothing in it counts; move it away."
            )
        if stat.S_IMODE(status.st_mode) & 0o077:
            raise StorageError(
                f"{self.file} is open to other users, so nothing in it counts; look through it, "
                f"then run: chmod 600 {shlex.quote(str(self.file))}"
            )


def _spelled(values: Sequence[object]) -> bytes:
    return (json.dumps(msgspec.to_builtins(values), indent=1) + "\n").encode()
