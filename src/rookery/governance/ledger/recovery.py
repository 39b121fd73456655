"""What was cut off, as it is put into the ledger: from a task's journal and from the disk."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from hmac import compare_digest, digest
from pathlib import Path
from typing import Any

from msgspec import Struct

from rookery.core.facts import (
    CallPermitted,
    Ending,
    Event,
    FileBefore,
    FilesRestored,
    TaskOpened,
    ToolFinished,
)
from rookery.core.limits import MIB
from rookery.governance.ledger.ledger_file import Ledger
from rookery.governance.ledger.records import (
    FileDeed,
    FileHash,
    LedgerEntry,
    TracedFile,
    new_ulid,
)
from rookery.governance.ledger.state_files import (
    make_state_folder,
    unwritable,
)
from rookery.platform.disk import UnfitFile, whole_file

_BLOCK = 1024 * 1024
LARGEST_ENTRY = 16 * MIB


class RecoveredCalls(Struct, frozen=True, kw_only=True):
    """How many calls were found to have changed something, nothing, or to be recorded already, and
    how many entries of an old call journal were put away because nobody here wrote them."""

    changed: int = 0
    unchanged: int = 0
    known: int = 0
    put_away: int = 0

    def sentences(self) -> Iterator[str]:
        if self.put_away:
            what = f"Journal entries of calls not written on this machine: {self.put_away}"
            yield f"{what}. They were moved to .orchestration/.state/quarantine."
        if left := self.changed + self.unchanged:
            many = "1 interrupted call" if left == 1 else f"{left} interrupted calls"
            yield f"{many} added to the ledger."

    def __add__(self, other: "RecoveredCalls") -> "RecoveredCalls":
        return RecoveredCalls(
            changed=self.changed + other.changed,
            unchanged=self.unchanged + other.unchanged,
            known=self.known + other.known,
            put_away=self.put_away + other.put_away,
        )


def recorded_after(since: int, events: Sequence[Event]) -> list[Event]:
    """The events that records name: calls, and rewinds that changed files."""
    return [each for each in events[since:] if _is_recorded(each)]


def _is_recorded(event: Event) -> bool:
    fact = event.fact
    if isinstance(fact, FilesRestored):
        return bool(fact.paths) and fact.before != fact.after
    return isinstance(fact, CallPermitted)


def unknown_calls(task_id: str) -> LedgerEntry:
    """The task was deleted, or kept nothing: nobody can tell any more what it did last."""
    more = {"unknown_targets": True, "reason": "journal_missing"}
    return LedgerEntry(kind="recovered", task_id=task_id, outcome="interrupted", more=more)


def hash_of_file(path: Path) -> FileHash | None:
    """The file's raw bytes; None if there is no file to be read."""
    mark, size = sha256(), 0
    try:
        if not path.is_file():
            return None
        with open(path, "rb") as file:
            while block := file.read(_BLOCK):
                mark.update(block)
                size += len(block)
    except FileNotFoundError:
        return None
    return FileHash(sha256=mark.hexdigest(), size=size)


def recovered_entry(
    task_id: str, event: Event, events: Sequence[Event], root: Path
) -> LedgerEntry | None:
    """None for a call that came to its end without having changed anything."""
    call = event.fact
    if isinstance(call, FilesRestored):
        return _rewind_entry(task_id, event.seq, call, root)
    assert isinstance(call, CallPermitted)
    files = tuple(filter(None, (_difference(root, file) for file in call.files)))
    changed = bool(files) or call.unknown_targets
    if not changed and _has_ended(call.call_id, events[event.seq :]):
        return None
    opened = events[0].fact
    return LedgerEntry(
        kind="recovered" if changed else "blocked",
        task_id=task_id,
        parent_task_id=(isinstance(opened, TaskOpened) and opened.parent) or "",
        intent_id=call.intent_id,
        intent_rev=call.intent_rev,
        intent_digest=call.intent_digest,
        tool_name=call.tool,
        tool_use_id=call.call_id,
        input_digest=call.input_digest,
        scope=call.scope,
        outcome="interrupted",
        files=files,
        log_seq=event.seq,
        more={"unknown_targets": True} if call.unknown_targets else None,
    )


