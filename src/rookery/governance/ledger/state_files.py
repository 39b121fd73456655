"""Files next to the ledger: the state folder, its lock, signing keys, and known heads.

`.orchestration` itself is never created here: only a person puts a workspace under governance. A
clone may contain symbolic links, so they are not followed. A chain does not show that its end was
cut off; `KnownHeads`, which is stored outside the workspace, does.
"""

import errno
import json
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from rookery.errors import StorageError
from rookery.governance.layout import Layout, outside_folder
from rookery.governance.ledger.verify_ledger import (
    EMPTY_DIGEST,
    KnownHead,
    Tip,
    parse_head,
    state_id,
    tips_json,
)
from rookery.platform.disk import UnfitFile, whole_file, write_new
from rookery.platform.locks import lock_within, open_lock, try_lock

if TYPE_CHECKING:
    from rookery.governance.ledger.active_file import LedgerTail


class LedgerUnreadable(StorageError):
    """A file of the ledger is invalid. It may have come with a clone."""

    code = "TRC-001"

    def __init__(self, why: str) -> None:
        super().__init__(f"The ledger could not be read: {why}. Nothing in it was changed.")
        self.why = why


class LedgerUnwritable(StorageError):
    """Nothing could be recorded. The task's journal still has what was to be recorded."""

    code = "TRC-001"
    error_type = "trace_write_failed"


class LedgerBusy(LedgerUnwritable):
    """Another process held the lock for too long."""


def unwritable(why: str) -> LedgerUnwritable:
    return LedgerUnwritable(_sentence(why))


def busy(why: str) -> LedgerBusy:
    return LedgerBusy(_sentence(why))


def _sentence(why: str) -> str:
    return (
        f"The ledger could not be written ({why}). What the call did is kept in the task's journal "
        "and will be recorded as soon as the ledger can be written again."
    )


_LENGTH = 32
LOCK_TIMEOUT = 5.0
"""Seconds to wait for a lock."""
STATE = ".state"


def read_key(path: Path) -> bytes:
    """Read a key; empty if there is no valid, readable one."""
    try:
        return path.read_bytes() if _is_key(path) else b""
    except OSError:
        return b""


def read_or_create_key(path: Path) -> bytes:
    """Read a key, or create it."""
    if not _is_key(path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        create_once(path, secrets.token_bytes(_LENGTH), fits=_is_key, mode=0o600)
    return path.read_bytes()


@contextmanager
def exclusive(path: Path, *, wait: float = LOCK_TIMEOUT) -> Iterator[None]:
    """Hold a lock. The lock file is never removed: another process could then lock a second one."""
    fd = _open_lock_file(path)
    try:
        if not lock_within(fd, wait):
            raise busy(f"{path} is in use by another process")
        yield
    finally:
        os.close(fd)


def make_state_folder(folder: Path) -> None:
    """Create a folder in the state folder if it does not exist. Refuses symbolic links, which a
    repository may contain: nothing may be written where they lead."""
    if folder.name != STATE:
        make_state_folder(folder.parent)
    try:
        there = os.lstat(folder).st_mode
    except FileNotFoundError:
        folder.mkdir(exist_ok=True)
        return
    if stat.S_ISLNK(there):
        raise OSError(errno.ELOOP, f"{folder} is a symbolic link")
    if not stat.S_ISDIR(there):
        raise OSError(errno.ENOTDIR, f"{folder} is not a folder")


def create_once(path: Path, data: bytes, *, fits: Callable[[Path], bool], mode: int) -> None:
    """Create a file atomically, unless there is one that `fits`. If two processes try, the first
    wins. Raises OSError."""
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        write_new(fresh, [data], mode=mode, durable=False)
        with suppress(OSError):  # the path exists, or no hard links here
            os.link(fresh, path)
        if not fits(path):
            fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def _is_key(path: Path) -> bool:
    try:
        return path.stat().st_size == _LENGTH
    except FileNotFoundError:
        return False


def _open_lock_file(path: Path) -> int:
    try:
        make_state_folder(path.parent)
        return open_lock(path)
    except OSError as error:
        raise unwritable(error.strerror or str(error)) from error


HEADS = "heads.json"
MAX_ABSENT = 64
"""Maximum remembered tips that the file does not hold, such as those of another branch."""
_BLOCK = 1024
_ID = re.compile(r"[0-9a-f]{16}")


def workspace_key(state: Path, root: Path, outside: Path) -> str:
    """Name of the workspace's folder in `outside`: a random id from its state folder, and a hash of
    its path. A copied workspace gets another name. A lost or changed id is restored from what is
    known of the path; otherwise deleting the id would hide that the ledger's end was cut off."""
    path = state / "workspace_id"
    where = sha256(os.fsencode(root.resolve())).hexdigest()[:16]
    own = _own_id(path)
    if own and (outside / f"{own}-{where}").is_dir():
        return f"{own}-{where}"
    known = _known_id(outside, where)
    if known or not own:
        own = _write_id(path, known)
    return f"{own}-{where}"


def _own_id(path: Path) -> str:
    try:
        own = whole_file(path, largest=_BLOCK).decode("ascii", "replace").strip()
    except (FileNotFoundError, UnfitFile):
        return ""
    return own if _ID.fullmatch(own) else ""


def _known_id(outside: Path, where: str) -> str:
    """Id of the workspace that was last used at that path."""
    found = [path for path in outside.glob(f"*-{where}") if _ID.fullmatch(path.name[:16])]
    newest = max(found, key=_last_update, default=None)
    return newest.name[:16] if newest else ""


def _last_update(folder: Path) -> float:
    try:
        return (folder / HEADS).stat().st_mtime
    except OSError:
        return 0


def _write_id(path: Path, known: str) -> str:
    """Write the known id, or a new one, into the workspace, replacing what is there."""

    def fits(there: Path) -> bool:
        own = _own_id(there)
        return own == known if known else bool(own)

    try:
        make_state_folder(path.parent)
        wanted = known or secrets.token_hex(8)
        create_once(path, f"{wanted}\n".encode(), fits=fits, mode=0o644)
    except IsADirectoryError as error:
        raise LedgerUnreadable(f"{path} is not a regular file; move it away") from error
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):  # a read-only folder can still be read
            raise
        raise LedgerUnreadable(error.strerror or str(error)) from error
    return _own_id(path)


