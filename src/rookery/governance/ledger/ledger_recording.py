"""One object for whoever records: what is about to happen, what happened, and that it is safe.

With `Flush.BATCH` only the call journal waits for the medium. An entry there stays until the
ledger is flushed, so that a power failure in between loses no change: recovery finds the entry,
and the record too if it was flushed, and then writes none.

What a crash left in the call journal is compared with the disk and recorded as it is found.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from pathlib import Path
from threading import RLock
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rookery.governance.ledger.call_journal import BegunCall, CallJournal, LeftOver, Target
from rookery.governance.ledger.known_heads import KnownHeads
from rookery.governance.ledger.ledger_errors import LedgerUnwritable
from rookery.governance.ledger.ledger_file import Appended, Flush, Ledger
from rookery.governance.ledger.ledger_reader import Query, newest
from rookery.governance.ledger.records import Entry, FileDeed, FileHash, TracedFile, Writer
from rookery.governance.ledger.secrets_filter import SecretsFilter
from rookery.governance.ledger.segments import newest_first
from rookery.governance.ledger.state_files import JournalKey, exclusive
from rookery.governance.ledger.traced import TracedRecord
from rookery.governance.ledger.verify_ledger import own_part

_BLOCK = 1024 * 1024
LONGEST_RECOVERY = 30.0
"""Seconds for which another process that recovers is waited for."""
SEARCHED_LINES = 200_000
"""How far back a record of the call is looked for: a crash is not longer ago than that."""
CallName = tuple[str, str]
SHORTEST_SECRET = 8
"""Characters; most texts of a record are single words, and looking through them takes its time."""
LONGEST_TEXT = 16_000
"""Characters of a command or a reason that are recorded."""


class Recovered(Struct, frozen=True, kw_only=True):
    """How many calls were found to have changed something, nothing, or to be recorded already, and
    how many entries were put away because nobody here wrote them."""

    changed: int = 0
    unchanged: int = 0
    known: int = 0
    put_away: int = 0


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