def _rewind_entry(task_id: str, seq: int, done: FilesRestored, root: Path) -> LedgerEntry:
    """Files are restored before the journal says so; only the record was cut off."""
    found = {path: _difference(root, FileBefore(path=path)) for path in done.paths}
    more: dict[str, Any] = {"removed": [path for path, file in found.items() if file is None]}
    if done.count > len(found):
        more["unknown_targets"] = True
    return LedgerEntry(
        kind="rewind",
        task_id=task_id,
        outcome="success",
        contributor="human",
        files=tuple(filter(None, found.values())),
        log_seq=seq,
        more=more,
    )


def _has_ended(call_id: str, events: Sequence[Event]) -> bool:
    return any(
        isinstance(event.fact, ToolFinished)
        and event.fact.call_id == call_id
        and event.fact.ending is not Ending.UNKNOWN
        for event in events
    )


def _difference(root: Path, file: FileBefore) -> TracedFile | None:
    before = FileHash(sha256=file.sha256, size=file.size) if file.sha256 else None
    place = root / file.path
    try:
        if not place.resolve().is_relative_to(root.resolve()):
            return None  # a call may name any path: it leads nowhere else
        after = hash_of_file(place)
    except (OSError, ValueError):  # nothing can have that name, or nobody may look
        if before is None:
            return None
        return TracedFile(path=file.path, op="modify", before=before, attribution="interrupted")
    if after == before:
        return None
    deed: FileDeed = "modify"
    if before is None:
        deed = "create"
    elif after is None:
        deed = "delete"
    return TracedFile(
        path=file.path, op=deed, before=before, after=after, attribution="interrupted"
    )


# ── the call journal of the first version ───────────────────────────────────────────────


def record_old_journal(ledger: Ledger, folder: Path, key: bytes) -> RecoveredCalls:
    """Earlier versions kept calls that were begun in the workspace. What bears the mark of our key
    is recorded as interrupted; all else may have come with a clone and is put away, once."""
    if not os.path.lexists(folder):
        return RecoveredCalls()
    try:
        make_state_folder(folder)
        paths = list(folder.iterdir())
        calls = {path: call for path in paths if (call := _old_call(path, key))}
        if any(map(_is_at_work, calls.values())):
            return RecoveredCalls()
        for path, call in calls.items():
            ledger.append(_old_entry(call))
            path.unlink()
        quarantine = folder.with_name("quarantine")
        make_state_folder(quarantine)
        folder.rename(quarantine / f"journal-{new_ulid()}")
    except OSError as error:
        raise unwritable(error.strerror or str(error)) from error
    return RecoveredCalls(changed=len(calls), put_away=len(paths) - len(calls))


def _old_call(path: Path, key: bytes) -> dict[str, Any] | None:
    try:
        said = json.loads(whole_file(path, largest=LARGEST_ENTRY))
        mark = str(said.pop("mark")).encode()
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, UnfitFile):
        return None
    own = digest(key, json.dumps(said, sort_keys=True).encode(), sha256).hex().encode()
    return said if key and compare_digest(own, mark) else None


def _is_at_work(call: dict[str, Any]) -> bool:
    """Whether the process may still be there: an earlier version that has not been closed yet."""
    with suppress(ProcessLookupError):
        os.kill(int(call["owner"]["pid"]), 0)
        return True
    return False


def _old_entry(call: dict[str, Any]) -> LedgerEntry:
    names = ("task_id", "parent_task_id", "intent_id", "intent_rev", "intent_digest", "tool_name")
    told = {name: call[name] for name in (*names, "tool_use_id", "input_digest", "scope")}
    more = {"unknown_targets": True, "targets": [each["path"] for each in call["targets"]]}
    return LedgerEntry(kind="recovered", outcome="interrupted", more=more, **told)
