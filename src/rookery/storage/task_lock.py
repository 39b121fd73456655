"""The lock of a task: one process writes its journal.

The operating system releases it when that process dies.
"""

import os
from contextlib import suppress
from pathlib import Path

from rookery.errors import StorageError
from rookery.platform.disk import reason
from rookery.platform.locks import lock_within, open_lock, try_lock

SECONDS_OF_A_LOOK = 0.25
"""Longer than `is_locked` takes, which holds the lock for a moment."""


class TaskLock:
    """Held from construction until `release`. Readers need none.

    The file beside the journal says who holds the lock, for error messages. It means nothing once
    the lock is free.
    """

    def __init__(self, folder: Path) -> None:
        self._path = path = folder / "lock"
        try:
            self._fd = open_lock(path)
        except FileNotFoundError as error:
            raise StorageError(f"No such session: {folder.name}.") from error
        except OSError as error:
            raise StorageError(
                f"Session {folder.name} cannot be opened: {path} is not writable "
                f"({reason(error)}). Make its folder writable, or start a new session "
                "elsewhere."
            ) from error
        try:
            self._take(path)
        except BaseException:
            self.release()
            raise

    @property
    def in_place(self) -> bool:
        """Whether the lock file has not been deleted or replaced."""
        try:
            return os.path.samestat(os.fstat(self._fd), self._path.stat())
        except OSError:
            return False

    def release(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _take(self, path: Path) -> None:
        task = path.parent.name
        try:
            if not lock_within(self._fd, SECONDS_OF_A_LOOK):
                raise StorageError(
                    f"Session {task} is open in {self._holder()}. Close it there, or start another."
                )
            if not self.in_place:
                raise FileNotFoundError(path)
            self._sign()
        except FileNotFoundError as error:
            raise StorageError(f"No such session: {task}.") from error  # just deleted
        except OSError as error:
            raise StorageError(
                f"Session {task} cannot be opened: {path} cannot be locked ({reason(error)})."
            ) from error

    def _sign(self) -> None:
        name = f"{os.getpid()} {os.uname().nodename}\n".encode()
        with suppress(OSError):  # a courtesy: a full disk must not keep a task from being deleted
            os.pwrite(self._fd, name, 0)
            os.ftruncate(self._fd, len(name))

    def _holder(self) -> str:
        pid, _, host = os.pread(self._fd, 300, 0).decode(errors="replace").strip().partition(" ")
        return f"process {pid} on {host}" if pid.isdecimal() else "another process"


def is_locked(folder: Path) -> bool:
    """Whether a process works on the task in the folder."""
    try:
        fd = os.open(folder / "lock", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not try_lock(fd, shared=True)
    finally:
        os.close(fd)