def known_heads(layout: Layout, outside: Path) -> "KnownHeads":
    """The known heads of a workspace's ledger, stored in `outside`."""
    return KnownHeads(outside_folder(layout, outside) / HEADS)


class KnownHeads:
    """The last known state of a ledger, updated after every append under the ledger's lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.journal_key = path.with_name("journal.key")
        """The key that signed entries in the call journal of earlier versions."""
        self.open_tasks = path.with_name("open_tasks")
        """Folder with a file for each task that may have unrecorded calls."""
        self.trace_key = path.with_name("trace.key")
        """The key that signs records."""

    @property
    def trace_keys(self) -> list[bytes]:
        """The keys of all workspaces of this user: a ledger may hold records of several clones."""
        found = self.path.parent.parent.glob(f"*/{self.trace_key.name}")
        return [key for path in found if (key := read_key(path))]

    def read(self) -> KnownHead | None:
        """What is known, or None. Raises ValueError if the file is invalid."""
        try:
            return parse_head(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None

    def note(self, tail: "LedgerTail") -> None:
        """Remember the ledger's current state, and the known tips that it no longer holds."""
        try:
            before = self.read()
        except ValueError:
            before = None
        lost = [tip for tip in before.tips if not tail.covers(tip)][-MAX_ABSENT:] if before else []
        self._write(_heads_json((*tail.tips, *lost), tail))

    def accept(self, tail: "LedgerTail") -> None:
        """Forget tips that the ledger no longer holds. Only a person decides this."""
        self._write(_heads_json(tail.tips, tail))

    def _write(self, text: str) -> None:
        """Overwrite the file in place, in one call. Replacing it would make some file systems
        flush it, which costs more than the append itself."""
        data = text.encode()
        data += b" " * (-(len(data) + 1) % _BLOCK) + b"\n"
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(fd, data, 0)
            if os.fstat(fd).st_size != len(data):
                os.ftruncate(fd, len(data))
        finally:
            os.close(fd)


class OpenTasks:
    """Tasks that may have unrecorded calls. The file of each holds the last event up to which
    all calls are recorded, and the number of journal lines known to be lost. The process that
    works on a task locks its file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[str, int] = {}

    @property
    def exists(self) -> bool:
        return self._folder.is_dir()

    def names(self) -> list[str]:
        try:
            return [path.name for path in self._folder.iterdir()]
        except OSError:
            return []

    def since(self, task_id: str) -> int:
        """The event up to which all calls of the task are recorded."""
        return self._read(task_id)[0]

    def lost(self, task_id: str) -> int:
        return self._read(task_id)[1]

    def _read(self, task_id: str) -> tuple[int, int]:
        try:
            since, *lost = map(int, (self._folder / task_id).read_text(encoding="ascii").split())
        except (OSError, ValueError):
            return 0, 0
        return since, lost[0] if lost else 0

    def is_held(self, task_id: str) -> bool:
        """Whether a process works on the task, or still has to record what it did."""
        try:
            fd = open_lock(self._folder / task_id, create=False)
        except OSError:
            return False
        try:
            return not try_lock(fd, shared=True)
        finally:
            os.close(fd)

    def holds(self, task_id: str) -> bool:
        return task_id in self._held

    def open(self, task_id: str, since: int, lost: int) -> None:
        """Mark the task as open and lock its file. Raises OSError."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._release(task_id)
        fd = open_lock(self._folder / task_id)
        self._held[task_id] = fd
        lock_within(fd, LOCK_TIMEOUT)  # other processes lock it only to test it
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{since} {lost}".encode() if lost else str(since).encode(), 0)

    def close(self, task_id: str) -> None:
        with suppress(OSError):
            (self._folder / task_id).unlink(missing_ok=True)
        self._release(task_id)

    def _release(self, task_id: str) -> None:
        if (fd := self._held.pop(task_id, None)) is not None:
            os.close(fd)


def _heads_json(tips: tuple[Tip, ...], tail: "LedgerTail") -> str:
    # a file that was just sealed is replaced by an empty one
    size, digest = (0, EMPTY_DIGEST) if tail.ends_with_seal else (tail.size, tail.digest)
    head = {
        "schema": 1,
        "tips": tips_json(sorted(set(tips))),
        "records": tail.sealed_records + tail.records,
        "file": {
            "size": size,
            "digest": digest.hex(),
            "state": state_id(tail.tips),
        },
        "time": tail.last_time,
    }
    return json.dumps(head)
