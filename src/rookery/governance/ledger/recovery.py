"""Ledger entries for interrupted calls, from a task's journal and the files on disk."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from hmac import compare_digest, digest
from pathlib import Path
from typing import Any, Literal

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
    FileHash,
    FileOperation,
    LedgerEntry,
    TracedFile,
    new_ulid,
)
from rookery.governance.ledger.state_files import make_state_folder, unwritable
from rookery.platform.disk import UnfitFile, whole_file

_BLOCK = 1024 * 1024
LARGEST_ENTRY = 16 * MIB


class RecoveredCalls(Struct, kw_only=True):
    """Counts of interrupted calls by what they changed, of calls already recorded, and of
    entries of an old call journal that were quarantined because they were not written on this
    machine."""

    changed: int = 0
    unchanged: int = 0
    known: int = 0
    put_away: int = 0
    damaged: tuple[str, ...] = ()
    """Tasks whose journals have unreadable lines."""

    def sentences(self) -> Iterator[str]:
        if self.put_away:
            what = f"Journal entries of calls not written on this machine: {self.put_away}"
            yield f"{what}. They were moved to .orchestration/.state/quarantine."
        if left := self.changed + self.unchanged:
            many = "1 interrupted call" if left == 1 else f"{left} interrupted calls"
            yield f"{many} added to the ledger."
        for task_id in self.damaged:
            yield f"{damaged_journal(task_id)}. The ledger says so."


def damaged_journal(task_id: str) -> str:
    what = f"Part of the journal of session {task_id} cannot be read"
    return f"{what}, so some of its actions are unknown"


def recorded_after(since: int, events: Sequence[Event]) -> list[Event]:
    """The events after `since` that need a record: calls, and rewinds that changed files."""
    return [each for each in events[since:] if _is_recorded(each)]


def _is_recorded(event: Event) -> bool:
    fact = event.fact
    if isinstance(fact, FilesRestored):
        return bool(fact.paths) and fact.before != fact.after
    return isinstance(fact, CallPermitted)


def unknown_calls(
    task_id: str, reason: Literal["journal_missing", "journal_damaged"]
) -> LedgerEntry:
    """Entry for a task whose journal is missing or damaged, so that its last calls are unknown."""
    more = {"unknown_targets": True, "reason": reason}
    return LedgerEntry(kind="recovered", task_id=task_id, outcome="interrupted", more=more)


def hash_of_file(path: Path) -> FileHash | None:
    """Hash of the file's raw bytes; None if there is no regular file."""
    hasher, size = sha256(), 0
    try:
        if not path.is_file():
            return None
        with open(path, "rb") as file:
            while block := file.read(_BLOCK):
                hasher.update(block)
                size += len(block)
    except FileNotFoundError:
        return None
    return FileHash(sha256=hasher.hexdigest(), size=size)


def recovered_entry(
    task_id: str, event: Event, events: Sequence[Event], root: Path
) -> LedgerEntry | None:
    """Entry for an unrecorded event; None for a call that ended without changing anything."""
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
    """Entry for a rewind: the files were restored before the event; only the record is missing."""
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
            return None  # a journal may name any path: stay inside the workspace
        after = hash_of_file(place)
    except (OSError, ValueError):  # an invalid name, or no permission
        if before is None:
            return None
        return TracedFile(path=file.path, op="modify", before=before, attribution="interrupted")
    if after == before:
        return None
    op: FileOperation = "modify"
    if before is None:
        op = "create"
    elif after is None:
        op = "delete"
    return TracedFile(path=file.path, op=op, before=before, after=after, attribution="interrupted")


# ── the call journal of the first version ───────────────────────────────────────────────


def record_old_journal(ledger: Ledger, folder: Path, key: bytes, found: RecoveredCalls) -> None:
    """Import the call journal of earlier versions. Signed entries are recorded as interrupted;
    others may have come with a clone and are quarantined."""
    if not os.path.lexists(folder):
        return
    try:
        make_state_folder(folder)
        paths = list(folder.iterdir())
        calls = {path: call for path in paths if (call := _old_call(path, key))}
        if any(map(_is_running, calls.values())):
            return
        for path, call in calls.items():
            ledger.append(_old_entry(call))
            path.unlink()
        quarantine = folder.with_name("quarantine")
        make_state_folder(quarantine)
        folder.rename(quarantine / f"journal-{new_ulid()}")
    except OSError as error:
        raise unwritable(error.strerror or str(error)) from error
    found.changed += len(calls)
    found.put_away += len(paths) - len(calls)


def _old_call(path: Path, key: bytes) -> dict[str, Any] | None:
    try:
        call = json.loads(whole_file(path, largest=LARGEST_ENTRY))
        signature = str(call.pop("mark")).encode()
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, UnfitFile):
        return None
    own = digest(key, json.dumps(call, sort_keys=True).encode(), sha256).hex().encode()
    return call if key and compare_digest(own, signature) else None


def _is_running(call: dict[str, Any]) -> bool:
    """Whether the process that wrote the entry may still run."""
    with suppress(ProcessLookupError):
        os.kill(int(call["owner"]["pid"]), 0)
        return True
    return False


def _old_entry(call: dict[str, Any]) -> LedgerEntry:
    names = ("task_id", "parent_task_id", "intent_id", "intent_rev", "intent_digest", "tool_name")
    fields = {name: call[name] for name in (*names, "tool_use_id", "input_digest", "scope")}
    more = {"unknown_targets": True, "targets": [each["path"] for each in call["targets"]]}
    return LedgerEntry(kind="recovered", outcome="interrupted", more=more, **fields)
