"""One object for whoever records: what is about to happen, what happened, and that it is safe.

With `Flush.BATCH` only the call journal waits for the medium. An entry there stays until the
ledger is flushed, so that a power failure in between loses no change: recovery finds the entry,
and the record too if it was flushed, and then writes none.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import RLock
from typing import Any

from msgspec.structs import replace

from rookery.governance.ledger.call_journal import BegunCall, CallJournal
from rookery.governance.ledger.journal_key import JournalKey
from rookery.governance.ledger.known_heads import KnownHeads
from rookery.governance.ledger.ledger_errors import LedgerUnwritable
from rookery.governance.ledger.ledger_file import Appended, Flush, Ledger
from rookery.governance.ledger.ledger_query import Query
from rookery.governance.ledger.ledger_reader import newest
from rookery.governance.ledger.ledger_recovery import Recovered, recover
from rookery.governance.ledger.records import Entry, Writer
from rookery.governance.ledger.secrets_filter import SecretsFilter
from rookery.governance.ledger.traced import TracedRecord

SHORTEST_SECRET = 8
"""Characters; most texts of a record are single words, and looking through them takes its time."""
LONGEST_TEXT = 16_000
"""Characters of a command or a reason that are recorded."""


class Recording:
    """The ledger, the call journal and the secrets filter of one workspace."""

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
        key = JournalKey(heads.journal_key if heads else None)
        self.journal = CallJournal(
            folder / ".state" / "journal", key, flush=flush is not Flush.NEVER
        )
        self._index = heads.index if heads else None
        self._hide = hide or SecretsFilter()
        self._guard = RLock()
        self._backlog: list[tuple[Entry, BegunCall | None]] = []
        self._settled: list[BegunCall] = []

    def begin(self, call: BegunCall) -> None:
        """Before a call changes anything. Raises LedgerUnwritable: then it must not be made."""
        self.journal.begin(call)

    def end(self, call: BegunCall, entry: Entry) -> Appended:
        """After the call. Raises LedgerUnwritable: the call stays in the journal, and is recorded
        with the next thing that can be, or by `retry`."""
        return self._record(entry, call)

    def note(self, entry: Entry) -> Appended:
        """Record what is no change: a refusal, an approval, a selection."""
        return self._record(entry, None)

    def drop(self, call: BegunCall) -> None:
        """The call was not made after all."""
        self.journal.end(call)

    @property
    def behind(self) -> int:
        """How much could not be recorded yet."""
        return len(self._backlog)

    def retry(self) -> None:
        """Record what could not be recorded before. Raises LedgerUnwritable if it still cannot."""
        with self._guard:
            while self._backlog:
                self._record_first()
            self._clear()

    def flush(self) -> None:
        """All that was recorded is on the medium. To be called when a turn ends, at the latest."""
        with self._guard:
            self.ledger.flush()
            self._clear()

    def find(self, query: Query) -> Iterator[TracedRecord]:
        """The records that match, found by the index that lies beside what is known of the
        ledger."""
        from rookery.governance.ledger.ledger_index import LedgerIndex

        if self._index is None:
            return newest(self.ledger.folder, query)
        return LedgerIndex(self.ledger.folder, self._index).find(query)

    def recover(self, root: Path) -> Recovered:
        """Record what processes that are gone left behind. To be called when a task starts."""
        return recover(self.ledger, self.journal, root=root)

    def close(self, task_id: str = "") -> None:
        """The task is over."""
        with self._guard:
            if task_id:
                self.ledger.checkpoint(task_id)
            self.ledger.close()
            self._clear()

    def _record(self, entry: Entry, call: BegunCall | None) -> Appended:
        """In the order in which things happened: what could not be recorded before goes first."""
        with self._guard:
            self._backlog.append((self._redacted(entry), call))
            while self._backlog:
                done = self._record_first()
            self._clear()
            return done

    def _record_first(self) -> Appended:
        entry, call = self._backlog.pop(0)
        try:
            done = self.ledger.append(entry)
        except LedgerUnwritable:
            self._backlog.insert(0, (entry, call))
            raise
        if call:
            self._settled.append(call)
        return done

    def _clear(self) -> None:
        if self.ledger.flushed:
            for call in self._settled:
                self.journal.end(call)
            self._settled.clear()

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
