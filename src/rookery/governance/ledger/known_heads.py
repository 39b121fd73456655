"""What this machine remembers of a ledger, outside the workspace: `heads.json`.

A chain does not show that its end was cut off. Whoever remembers the end does.
"""

import json
import os
import re
import secrets
from hashlib import sha256
from pathlib import Path

from rookery.governance.ledger.active_file import LedgerTail
from rookery.governance.ledger.ledger_errors import LedgerUnreadable
from rookery.governance.ledger.state_files import key_at, made_once, make_state_folder
from rookery.governance.ledger.verify_ledger import NO_BYTES, KnownHead, Tip, known_head, state_id
from rookery.platform.disk import UnfitFile, whole_file

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
    make_state_folder(path.parent)

    def fits(there: Path) -> bool:
        own = _own_id(there)
        return own == known if known else bool(own)

    try:
        wanted = known or secrets.token_hex(8)
        made_once(path, f"{wanted}\n".encode(), fits=fits, mode=0o644)
    except IsADirectoryError as error:
        raise LedgerUnreadable(f"{path} is no regular file; move it away") from error
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
        """A folder with an empty file for each task whose calls may not all be on record."""
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

    def note(self, tail: LedgerTail) -> None:
        """Remember the ledger as it is now, and those tips that it no longer holds."""
        try:
            before = self.read()
        except ValueError:
            before = None
        lost = [tip for tip in before.tips if not tail.covers(tip)][-ABSENT:] if before else []
        self._write(_text((*tail.tips, *lost), tail))

    def accept(self, tail: LedgerTail) -> None:
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


def _text(tips: tuple[Tip, ...], tail: LedgerTail) -> str:
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
