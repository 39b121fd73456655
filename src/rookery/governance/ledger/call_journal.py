"""Calls that were begun: written before anything changes, gone once the ledger tells of them.

Whatever is left when nobody alive has begun it was cut off by a crash; recovery compares it with
the disk and records what really happened. A journal may have come with a clone: only what bears
the mark of this workspace's key is believed, and everything else is put away unread.
"""

import errno
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins

from rookery.faults import kp
from rookery.governance.ledger.ledger_errors import unwritable
from rookery.governance.ledger.records import FileHash, new_ulid
from rookery.governance.ledger.state_files import MARK, JournalKey, make_state_folder
from rookery.platform.disk import UnfitFile, regular_file

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")


class Target(Struct, frozen=True, kw_only=True):
    """A file that a call is about to touch, as it is before. None: there is no such file."""

    path: str
    before: FileHash | None = None


class BegunCall(Struct, frozen=True, kw_only=True):
    """What is known of a call before it is made."""

    task_id: str
    tool_use_id: str
    tool_name: str
    input_digest: str = ""
    parent_task_id: str = ""
    intent_id: str = ""
    intent_rev: int | None = None
    intent_digest: str = ""
    scope: str = ""
    targets: tuple[Target, ...] = ()
    unknown_targets: bool = False
    """It may touch more than is named: a command, say."""


class LeftOver(Struct, frozen=True, kw_only=True):
    """A call that was begun by a process that is gone."""

    file: Path
    call: BegunCall


class PutAway(Struct, frozen=True, kw_only=True):
    """What was in the journal and nobody here wrote. It lies in the quarantine now."""

    file: Path


class CallJournal:
    def __init__(self, folder: Path, key: JournalKey, *, flush: bool = True) -> None:
        self._folder = folder
        self._key = key
        self._flush = flush
        self._owner = {"pid": os.getpid(), "born": birth_of(os.getpid()), "where": _where()}

    def begin(self, call: BegunCall) -> None:
        """The call is on the medium when this returns. Raises LedgerUnwritable if it cannot be:
        then the call must not be made."""
        said = {**to_builtins(call), "owner": self._owner}
        try:
            make_state_folder(self._folder)
            self._write(self._path(call), self._key.marked(said))
        except OSError as error:
            raise unwritable(error.strerror or str(error)) from error
        kp("call_journal.begun")

    def end(self, call: BegunCall) -> None:
        """The ledger tells of the call, or it was never made."""
        self._path(call).unlink(missing_ok=True)
        kp("call_journal.ended")

    def left_over(self) -> Iterator[LeftOver | PutAway]:
        """The calls of processes that are gone. What was never wholly written was never made, and
        what others wrote is put away. Raises LedgerUnwritable."""
        try:
            make_state_folder(self._folder)
            for path in self._folder.glob(f"*{_UNFINISHED}"):
                if _age(path) > _STILL_WRITTEN:
                    self._put_away(path)
            for path in sorted(self._folder.glob("*.json")):
                if left := self._left(path):
                    yield left
        except OSError as error:
            raise unwritable(error.strerror or str(error)) from error

    def _left(self, path: Path) -> LeftOver | PutAway | None:
        try:
            said = self._key.read(path)
            call, owner = _call(said), said["owner"]
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, RecursionError, UnfitFile) as error:
            torn = isinstance(error, json.JSONDecodeError)
            return self._put_away(path) if not torn or _age(path) > _STILL_WRITTEN else None
        return LeftOver(file=path, call=call) if _is_gone(owner, path) else None

    def _put_away(self, path: Path) -> PutAway:
        quarantine = self._folder.with_name("quarantine")
        make_state_folder(quarantine)
        kept = quarantine / f"{new_ulid()}.json"
        with suppress(FileNotFoundError):
            path.rename(kept)
        return PutAway(file=kept)

    def __len__(self) -> int:
        return sum(1 for _ in self._folder.glob("*.json"))

    def _path(self, call: BegunCall) -> Path:
        """Two tasks may have calls of the same name."""
        named = f"{call.task_id}-{call.tool_use_id}"
        name = (
            named
            if _PLAIN_NAME.fullmatch(named)
            else sha256(named.encode("utf-8", "surrogatepass")).hexdigest()
        )
        return self._folder / f"{name}.json"

    def _write(self, path: Path, said: bytes) -> None:
        """Whole under its name, or not under it at all."""
        unfinished = path.with_suffix(_UNFINISHED)
        fd = regular_file(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            if os.write(fd, said) != len(said):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.rename(unfinished, path)
            if self._flush:
                os.fsync(fd)  # of a new file: journalling file systems keep its name with it
        except OSError:
            for left in (unfinished, path):
                left.unlink(missing_ok=True)
            raise
        finally:
            os.close(fd)


_UNFINISHED = ".unfinished"
_STILL_WRITTEN = 60.0
"""Seconds after which what is half written is not being written any more."""
_LONGEST_CALL = 24 * 3600.0
"""Seconds after which a process that cannot be looked up from here is taken to be gone."""


def _is_gone(owner: Mapping[str, Any], path: Path) -> bool:
    if owner["where"] != _where():
        return _age(path) > _LONGEST_CALL
    return birth_of(int(owner["pid"])) != str(owner["born"])


def _where() -> str:
    """Where process numbers mean the same: this machine, and on it this container."""
    try:
        return f"{os.uname().nodename} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return os.uname().nodename


def birth_of(pid: int) -> str:
    """When a process was started, in its system's own terms; empty if there is none."""
    try:
        said = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return _birth_told_by_ps(pid)
    # a zombie runs nothing any more
    return "" if said[0] == b"Z" else f"{boot}:{said[19].decode()}"


def _birth_told_by_ps(pid: int) -> str:
    import subprocess

    if Path("/proc/self").exists():
        return ""
    said = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return said.stdout.strip()


def _age(path: Path) -> float:
    with suppress(FileNotFoundError):
        return time.time() - path.lstat().st_mtime
    return 0


def _call(said: Mapping[str, Any]) -> BegunCall:
    told = {name: held for name, held in said.items() if name not in {"owner", "targets", MARK}}
    if not all(type(held) in {str, int, bool, type(None)} for held in told.values()):
        raise TypeError("this is no call")
    targets = tuple(
        Target(path=each["path"], before=FileHash(**each["before"]) if each["before"] else None)
        for each in said["targets"]
    )
    return BegunCall(**told, targets=targets)
