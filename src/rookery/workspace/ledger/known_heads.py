"""What this machine remembers of a ledger, outside the workspace: `heads.json`.

A chain does not show that its end was cut off. Whoever remembers the end does.
"""

import json
import os
import secrets
from hashlib import sha256
from pathlib import Path

from rookery.core.ledger.tail import LedgerTail
from rookery.core.ledger.verify_ledger import NO_BYTES, KnownHead, Tip, known_head, state_id
from rookery.workspace.ledger.state_folder import make_state_folder

ABSENT = 64
"""Tips that are remembered though the file does not hold them: of a branch that is elsewhere."""
_BLOCK = 1024


def workspace_key(state: Path, root: Path) -> str:
    """The name under which a workspace is known here: a random id that lies in its state folder,
    and where it is. A copied workspace is another one."""
    path = state / "workspace_id"
    try:
        own = path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        make_state_folder(state)
        own = secrets.token_hex(8)
        try:
            with open(path, "x", encoding="ascii") as file:
                file.write(own + "\n")
        except FileExistsError:
            own = path.read_text(encoding="ascii").strip()
    where = sha256(os.fsencode(root.resolve())).hexdigest()[:16]
    return f"{own}-{where}"


class KnownHeads:
    """Written by whoever holds the ledger's lock, after every append."""

    def __init__(self, path: Path) -> None:
        self.path = path

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
