"""What the ledger keeps beside itself: the state folder, its lock, keys, and known heads.

`.orchestration` itself is never made here: only a person puts a workspace under governance. A clone
may bring links, so they are not followed. A chain does not show that its end was cut off; what this
machine remembers of it outside the workspace (`KnownHeads`) does.
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
from rookery.governance.ledger.verify_ledger import NO_BYTES, KnownHead, Tip, known_head, state_id
from rookery.platform.disk import UnfitFile, whole_file, write_new
from rookery.platform.locks import lock_within, open_lock, try_lock

if TYPE_CHECKING:
    from rookery.governance.ledger.active_file import LedgerTail


class LedgerUnreadable(StorageError):
    """A file of the ledger is none that a ledger has. It may have come with a clone."""

    code = "TRC-001"

    def __init__(self, why: str) -> None:
        super().__init__(f"The ledger could not be read: {why}. Nothing in it was changed.")
        self.why = why


class LedgerUnwritable(StorageError):
    """Nothing could be recorded now. The task's journal still says what was to be recorded."""

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
WAIT = 5.0
"""Seconds after which somebody who holds the lock is not waited for any longer."""
STATE = ".state"


def key_at(path: Path) -> bytes:
    """The key that lies there; empty if there is none that can be read."""
    try:
        return path.read_bytes() if _fits(path) else b""
    except OSError:
        return b""


def kept_key(path: Path) -> bytes:
    """The key that lies there, or a new one."""
    if not _fits(path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        made_once(path, secrets.token_bytes(_LENGTH), fits=_fits, mode=0o600)
    return path.read_bytes()


@contextmanager
def exclusive(path: Path, *, wait: float = WAIT) -> Iterator[None]:
    """Hold the lock. Its file is never removed: a second one would be a second lock."""
    fd = _opened(path)
    try:
        if not lock_within(fd, wait):
            raise busy(f"{path} is in use by another process")
        yield
    finally:
        os.close(fd)


def make_state_folder(folder: Path) -> None:
    """Make a folder in the state folder, if it is not there. A repository may bring symbolic
    links, and what is written here must not go where they lead."""
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


def made_once(path: Path, data: bytes, *, fits: Callable[[Path], bool], mode: int) -> None:
    """Put it there, whole, unless one that fits is there. Of two processes the second leaves the
    first one's. Raises OSError."""
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        write_new(fresh, [data], mode=mode, durable=False)
        with suppress(OSError):  # something is there, or the file system knows no links
            os.link(fresh, path)
        if not fits(path):
            fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def _fits(path: Path) -> bool:
    try:
        return path.stat().st_size == _LENGTH
    except FileNotFoundError:
        return False


def _opened(path: Path) -> int:
    try:
        make_state_folder(path.parent)
        return open_lock(path)
    except OSError as error:
        raise unwritable(error.strerror or str(error)) from error


HEADS = "heads.json"
ABSENT = 64
"""Tips that are remembered though the file does not hold them: of a branch that is elsewhere."""
_BLOCK = 1024
_ID = re.compile(r"[0-9a-f]{16}")


def workspace_key(state: Path, root: Path, kept: Path) -> str:
    """The name under which a workspace is known in `kept`: a random id that lies in its state
    folder, and where it is. A copied workspace is another one. An id that is lost, or that says
    something new, is put right by what is known of the place: who could make a ledger a new one
    by it could cut its end unseen."""
    path = state / "workspace_id"
    where = sha256(os.fsencode(root.resolve())).hexdigest()[:16]
    own = _own_id(path)
    if own and (kept / f"{own}-{where}").is_dir():
        return f"{own}-{where}"
    known = _known_id(kept, where)
    if known or not own:
        own = _given(path, known)
    return f"{own}-{where}"


def _own_id(path: Path) -> str:
    try:
        own = whole_file(path, largest=_BLOCK).decode("ascii", "replace").strip()
    except (FileNotFoundError, UnfitFile):
        return ""
    return own if _ID.fullmatch(own) else ""


def _known_id(kept: Path, where: str) -> str:
    """Of the workspace that was last at work there."""
    found = [path for path in kept.glob(f"*-{where}") if _ID.fullmatch(path.name[:16])]
    newest = max(found, key=_last_noted, default=None)
    return newest.name[:16] if newest else ""


def _last_noted(folder: Path) -> float:
    try:
        return (folder / HEADS).stat().st_mtime
    except OSError:
        return 0


def _given(path: Path, known: str) -> str:
    """Write the known id, or a new one, into the workspace in place of whatever is there."""

    def fits(there: Path) -> bool:
        own = _own_id(there)
        return own == known if known else bool(own)

    try:
        make_state_folder(path.parent)
        wanted = known or secrets.token_hex(8)
        made_once(path, f"{wanted}\n".encode(), fits=fits, mode=0o644)
    except IsADirectoryError as error:
        raise LedgerUnreadable(f"{path} is not a regular file; move it away") from error
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):  # a read-only folder can be looked at
            raise
        raise LedgerUnreadable(error.strerror or str(error)) from error
    return _own_id(path)


