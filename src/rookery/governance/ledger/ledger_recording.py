"""One object for whoever records: the ledger, what could not be written yet, and secrets.

With `Flush.BATCH` only the task's journal waits for the medium. A power failure loses no change
all the same: the task stays among the open ones until the ledger is flushed, so that whoever
comes next compares its journal with the ledger.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from threading import RLock
from typing import Any

from msgspec.structs import replace

from rookery.governance.ledger.catch_up import (
    EventsOf,
    Recovered,
    catch_up,
    missing_entries,
    record_old_journal,
)
from rookery.governance.ledger.known_heads import KnownHeads
from rookery.governance.ledger.ledger_file import Appended, Flush, Ledger
from rookery.governance.ledger.ledger_reader import Query, newest
from rookery.governance.ledger.records import Entry, Writer
from rookery.governance.ledger.secrets_filter import SecretsFilter
from rookery.governance.ledger.state_files import exclusive, key_at
from rookery.governance.ledger.traced import TracedRecord

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
        self._hide = hide or SecretsFilter()
        self._guard = RLock()
        self._backlog: list[Entry] = []

    def note(self, entry: Entry) -> Appended:
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

    def open_task(self, task_id: str) -> None:
        """From now on it may make calls that are not on record yet."""
        if self._heads:
            with suppress(OSError):  # then only the task itself catches up, when it is resumed
                self._heads.open_tasks.mkdir(parents=True, exist_ok=True, mode=0o700)
                (self._heads.open_tasks / task_id).touch()

    def recover(self, root: Path, events_of: EventsOf, also: Iterable[str] = ()) -> Recovered:
        """Record what processes that are gone left unrecorded. To be called when a task starts."""
        state = self.ledger.folder / ".state"
        tasks = {*also, *self._open_tasks()}
        old = state / "journal"
        found = Recovered()
        if not tasks and not os.path.lexists(old):
            return found
        with self._guard, exclusive(state / "locks" / "recovery", wait=LONGEST_RECOVERY):
            for task_id in sorted(tasks):
                if (events := events_of(task_id)) is not None:
                    found += catch_up(self.ledger, task_id, events, root)
                    self._close_task(task_id)
            key = key_at(self._heads.journal_key) if self._heads else b""
            return found + record_old_journal(self.ledger, old, key)

    def unrecorded(self, root: Path, events_of: EventsOf) -> int:
        """How many calls `recover` would record."""
        folder = self.ledger.folder
        found = ((each, events_of(each)) for each in self._open_tasks())
        return sum(len(missing_entries(folder, each, events or (), root)) for each, events in found)

    def close(self, task_id: str = "") -> None:
        """The task is over, and all that it did is on record, unless something is `behind`."""
        with self._guard:
            if task_id:
                self.ledger.checkpoint(task_id)
            self.ledger.close()
            if task_id and not self._backlog:
                self._close_task(task_id)

    def _open_tasks(self) -> list[str]:
        try:
            return [path.name for path in self._heads.open_tasks.iterdir()] if self._heads else []
        except OSError:
            return []

    def _close_task(self, task_id: str) -> None:
        self.ledger.flush()
        if self._heads:
            with suppress(OSError):
                (self._heads.open_tasks / task_id).unlink(missing_ok=True)

    def _redacted(self, entry: Entry) -> Entry:
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
