"""What a crash left unrecorded, compared with the disk and recorded now."""

import json
from collections.abc import Callable, Sequence
from hashlib import sha256
from itertools import islice
from pathlib import Path

from msgspec import Struct

from rookery.governance.ledger.call_journal import BegunCall, CallJournal, LeftOver, Target
from rookery.governance.ledger.ledger_file import Ledger
from rookery.governance.ledger.ledger_lock import exclusive
from rookery.governance.ledger.records import Entry, FileDeed, FileHash, TracedFile
from rookery.governance.ledger.segments import newest_first
from rookery.governance.ledger.verify_ledger import own_part

_BLOCK = 1024 * 1024
LONGEST_RECOVERY = 30.0
"""Seconds for which another process that recovers is waited for."""
SEARCHED_LINES = 200_000
"""How far back a record of the call is looked for: a crash is not longer ago than that."""


class Recovered(Struct, frozen=True, kw_only=True):
    """How many calls were found to have changed something, nothing, or to be recorded already, and
    how many entries were put away because nobody here wrote them."""

    changed: int = 0
    unchanged: int = 0
    known: int = 0
    put_away: int = 0


def hash_of_file(path: Path) -> FileHash | None:
    """The file's raw bytes; None if there is no file to be read."""
    digest, size = sha256(), 0
    try:
        if not path.is_file():
            return None
        with open(path, "rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
                size += len(block)
    except FileNotFoundError:
        return None
    return FileHash(sha256=digest.hexdigest(), size=size)


def recover(
    ledger: Ledger,
    journal: CallJournal,
    *,
    root: Path,
    hash_of: Callable[[Path], FileHash | None] = hash_of_file,
) -> Recovered:
    """Record every call that a process which is gone had begun. Calls of living ones are theirs."""
    if not len(journal):
        return Recovered()
    changed = unchanged = known = 0
    with exclusive(ledger.folder / ".state" / "locks" / "recovery", wait=LONGEST_RECOVERY):
        found = list(journal.left_over())
        left_over = [each for each in found if isinstance(each, LeftOver)]
        recorded = _recorded(ledger.folder, [left.call for left in left_over])
        for left in left_over:
            if _name(left.call) in recorded:
                known += 1
            else:
                entry = _entry(left.call, _differences(root, left.call, hash_of))
                ledger.append(entry)
                changed += entry.kind == "recovered"
                unchanged += entry.kind != "recovered"
            left.file.unlink(missing_ok=True)
    return Recovered(
        changed=changed, unchanged=unchanged, known=known, put_away=len(found) - len(left_over)
    )


CallName = tuple[str, str]


def _name(call: BegunCall) -> CallName:
    return call.task_id, call.tool_use_id


def _recorded(folder: Path, calls: Sequence[BegunCall]) -> set[CallName]:
    """Those of the calls that the ledger tells of."""
    wanted = {_name(call): json.dumps(call.tool_use_id, ensure_ascii=False) for call in calls}
    needles = {name: said.encode("utf-8", "replace") for name, said in wanted.items()}
    found: set[CallName] = set()
    for line in islice(newest_first(folder), SEARCHED_LINES):
        for name in [name for name, needle in needles.items() if needle in line]:
            if _tells_of(line, name):
                found.add(name)
                del needles[name]
        if not needles:
            break
    return found


def _tells_of(line: bytes, name: CallName) -> bool:
    try:
        own = own_part(json.loads(line)) or {}
    except (ValueError, RecursionError):
        return False
    told = own.get("outcome") is not None and own.get("kind") != "decision"
    return told and (own.get("task_id"), own.get("tool_use_id")) == name


def _differences(
    root: Path, call: BegunCall, hash_of: Callable[[Path], FileHash | None]
) -> tuple[TracedFile, ...]:
    files = (_difference(root, target, hash_of) for target in call.targets)
    return tuple(file for file in files if file)


def _difference(
    root: Path, target: Target, hash_of: Callable[[Path], FileHash | None]
) -> TracedFile | None:
    place = root / target.path
    try:
        if not place.resolve().is_relative_to(root.resolve()):
            return None  # a call may name any path: it leads nowhere else
        after = hash_of(place)
    except (OSError, ValueError):  # nothing can have that name, or nobody may look
        if target.before is None:
            return None
        return TracedFile(
            path=target.path, op="modify", before=target.before, attribution="interrupted"
        )
    if after == target.before:
        return None
    deed: FileDeed = "modify"
    if target.before is None:
        deed = "create"
    elif after is None:
        deed = "delete"
    return TracedFile(
        path=target.path, op=deed, before=target.before, after=after, attribution="interrupted"
    )


def _entry(call: BegunCall, files: tuple[TracedFile, ...]) -> Entry:
    """Nothing that was found changed was changed, unless nobody knows where to look."""
    return Entry(
        kind="recovered" if files or call.unknown_targets else "blocked",
        task_id=call.task_id,
        parent_task_id=call.parent_task_id,
        intent_id=call.intent_id,
        intent_rev=call.intent_rev,
        intent_digest=call.intent_digest,
        tool_name=call.tool_name,
        tool_use_id=call.tool_use_id,
        input_digest=call.input_digest,
        scope=call.scope,
        outcome="interrupted",
        files=files,
        more={"unknown_targets": True} if call.unknown_targets else None,
    )