def heads_of_workspace(state: Path, root: Path, kept: Path) -> "KnownHeads":
    """What is remembered in `kept` of the ledger of the workspace at `root`."""
    return KnownHeads(kept / workspace_key(state, root, kept) / HEADS)


class KnownHeads:
    """Written by whoever holds the ledger's lock, after every append."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def index(self) -> Path:
        """Where an index of the ledger lies: budgets are counted by it, so no agent may reach it
        either."""
        return self.path.with_name("index.sqlite3")

    @property
    def journal_key(self) -> Path:
        """What proves that an entry in the call journal of an earlier version was written here."""
        return self.path.with_name("journal.key")

    @property
    def open_tasks(self) -> Path:
        """A folder with a file for each task whose calls may not all be on record."""
        return self.path.with_name("open_tasks")

    @property
    def trace_key(self) -> Path:
        """What records are signed with."""
        return self.path.with_name("trace.key")

    @property
    def trace_keys(self) -> list[bytes]:
        """Those of all workspaces of this user: a ledger may hold records of several clones."""
        found = self.path.parent.parent.glob(f"*/{self.trace_key.name}")
        return [key for path in found if (key := key_at(path))]

    def read(self) -> KnownHead | None:
        """What is known, or None. Raises ValueError if the file says nothing that can be used."""
        try:
            return known_head(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None

    def note(self, tail: "LedgerTail") -> None:
        """Remember the ledger as it is now, and those tips that it no longer holds."""
        try:
            before = self.read()
        except ValueError:
            before = None
        lost = [tip for tip in before.tips if not tail.covers(tip)][-ABSENT:] if before else []
        self._write(_text((*tail.tips, *lost), tail))

    def accept(self, tail: "LedgerTail") -> None:
        """Take the ledger as it is: forget what it no longer holds. Only a person decides this."""
        self._write(_text(tail.tips, tail))

    def _write(self, text: str) -> None:
        """In place, in one call: to replace the file would make some file systems flush it,
        which costs more than the append it is about."""
        held = text.encode()
        held += b" " * (-(len(held) + 1) % _BLOCK) + b"\n"
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(fd, held, 0)
            if os.fstat(fd).st_size != len(held):
                os.ftruncate(fd, len(held))
        finally:
            os.close(fd)


class OpenTasks:
    """The tasks whose calls may not all be on record. The file of each says after which event such
    calls may be. Who works on a task holds its file, wherever the task's journal is."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[str, int] = {}

    @property
    def are_known(self) -> bool:
        return self._folder.is_dir()

    def names(self) -> list[str]:
        try:
            return [path.name for path in self._folder.iterdir()]
        except OSError:
            return []

    def since(self, task_id: str) -> int:
        """All calls up to this event are on record, or are those of another task."""
        try:
            return int((self._folder / task_id).read_text(encoding="ascii"))
        except (OSError, ValueError):
            return 0

    def is_held(self, task_id: str) -> bool:
        """Whether a process works on it, or has yet to record what it did."""
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

    def open(self, task_id: str, since: int) -> None:
        """Raises OSError."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._let_go(task_id)
        fd = open_lock(self._folder / task_id)
        self._held[task_id] = fd
        lock_within(fd, WAIT)  # others only look
        os.ftruncate(fd, 0)
        os.pwrite(fd, str(since).encode(), 0)

    def close(self, task_id: str) -> None:
        with suppress(OSError):
            (self._folder / task_id).unlink(missing_ok=True)
        self._let_go(task_id)

    def _let_go(self, task_id: str) -> None:
        if (fd := self._held.pop(task_id, None)) is not None:
            os.close(fd)


def _text(tips: tuple[Tip, ...], tail: "LedgerTail") -> str:
    # a file that was just sealed moves away, and an empty one takes its place
    size, digest = (0, NO_BYTES) if tail.ends_with_seal else (tail.size, tail.digest)
    held = {
        "schema": 1,
        "tips": [{"stream": a, "seq": b, "hash": c} for a, b, c in sorted(set(tips))],
        "records": tail.sealed_records + tail.records,
        "file": {
            "size": size,
            "digest": digest.hex(),
            "state": state_id(tail.tips),
        },
        "time": tail.last_time,
    }
    return json.dumps(held)
