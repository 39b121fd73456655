"""One writer per task, by a lock of the operating system's that dies with its holder."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from rookery.errors import StorageError
from rookery.platform.disk import PRIVATE_FILE, reason


class TaskLock:
    """Held from construction until `release`. Readers need none.

    The file beside the journal says who holds it, for whoever is refused; what it says
    means nothing once the lock is free.
    """

    def __init__(self, folder: Path) -> None:
        self._path = path = folder / "lock"
        try:
            self._fd = os.open(
                path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE
            )
        except FileNotFoundError as error:
            raise StorageError(f"There is no task {folder.name}.") from error
        except OSError as error:
            raise StorageError(
                f"Task {folder.name} cannot be worked on, because {path} cannot be written "
                f"({reason(error)}). Make its folder writable, or start a new task elsewhere."
            ) from error
        try:
            self._take(path)
        except BaseException:
            self.release()
            raise

    @property
    def in_place(self) -> bool:
        """Whether it still keeps others away: nobody has deleted or replaced its file."""
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
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not self.in_place:
                raise FileNotFoundError(path)
            self._sign()
        except BlockingIOError as error:
            raise StorageError(
                f"Task {task} is being worked on by {self._holder()}. Close it there first, or "
                "start a new task."
            ) from error
        except FileNotFoundError as error:
            raise StorageError(f"There is no task {task}.") from error  # just deleted
        except OSError as error:
            raise StorageError(
                f"Task {task} cannot be worked on, because {path} cannot be locked "
                f"({reason(error)})."
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
    """Whether somebody works on the task in the folder."""
    try:
        fd = os.open(folder / "lock", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False
