"""Recording for a workspace: the ledger, a backlog of unwritten entries, redaction and recovery.

With `Flush.BATCH` only the task's journal is synced at once. A power failure still loses no change:
the task stays in `OpenTasks` until the ledger is flushed, so that the next process compares its
journal with the ledger.

Before each governed call, the task's journal gets the call and the hashes of its files
(`CallPermitted`); after each rewind, the files it restored (`FilesRestored`). The ledger record
names that event. Events after the newest one on record were interrupted: they are compared with the
disk and recorded as found.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import RLock
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.facts import Event
from rookery.core.text.secrets_filter import SecretsFilter
from rookery.engine.ports.hooks import StoredJournals
from rookery.errors import StorageError
from rookery.governance.ledger.ledger_file import Appended, Flush, Ledger
from rookery.governance.ledger.ledger_reader import newest_call
from rookery.governance.ledger.records import OURS, LedgerEntry, Writer
from rookery.governance.ledger.recovery import (
    RecoveredCalls,
    record_old_journal,
    recorded_after,
    recovered_entry,
    unknown_calls,
)
from rookery.governance.ledger.state_files import KnownHeads, OpenTasks, exclusive, read_key

RECOVERY_TIMEOUT = 30.0
"""Seconds to wait for another process that is recovering."""
SHORTEST_SECRET = 8
"""Minimum characters of a text that is searched for secrets, as the search is slow."""
LONGEST_TEXT = 16_000
"""Maximum characters recorded of a command or a reason."""


class JournalsWithOwn(Struct, frozen=True):
    """Stored journals plus the one of this process, which is still being written."""

    journals: StoredJournals
    own: str
    own_events: Sequence[Event]

    def events_of(self, task_id: str) -> Sequence[Event] | None:
        if task_id == self.own:
            return self.own_events
        with suppress(StorageError):  # the task stays open until its journal can be read
            return self.journals.events_of(task_id)
        return None

    def lost_lines(self, task_id: str) -> int:
        with suppress(StorageError):
            return self.journals.lost_lines(task_id)
        return 0


class Recording:
    """The ledger of one workspace, and the tasks that write to it."""

    def __init__(
        self,
        folder: Path,
        *,
        writer: Writer = OURS,
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
        """Record an entry, after those that could not be written before. Raises
        LedgerUnwritable; the entry is then written with the next one or by `retry`."""
        with self._guard:
            self._backlog.append(self._redact(entry))
            return self._write_backlog()

    @property
    def backlog_size(self) -> int:
        """Number of entries that could not be written yet."""
        return len(self._backlog)

    def retry(self) -> None:
        """Write the entries that could not be written before. Raises LedgerUnwritable."""
        with self._guard:
            if self._backlog:
                self._write_backlog()

    def _write_backlog(self) -> Appended:
        while self._backlog:
            done = self.ledger.append(self._backlog[0])
            del self._backlog[0]
        return done

    def flush(self) -> None:
        """Sync the ledger to disk. Call this at the end of a turn at the latest."""
        with self._guard:
            self.ledger.flush()

    def open_task(self, task_id: str, since: int = 0, lost: int = 0) -> None:
        """Mark the task as open: calls after event `since` may not be recorded yet. `lost` is
        the number of unreadable journal lines that are already on record."""
        if self._open:
            with suppress(OSError):  # then only resuming the task recovers its calls
                self._open.open(task_id, since, lost)

    def recover(self, root: Path, journals: StoredJournals, own: str = "") -> RecoveredCalls:
        """Record what processes that no longer run left unrecorded. Call this when a task
        starts; `own` is that task."""
        state = self.ledger.folder / ".state"
        tasks, old = self._open_task_ids(journals, own), state / "journal"
        found = RecoveredCalls()
        if not tasks and not os.path.lexists(old):
            return found
        with self._guard, exclusive(state / "locks" / "recovery", wait=RECOVERY_TIMEOUT):
            self.retry()
            for task_id in sorted(tasks):
                if (events := self._events(task_id, journals, own)) is not None:
                    self._catch_up(task_id, events, journals, root, found)
                    self._close_task(task_id)
            key = read_key(self._heads.journal_key) if self._heads else b""
            record_old_journal(self.ledger, old, key, found)
        return found

    def _catch_up(
        self,
        task_id: str,
        events: Sequence[Event],
        journals: StoredJournals,
        root: Path,
        found: RecoveredCalls,
    ) -> None:
        """Record the interrupted calls of one task, and count them in `found`."""
        entries, damage = (
            self._new_entries(task_id, events, root),
            self._lost_entries(task_id, len(events), journals),
        )
        for entry in (*entries, *damage):
            self.ledger.append(entry)
        changed = sum(entry.kind != "blocked" for entry in entries)
        found.changed += changed
        found.unchanged += len(entries) - changed
        found.known += max(len(recorded_after(self._since(task_id), events)) - len(entries), 0)
        found.damaged += (task_id,) if damage else ()

    def _lost_entries(self, task_id: str, seq: int, journals: StoredJournals) -> list[LedgerEntry]:
        """Entry for unreadable journal lines, which may hold calls; empty if the loss is on
        record. Its `log_seq` is the last readable event, because later events reuse the lost
        numbers."""
        known = self._open.lost(task_id) if self._open else 0
        if journals.lost_lines(task_id) <= known:
            return []
        return [replace(unknown_calls(task_id, "journal_damaged"), log_seq=seq)]

    def _new_entries(self, task_id: str, events: Sequence[Event], root: Path) -> list[LedgerEntry]:
        """Entries for the calls of a task that are not in the ledger."""
        if not events:
            return [unknown_calls(task_id, "journal_missing")]
        started = recorded_after(self._since(task_id), events)
        reached = newest_call(self.ledger.folder, task_id, self._keys()) if started else 0
        entries = (
            recovered_entry(task_id, each, events, root) for each in started if each.seq > reached
        )
        return [entry for entry in entries if entry]

    def _keys(self) -> list[bytes]:
        """The keys that sign records; empty if records are not signed."""
        signs = self._heads is not None and read_key(self._heads.trace_key)
        return self._heads.trace_keys if self._heads and signs else []

    def _since(self, task_id: str) -> int:
        return self._open.since(task_id) if self._open else 0

    def _open_task_ids(self, journals: StoredJournals, own: str = "") -> set[str]:
        if self._open and self._open.exists:
            return set(self._open.names())
        return {own} if own and recorded_after(0, journals.events_of(own) or ()) else set()

    def _events(
        self, task_id: str, journals: StoredJournals, own: str = ""
    ) -> Sequence[Event] | None:
        """Events of the task's journal; None while another process works on the task."""
        if task_id != own and self._open and self._open.is_held(task_id):
            return None
        return journals.events_of(task_id)

    def unrecorded(self, root: Path, journals: StoredJournals) -> tuple[int, list[str]]:
        """Number of calls that `recover` would record, and the tasks with damaged journals."""
        found = {each: self._events(each, journals) for each in self._open_task_ids(journals)}
        left = [(each, events) for each, events in found.items() if events is not None]
        damaged = sorted(each for each, _ in left if self._lost_entries(each, 0, journals))
        return sum(len(self._new_entries(each, events, root)) for each, events in left), damaged

    def is_open(self, task_id: str) -> bool:
        """Whether some calls of the task may not be on record."""
        return self._open is not None and task_id in self._open.names()

    def close(self, task_id: str = "") -> None:
        """Close the ledger, and the task if given. The task stays open for recovery while
        entries are unwritten, or if it could not be caught up with."""
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

    def _redact(self, entry: LedgerEntry) -> LedgerEntry:
        count = 0

        def clean(value: Any) -> Any:
            nonlocal count
            if isinstance(value, str) and len(value) < SHORTEST_SECRET:
                return value
            if isinstance(value, str):
                text, found = self._hide(value[:LONGEST_TEXT])
                count += found
                return text if len(value) <= LONGEST_TEXT else f"{text}… ({len(value)} characters)"
            if isinstance(value, Mapping):
                return {name: clean(item) for name, item in value.items()}
            return [clean(each) for each in value] if isinstance(value, list | tuple) else value

        cleaned = {
            "command": clean(entry.command),
            "error": clean(entry.error),
            "approval": clean(entry.approval),
            "more": clean(entry.more),
        }
        return replace(entry, **cleaned, redactions=entry.redactions + count)
