"""The list of a project's sessions on disk, `agent-manager.json`, and its lock.

The file is in the user's folder, not in the project, where sessions could change or restore it. One
manager writes it, under a lock that is released when its process ends; others only read. The lock
file does not name its holder, so the holder writes a note, valid only while the lock is held.

Unknown keys and unreadable entries are kept. A file that is not a session list is moved aside,
never overwritten.
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
SAVE_DELAY = 0.25
"""Changes within this time are saved together."""
_NOTE = "holder.json"
_PROJECT_NOTE = "project.json"
_LONGEST_NOTE = 4096
_ID_LENGTH = 16


class SessionStore:
    """The stored sessions of one project. Holds the lock until `close`."""

    def __init__(self, project: Path, folder: Path) -> None:
        """`folder` contains the file."""
        self.project = project.resolve()
        self.file = folder / STATE_FILE
        self.notices: list[str] = []
        """Problems with the file that the user should see, as sentences."""
        self.read_only = ""
        """Why nothing can be changed; empty if it can."""
        self.is_held_elsewhere = False
        """Read-only because another manager holds the lock, which may end."""
        self._lock = self._take_lock()
        self._content: dict[str, Any] = {}
        self._sessions: dict[str, SessionRecord] = {}
        self._changed_ids: set[str] = set()
        """Ids of sessions that changed since the last save."""
        self._changed = anyio.Event()
        self.unsaved = False
        self._load()

    def all(self) -> tuple[SessionRecord, ...]:
        return tuple(self._sessions.values())

    def put(self, record: SessionRecord) -> None:
        """Add or replace a record; it is saved soon."""
        self._sessions[record.session_id] = record
        self._changed_ids.add(record.session_id)
        self._change()

    def remove(self, session_id: str) -> None:
        if self._sessions.pop(session_id, None):
            self._content["sessions"].pop(session_id, None)
            self._change()

    def reload(self) -> None:
        """Read what another manager has saved, if this one is read-only."""
        if self.read_only:
            self._load()

    def save(self) -> None:
        """Save now. Raises `StorageError` if that fails; the file is then unchanged."""
        if not self.unsaved or self.read_only:
            return
        stored = self._content["sessions"]
        for session_id in self._changed_ids & self._sessions.keys():
            known = session_to_json(self._sessions[session_id])
            stored[session_id] = {**_object(stored.get(session_id)), **known}
        try:
            put(self.file, [_encode(self._content)])
        except OSError as error:
            raise StorageError(
                f"{self.file} cannot be written ({reason(error)}). What was saved "
                "before is kept. Free some space or make it writable."
            ) from error
        self._changed_ids.clear()
        self.unsaved = False
        kp("manager.saved")

    def save_if_possible(self) -> None:
        """Save now; a failure becomes a notice and is retried at the next change."""
        try:
            self.save()
        except StorageError as error:
            self._notice(str(error))

    async def save_when_changed(self) -> None:
        """Save changes in batches, forever."""
        while True:
            await self._changed.wait()
            await anyio.sleep(SAVE_DELAY)
            self._changed = anyio.Event()
            self.save_if_possible()

    def close(self) -> None:
        """Save, and release the lock."""
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

    def _take_lock(self) -> int:
        """Take the lock; -1 if that fails, with the reason in `read_only`."""
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
        self._sessions = {each.session_id: each for each in self._readable_records()}
        if self.read_only:
            self._notice(self.read_only)

    def _readable_records(self) -> Iterator[SessionRecord]:
        for key, data in self._content["sessions"].items():
            record = session_from_json(data) if is_session_id(key) else None
            if record and record.session_id == key:
                yield record
            else:
                self._notice(f"Session {key} in {self.file} cannot be read; it was not changed.")

    def _read(self) -> dict[str, Any] | None:
        """The file's content; None if there is no file or it is not a session list."""
        try:
            data = _read_file(self.file)
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
    """Read the records in a folder's list without taking its lock."""
    content: object = None
    with suppress(OSError, ValueError, RecursionError):
        content = json.loads(_read_file(folder / STATE_FILE))
    match content:
        case {"sessions": dict(stored)}:
            yield from filter(None, map(session_from_json, stored.values()))


def _read_file(path: Path) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        return file.read(LARGEST_FILE)


def _encode(content: object) -> bytes:
    try:
        return msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n"
    except UnicodeEncodeError:  # a lone surrogate, which only json.dumps escapes
        return json.dumps(content, indent=1).encode() + b"\n"


def _object(data: object) -> dict[str, Any]:
    return data if isinstance(data, dict) else {}


def manager_folder(places: Places, project: Path) -> Path:
    """The folder of a project's manager. It may not exist yet."""
    name = hashlib.sha256(os.fsencode(project.resolve())).hexdigest()[:_ID_LENGTH]
    return places.state / "manager" / name


def session_lists(places: Places) -> list[Path]:
    """The folders of all managers."""
    with suppress(OSError):
        return sorted(each for each in (places.state / "manager").iterdir() if _is_id(each.name))
    return []


def project_of(places: Places, project_id: str) -> Path | None:
    """The project with this id, which is the name of its manager's folder; None if unknown."""
    if not _is_id(project_id):
        return None
    with suppress(OSError, ValueError):
        noted = json.loads(_read_file(places.state / "manager" / project_id / _PROJECT_NOTE))
        match noted:
            case {"path": str(path)} if manager_folder(places, Path(path)).name == project_id:
                return Path(path)
    return None


def _is_id(name: str) -> bool:
    return len(name) == _ID_LENGTH and set(name) <= set("0123456789abcdef")


@contextmanager
def holder_note(places: Places, project: Path, called: str) -> Iterator[None]:
    """Write a note that this process, which must hold the lock, manages the project's sessions;
    and one, which stays, that says where the project is."""
    folder = manager_folder(places, project)
    private_folder(folder)
    note = folder / _NOTE
    with suppress(OSError):  # then the holder is unknown
        put(note, [json.dumps({"pid": os.getpid(), "called": called}).encode()])
        put(folder / _PROJECT_NOTE, [json.dumps({"path": str(project.resolve())}).encode()])
    try:
        yield
    finally:
        note.unlink(missing_ok=True)


def holder_of(places: Places, project: Path) -> str:
    """Who holds the lock of a project, as the subject of a sentence."""
    with suppress(OSError, ValueError):
        with (manager_folder(places, project) / _NOTE).open("rb") as file:
            noted = json.loads(file.read(_LONGEST_NOTE))
        match noted:
            case {"pid": int(pid), "called": str(called)}:
                return f"Process {pid} ({NAME} {called[:40]})"
    return "Another process"


async def wait_for_lock(places: Places, project: Path, *, within: float) -> bool:
    """Wait for the lock to be free; return False after `within` seconds."""
    over, done = os.pipe()
    # a daemon, because nothing can interrupt its wait when the program exits
    Thread(target=_block_on_lock, args=(places, project, done), daemon=True).start()
    try:
        with anyio.move_on_after(within):
            await anyio.wait_readable(over)
            return True
        return False
    finally:
        os.close(over)


def _block_on_lock(places: Places, project: Path, done: int) -> None:
    with suppress(OSError):
        descriptor = _open_lock_file(places, project)
        try:
            lock(descriptor)
        finally:
            os.close(descriptor)
    os.close(done)


def _open_lock_file(places: Places, project: Path) -> int:
    path = manager_folder(places, project) / f"{STATE_FILE}.lock"
    return open_lock(path, create=False)
