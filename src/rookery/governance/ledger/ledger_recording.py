"""One object for whoever records: the ledger, what could not be written yet, and secrets.

With `Flush.BATCH` only the task's journal waits for the medium. A power failure loses no change
all the same: the task stays among the open ones until the ledger is flushed, so that whoever
comes next compares its journal with the ledger.

A task's journal says of each governed call that it is about to be made, and how its files are
(`CallPermitted`), and of each rewind which files it restored (`FilesRestored`). The record names
that event. What comes after the newest event that is on record was cut off: it is compared with
the disk and recorded as it is found.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import RLock
from typing import Any

from msgspec.structs import replace

from rookery.core.facts import (
    Event,
)
from rookery.governance.ledger.ledger_file import Appended, Flush, Ledger
from rookery.governance.ledger.ledger_reader import Query, newest, newest_call
from rookery.governance.ledger.records import (
    LedgerEntry,
    Writer,
)
from rookery.governance.ledger.recovery import (
    RecoveredCalls,
    record_old_journal,
    recorded_after,
    recovered_entry,
    unknown_calls,
)
from rookery.governance.ledger.secrets_filter import SecretsFilter
from rookery.governance.ledger.state_files import (
    KnownHeads,
    OpenTasks,
    exclusive,
    key_at,
)
from rookery.governance.ledger.traced import TracedRecord

EventsOf = Callable[[str], Sequence[Event] | None]
"""The events of a task; None while a process works on it, and none at all if it was deleted."""

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
        changed = sum(entry.kind != "blocked" for entry in entries)
        known = max(len(recorded_after(self._since(task_id), events)) - len(entries), 0)
        return RecoveredCalls(changed=changed, unchanged=len(entries) - changed, known=known)

    def _missing(self, task_id: str, events: Sequence[Event], root: Path) -> list[LedgerEntry]:
        """What is to be recorded of the calls of a task that the ledger does not tell of."""
        if not events:
            return [unknown_calls(task_id)]
        begun = recorded_after(self._since(task_id), events)
        reached = newest_call(self.ledger.folder, task_id, self._keys()) if begun else 0
        entries = (
            recovered_entry(task_id, each, events, root) for each in begun if each.seq > reached
        )
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
        return {own} if own and recorded_after(0, events_of(own) or ()) else set()

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
