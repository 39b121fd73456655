"""The list of a project's sessions on disk, `agent-manager.json`, and who has it open.

It lies in the user's folder, not in the project, where sessions would change and restore it. One
manager writes it, under a lock that dies with it; the others only read. The lock does not say who
has it, so its holder leaves a note, which counts only while the lock is held.

Unknown keys and entries that cannot be understood are kept as they are. A file that is no list is
moved aside, never overwritten.
"""

import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any

import anyio
import msgspec

from rookery import NAME
from rookery.core.limits import MIB
from rookery.errors import StorageError
from rookery.faults import kp
from rookery.manager.sessions.session_folders import is_session_id
from rookery.manager.sessions.session_record import (
    SessionRecord,
    session_from_json,
    session_to_json,
)
from rookery.platform.disk import UNFINISHED, private_folder, put, reason
from rookery.platform.locks import lock, open_lock, try_lock
from rookery.platform.user_folders import Places

STATE_FILE = "agent-manager.json"
VERSION = 1
LARGEST_FILE = 256 * MIB
SECONDS_TO_GATHER = 0.25
"""What changes within that time is saved together."""
_NOTE = "holder.json"
_LONGEST_NOTE = 4096


class SessionStore:
    """The sessions of one project, as they are kept. Open until `close`."""

    def __init__(self, project: Path, folder: Path) -> None:
        """`folder` is where it is kept."""
        self.project = project.resolve()
        self.file = folder / STATE_FILE
        self.notices: list[str] = []
        """What the user should know of the file, in sentences."""
        self.read_only = ""
        """Why nothing can be changed, if so."""
        self.is_held_elsewhere = False
        """Because another manager writes, which may leave."""
        self._lock = self._locked()
        self._content: dict[str, Any] = {}
        self._sessions: dict[str, SessionRecord] = {}
        self._respelled: set[str] = set()
        """Which are not in the file as they are now."""
        self._changed = anyio.Event()
        self.unsaved = False
        self._load()

    def all(self) -> tuple[SessionRecord, ...]:
        return tuple(self._sessions.values())

    def put(self, record: SessionRecord) -> None:
        """To be saved soon."""
        self._sessions[record.session_id] = record
        self._respelled.add(record.session_id)
        self._change()

    def remove(self, session_id: str) -> None:
        if self._sessions.pop(session_id, None):
            self._content["sessions"].pop(session_id, None)
            self._change()

    def reload(self) -> None:
        """What another manager has saved meanwhile."""
        if self.read_only:
            self._load()

    def save(self) -> None:
        """Now. Raises `StorageError`, and then what was saved before is still there."""
        if not self.unsaved or self.read_only:
            return
        there = self._content["sessions"]
        for session_id in self._respelled & self._sessions.keys():
            known = session_to_json(self._sessions[session_id])
            there[session_id] = {**_object(there.get(session_id)), **known}
        try:
            put(self.file, [_spelled(self._content)])
        except OSError as error:
            raise StorageError(
                f"{self.file} cannot be written ({reason(error)}). What was saved "
                "before is kept. Free some space or make it writable."
            ) from error
        self._respelled.clear()
        self.unsaved = False
        kp("manager.saved")

    def save_if_possible(self) -> None:
        """Now; if that cannot be, there is a notice, and it is tried again at the next change."""
        try:
            self.save()
        except StorageError as error:
            self._notice(str(error))

    async def save_when_changed(self) -> None:
        """For ever. Changes that come together are saved together."""
        while True:
            await self._changed.wait()
            await anyio.sleep(SECONDS_TO_GATHER)
            self._changed = anyio.Event()
            self.save_if_possible()

    def close(self) -> None:
        """Saves what is unsaved and lets another manager write."""
        try:
            self.save()
        finally:
            lock, self._lock = self._lock, -1
            if lock >= 0:
                os.close(lock)

    def _change(self) -> None:
        self.unsaved = True
        self._changed.set()

    def _notice(self, sentence: str) -> None:
        if sentence not in self.notices:
            self.notices.append(sentence)

    def _locked(self) -> int:
        """The lock that lets us write, or -1 with the reason in `read_only`."""
        path = self.file.with_name(f"{STATE_FILE}.lock")
        try:
            if path.parent.is_symlink():
                raise NotADirectoryError(f"{path.parent} is a link")
            private_folder(path.parent)
            lock = open_lock(path)
            is_ours = try_lock(lock)
        except OSError as error:
            self.read_only = f"Sessions cannot be changed here: {path} ({reason(error)})."
            return -1
        if not is_ours:
            os.close(lock)
            self.is_held_elsewhere = True
            self.read_only = (
                "Another manager of this project is running, so sessions are "
                "read-only here. Use that one, or end it."
            )
            return -1
        for left in path.parent.glob(f"{STATE_FILE}.*{UNFINISHED}"):
            left.unlink(missing_ok=True)
        return lock

    def _load(self) -> None:
        content = self._read()
        if content is None:
            content = {"version": VERSION, "sessions": {}}
        if content["version"] > VERSION and not self.read_only:
            self.read_only = (
                f"{self.file} was written by a later version and is read-only here. "
                "Upgrade to change anything."
            )
        self._content = content
        self._sessions = {each.session_id: each for each in self._understood()}
        if self.read_only:
            self._notice(self.read_only)

    def _understood(self) -> Iterator[SessionRecord]:
        for key, said in self._content["sessions"].items():
            record = session_from_json(said) if is_session_id(key) else None
            if record and record.session_id == key:
                yield record
            else:
                self._notice(f"Session {key} in {self.file} cannot be read; it was not changed.")

    def _read(self) -> dict[str, Any] | None:
        """What the file holds; None if there is none, or none that counts."""
        try:
            fd = os.open(self.file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
            with open(fd, "rb") as file:
                data = file.read(LARGEST_FILE)
        except FileNotFoundError:
            return None
        except OSError as error:
            self.read_only = self.read_only or f"{self.file} cannot be read ({reason(error)})."
            return None
        with suppress(ValueError, RecursionError):
            match json.loads(data):
                case {"version": int(), "sessions": {}, **rest} as content:
                    return {**rest, **content}
                case {"version": int(), **rest} as content if "sessions" not in rest:
                    return {**content, "sessions": {}}
        self._move_aside()
        return None

    def _move_aside(self) -> None:
        if self.read_only:
            self._notice(f"{self.file} is damaged.")
            return
        aside = self.file.with_name(f"{STATE_FILE}.corrupt-{time.time_ns() // 1_000_000}")
        try:
            self.file.rename(aside)
        except OSError as error:
            self.read_only = f"{self.file} is damaged and cannot be moved ({reason(error)})."
            return
        self._notice(
            f"{self.file} was damaged. It was moved to {aside.name}, and the list was "
            "rebuilt from the sessions."
        )


def records_in(folder: Path) -> Iterator[SessionRecord]:
    """The sessions that the list in a folder has, for whoever does not want to open it."""
    content: object = None
    with suppress(OSError, ValueError, RecursionError):
        fd = os.open(folder / STATE_FILE, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        with open(fd, "rb") as file:
            content = json.loads(file.read(LARGEST_FILE))
    match content:
        case {"sessions": dict(there)}:
            yield from filter(None, map(session_from_json, there.values()))


def _spelled(content: object) -> bytes:
    try:
        return msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n"
    except UnicodeEncodeError:  # half of a surrogate pair, which only this one can escape
        return json.dumps(content, indent=1).encode() + b"\n"


def _object(said: object) -> dict[str, Any]:
    return said if isinstance(said, dict) else {}


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
        descriptor = _opened(places, project)
        try:
            lock(descriptor)
        finally:
            os.close(descriptor)
    os.close(done)


def _opened(places: Places, project: Path) -> int:
    path = manager_folder(places, project) / f"{STATE_FILE}.lock"
    return open_lock(path, create=False)
