"""Where a manager has its own files, and who has the sessions of a project open.

The lock that lets one manager write says that somebody has it, not who. So whoever has it leaves
a note, which counts only while the lock is held.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import anyio

from rookery import NAME
from rookery.manager.sessions.session_store import STATE_FILE
from rookery.platform.disk import private_folder, put
from rookery.platform.user_folders import Places

_NOTE = "holder.json"
_LONGEST_NOTE = 4096


def manager_folder(places: Places, project: Path) -> Path:
    """Where the manager of a project has its own files. It need not be there yet."""
    name = hashlib.sha256(os.fsencode(project.resolve())).hexdigest()[:16]
    return places.state / "manager" / name


@contextmanager
def held_by(places: Places, project: Path, called: str) -> Iterator[None]:
    """Notes that this process has the sessions of a project, which it must have."""
    folder = manager_folder(places, project)
    private_folder(folder)
    note = folder / _NOTE
    with suppress(OSError):  # then it is only not known who it is
        put(note, [json.dumps({"pid": os.getpid(), "called": called}).encode()])
    try:
        yield
    finally:
        note.unlink(missing_ok=True)


def holder_of(places: Places, project: Path) -> str:
    """Who has the sessions of a project, to be read in a sentence."""
    with suppress(OSError, ValueError):
        with (manager_folder(places, project) / _NOTE).open("rb") as file:
            noted = json.loads(file.read(_LONGEST_NOTE))
        match noted:
            case {"pid": int(pid), "called": str(called)}:
                return f"Process {pid} ({NAME} {called[:40]})"
    return "Another process"


def is_held(places: Places, project: Path) -> bool:
    """Whether somebody has the lock at this moment."""
    try:
        lock = _opened(places, project)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


async def freed(places: Places, project: Path, *, within: float) -> bool:
    """Whether the lock was free once within some seconds."""
    over, done = os.pipe()
    # of a kind that nobody waits for at the exit, because nothing ends its waiting
    Thread(target=_wait_for_the_lock, args=(places, project, done), daemon=True).start()
    try:
        with anyio.move_on_after(within):
            await anyio.wait_readable(over)
            return True
        return False
    finally:
        os.close(over)


def _wait_for_the_lock(places: Places, project: Path, done: int) -> None:
    with suppress(OSError):
        lock = _opened(places, project)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
        finally:
            os.close(lock)
    os.close(done)


def _opened(places: Places, project: Path) -> int:
    path = manager_folder(places, project) / f"{STATE_FILE}.lock"
    return os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
