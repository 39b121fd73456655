"""One object for whoever records: the ledger, what could not be written yet, and secrets.

With `Flush.BATCH` only the task's journal waits for the medium. A power failure loses no change
all the same: the task stays among the open ones until the ledger is flushed, so that whoever
comes next compares its journal with the ledger.

A task's journal says of each governed call that it is about to be made, and how its files are
(`CallPermitted`). The record of the call names that event. The calls after the newest event that
is on record were cut off: they are compared with the disk and recorded as they are found.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from hmac import compare_digest, digest
from pathlib import Path
from threading import RLock
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.facts import CallPermitted, Ending, Event, FileBefore, TaskOpened, ToolFinished
from rookery.core.limits import MIB
from rookery.governance.ledger.ledger_file import Appended, Flush, Ledger
from rookery.governance.ledger.ledger_reader import Query, newest, newest_call
from rookery.governance.ledger.records import (
    FileDeed,
    FileHash,
    LedgerEntry,
    TracedFile,
    Writer,
    new_ulid,
)
from rookery.governance.ledger.secrets_filter import SecretsFilter
from rookery.governance.ledger.state_files import (
    KnownHeads,
    OpenTasks,
    exclusive,
    key_at,
    make_state_folder,
    unwritable,
)
from rookery.governance.ledger.traced import TracedRecord
from rookery.platform.disk import UnfitFile, whole_file

EventsOf = Callable[[str], Sequence[Event] | None]
"""The events of a task; None while a process works on it, and none at all if it was deleted."""
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
            what = f"{self.put_away} notes of calls that nobody here wrote were put away"
            yield f"{what}: .orchestration/.state/quarantine"
        if left := self.changed + self.unchanged:
            many = "a call that was" if left == 1 else f"{left} calls that were"
            yield f"The ledger now tells of {many} cut off."

    def __add__(self, other: "RecoveredCalls") -> "RecoveredCalls":
        return RecoveredCalls(
            changed=self.changed + other.changed,
            unchanged=self.unchanged + other.unchanged,
            known=self.known + other.known,
            put_away=self.put_away + other.put_away,
        )


def permitted_after(since: int, events: Sequence[Event]) -> list[Event]:
    return [each for each in events[since:] if isinstance(each.fact, CallPermitted)]


def _of_unknown_calls(task_id: str) -> LedgerEntry:
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


def _entry(task_id: str, event: Event, events: Sequence[Event], root: Path) -> LedgerEntry | None:
    """None for a call that came to its end without having changed anything."""
    call = event.fact
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


LONGEST_RECOVERY = 30.0
"""Seconds for which another process that recovers is waited for."""
SHORTEST_SECRET = 8
"""Characters; most texts of a record are single words, and looking through them takes its time."""
LONGEST_TEXT = 16_000
"""Characters of a command or a reason that are recorded."""


class Recording:
    """The ledger of one workspace, and the tasks that write to it."""

    def __init__(
        self,
        folder: Path,
        *,
        writer: Writer,
        heads: KnownHeads | None = None,
        flush: Flush = Flush.ALWAYS,
        hide: SecretsFilter | None = None,
    ) -> None:
        self.ledger = Ledger(folder, writer=writer, heads=heads, flush=flush)
        self._heads = heads
        self._open = OpenTasks(heads.open_tasks) if heads else None
        self._hide = hide or SecretsFilter()
        self._guard = RLock()
        self._backlog: list[LedgerEntry] = []

    def note(self, entry: LedgerEntry) -> Appended:
        """In the order in which things happened: what could not be recorded before goes first.
        Raises LedgerUnwritable: then it is recorded with the next thing that can be, or by
        `retry`."""
        with self._guard:
            self._backlog.append(self._redacted(entry))
            return self._write_backlog()

    @property
    def behind(self) -> int:
        """How much could not be recorded yet."""
        return len(self._backlog)

    def retry(self) -> None:
        """Record what could not be recorded before. Raises LedgerUnwritable if it still cannot."""
        with self._guard:
            if self._backlog:
                self._write_backlog()

    def _write_backlog(self) -> Appended:
        while self._backlog:
            done = self.ledger.append(self._backlog[0])
            del self._backlog[0]
        return done

    def flush(self) -> None:
        """All that was recorded is on the medium. To be called when a turn ends, at the latest."""
        with self._guard:
            self.ledger.flush()

    def find(self, query: Query) -> Iterator[TracedRecord]:
        """The records that match, found by the index that lies beside what is known of the
        ledger."""
        from rookery.governance.ledger.ledger_index import LedgerIndex

        if self._heads is None:
            return newest(self.ledger.folder, query)
        return LedgerIndex(self.ledger.folder, self._heads.index).find(query)

    def open_task(self, task_id: str, since: int = 0) -> None:
        """After event `since` it may make calls that are not on record yet."""
        if self._open:
            with suppress(OSError):  # then only the task itself catches up, when it is resumed
                self._open.open(task_id, since)

    def recover(self, root: Path, events_of: EventsOf, own: str = "") -> RecoveredCalls:
        """Record what processes that are gone left unrecorded. To be called when a task starts,
        which is then the `own` one."""
        state = self.ledger.folder / ".state"
        tasks, old = self._left_open(events_of, own), state / "journal"
        found = RecoveredCalls()
        if not tasks and not os.path.lexists(old):
            return found
        with self._guard, exclusive(state / "locks" / "recovery", wait=LONGEST_RECOVERY):
            self.retry()
            for task_id in sorted(tasks):
                if (events := self._events(task_id, events_of, own)) is not None:
                    found += self._catch_up(task_id, events, root)
                    self._close_task(task_id)
            key = key_at(self._heads.journal_key) if self._heads else b""
            return found + record_old_journal(self.ledger, old, key)

    def _catch_up(self, task_id: str, events: Sequence[Event], root: Path) -> RecoveredCalls:
        """Record the calls of one task that were cut off."""
        entries = self._missing(task_id, events, root)
        for entry in entries:
            self.ledger.append(entry)
        changed = sum(entry.kind == "recovered" for entry in entries)
        known = max(len(permitted_after(self._since(task_id), events)) - len(entries), 0)
        return RecoveredCalls(changed=changed, unchanged=len(entries) - changed, known=known)

    def _missing(self, task_id: str, events: Sequence[Event], root: Path) -> list[LedgerEntry]:
        """What is to be recorded of the calls of a task that the ledger does not tell of."""
        if not events:
            return [_of_unknown_calls(task_id)]
        permitted = permitted_after(self._since(task_id), events)
        reached = newest_call(self.ledger.folder, task_id, self._keys()) if permitted else 0
        entries = (_entry(task_id, each, events, root) for each in permitted if each.seq > reached)
        return [entry for entry in entries if entry]

    def _keys(self) -> list[bytes]:
        """With which records of calls are signed; none if they are not."""
        signs = self._heads is not None and key_at(self._heads.trace_key)
        return self._heads.trace_keys if self._heads and signs else []

    def _since(self, task_id: str) -> int:
        return self._open.since(task_id) if self._open else 0

    def _left_open(self, events_of: EventsOf, own: str = "") -> set[str]:
        if self._open and self._open.are_known:
            return set(self._open.names())
        return {own} if own and permitted_after(0, events_of(own) or ()) else set()

    def _events(self, task_id: str, events_of: EventsOf, own: str = "") -> Sequence[Event] | None:
        """None while somebody works on the task."""
        if task_id != own and self._open and self._open.is_held(task_id):
            return None
        return events_of(task_id)

    def unrecorded(self, root: Path, events_of: EventsOf) -> int:
        """How many calls `recover` would record."""
        found = {each: self._events(each, events_of) for each in self._left_open(events_of)}
        left = ((each, events) for each, events in found.items() if events is not None)
        return sum(len(self._missing(each, events, root)) for each, events in left)

    def is_open(self, task_id: str) -> bool:
        """Whether some of its calls may not be on record."""
        return self._open is not None and task_id in self._open.names()

    def close(self, task_id: str = "") -> None:
        """The task is over, and all that it did is on record, unless something is `behind` or
        could not be caught up with."""
        with self._guard:
            if task_id:
                self.ledger.checkpoint(task_id)
            self.ledger.close()
            if self._open and self._open.holds(task_id) and not self._backlog:
                self._close_task(task_id)

    def _close_task(self, task_id: str) -> None:
        self.ledger.flush()
        if self._open:
            self._open.close(task_id)

    def _redacted(self, entry: LedgerEntry) -> LedgerEntry:
        count = 0

        def clean(held: Any) -> Any:
            nonlocal count
            if isinstance(held, str) and len(held) < SHORTEST_SECRET:
                return held
            if isinstance(held, str):
                text, found = self._hide(held[:LONGEST_TEXT])
                count += found
                return text if len(held) <= LONGEST_TEXT else f"{text}… ({len(held)} characters)"
            if isinstance(held, Mapping):
                return {name: clean(value) for name, value in held.items()}
            return [clean(each) for each in held] if isinstance(held, list | tuple) else held

        cleaned = {
            "command": clean(entry.command),
            "error": clean(entry.error),
            "approval": clean(entry.approval),
            "more": clean(entry.more),
        }
        return replace(entry, **cleaned, redactions=entry.redactions + count)
