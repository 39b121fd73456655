"""A note of where the server is, while it is there. There is no secret in it."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rookery.errors import StorageError
from rookery.manager.sessions.session_process import born
from rookery.platform.disk import PRIVATE_FILE, private_folder, reason

NAME_OF_FILE = "server.json"
_LONGEST = 4096


@contextmanager
def noted(folder: Path, port: int) -> Iterator[None]:
    """One that a process left that is not there any more is replaced, and only such a one."""
    path = private_folder(folder) / NAME_OF_FILE
    note = {"port": port, "pid": os.getpid(), "born": born(os.getpid())}
    if running_at(folder) is None:
        path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(path, flags, PRIVATE_FILE), "w", encoding="ascii") as file:
            json.dump(note, file)
    except OSError as error:
        raise StorageError(f"{path} cannot be written ({reason(error)}).") from error
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def running_at(folder: Path) -> int | None:
    """The port of a server that is there: its number may be another process's by now, so the
    moment counts at which it began."""
    with suppress(OSError, ValueError):
        descriptor = os.open(folder / NAME_OF_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(descriptor, encoding="ascii") as file:
            said = json.loads(file.read(_LONGEST))
        match said:
            case {"port": int(port), "pid": int(pid), "born": int(began)}:
                return port if began == born(pid) and _exists(pid) else None
    return None


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (OSError, OverflowError):
        return False
    return True
