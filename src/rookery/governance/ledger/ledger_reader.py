"""Queries on a workspace's ledger: newest or oldest first, recent records, or as they are written.

Records are streamed, never all held in memory: a ledger can be a gibibyte.
"""

import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from hmac import compare_digest
from itertools import islice
from pathlib import Path
from typing import IO, Any

from msgspec import Struct

from rookery.governance.ledger.segments import (
    active_file,
    newest_first,
    oldest_first,
    open_ledger_file,
)
from rookery.governance.ledger.traced import TracedRecord, records_in, records_on
from rookery.governance.ledger.verify_ledger import LONGEST_LINE, canonical, chain_entry, signature

_AGO = re.compile(r"(\d{1,6})\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
EXAMPLES = "7d, 12h, 2026-02-20 or 2026-02-20T13:54:31Z"
POLL_SECONDS = 0.5
"""Seconds between polls when following. Python has no portable way to watch a file."""
HOUSEKEEPING = frozenset({"stream_start", "checkpoint"})
"""Kinds that only maintain the chain; listings leave them out."""
SEARCHED_LINES = 200_000
"""How many lines back the newest record of a task is searched for."""
_PLAIN = re.compile(r"[\w.-]+", re.ASCII)
"""Text that JSON spells in one way, unless with an escape."""
_ESCAPE = rb"\u"


class Query(Struct, frozen=True, kw_only=True):
    """Filter for records. Empty fields match all. Times are compared as text (UTC, RFC 3339)."""

    intent: str = ""
    task: str = ""
    call: str = ""
    """Id of a tool call: matches what was asked, decided and done about it."""
    file: str = ""
    """Glob pattern of a path that was changed, or that a refused call would have changed."""
    kind: str = ""
    outcome: str = ""
    since: str = ""
    until: str = ""
    text: str = ""
    """Text to find in the id, tool, command, error, approval or paths."""
    without: frozenset[str] = frozenset()
    """Kinds to leave out."""

    @property
    def matches_all(self) -> bool:
        """Whether the query filters nothing except kinds."""
        return self == Query(without=self.without)

    def may_be_on(self, line: bytes) -> bool:
        """Whether a match may be on the line. Most lines need not be parsed to see that."""
        # records of other programs name no kind, and are mutations or events
        kind = "" if self.kind in ("mutation", "event") else self.kind
        wanted = (self.intent, self.task, self.call, kind)
        plain = (each.encode() for each in wanted if _PLAIN.fullmatch(each))
        return _ESCAPE in line or all(each in line for each in plain)

    def matches(self, record: TracedRecord) -> bool:
        return (
            self.intent in {"", record.intent_id}
            and self.task in {"", record.task_id}
            and self.call in {"", record.tool_use_id}
            and self.kind in {"", record.kind}
            and record.kind not in self.without
            and self.outcome in {"", record.outcome}
            and (not self.since or record.time >= self.since)
            and (not self.until or record.time < self.until)
            and (not self.file or any(fnmatchcase(path, self.file) for path in record.paths))
            and (not self.text or self.text in _search_text(record))
        )


def parse_time(text: str, now: datetime) -> str:
    """Parse a time: `7d` is seven days ago, a date is its start, times without a zone are UTC.

    Raises ValueError if it is not a time.
    """
    if ago := _AGO.fullmatch(text.strip()):
        try:
            return format_time(now - timedelta(seconds=int(ago[1]) * _SECONDS[ago[2]]))
        except OverflowError as error:
            raise ValueError(f"{text} is too long ago") from error
    found = datetime.fromisoformat(text.strip())
    return format_time(found if found.tzinfo else found.replace(tzinfo=UTC))


def format_time(when: datetime) -> str:
    """Format a time as records do: UTC, with milliseconds."""
    utc = when.astimezone(UTC)
    return f"{utc:%Y-%m-%dT%H:%M:%S}.{utc.microsecond // 1000:03}Z"


def follow_records(folder: Path) -> Iterator[TracedRecord]:
    """Yield records as they are appended, without end. A file that is sealed is read to its end
    before the next one."""
    path = active_file(folder)
    file = _open(path)
    if file:
        file.seek(0, os.SEEK_END)
    return _follow(file, path)


def newest(folder: Path, query: Query | None = None) -> Iterator[TracedRecord]:
    """Yield matching records, last written first."""
    return _matching(newest_first(folder), query or Query())


def oldest(folder: Path, query: Query | None = None) -> Iterator[TracedRecord]:
    return _matching(oldest_first(folder), query or Query())


def _matching(lines: Iterator[bytes], query: Query) -> Iterator[TracedRecord]:
    return filter(query.matches, records_in(filter(query.may_be_on, lines)))


def _follow(file: IO[bytes] | None, path: Path) -> Iterator[TracedRecord]:
    while True:
        if file:
            with file:
                yield from _appended_records(file, path)
        else:
            time.sleep(POLL_SECONDS)
        file = _open(path)


def _open(path: Path) -> IO[bytes] | None:
    try:
        return open_ledger_file(path)
    except FileNotFoundError:
        return None


def _appended_records(file: IO[bytes], path: Path) -> Iterator[TracedRecord]:
    """Yield records until another file has replaced this one."""
    rest = b""
    while True:
        replaced = not _is_current(file, path)
        while block := file.readline(LONGEST_LINE):
            rest += block
            if rest.endswith(b"\n") or len(rest) >= LONGEST_LINE:
                yield from records_on(rest)
                rest = b""
        if replaced:
            return
        time.sleep(POLL_SECONDS)


def _is_current(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _search_text(record: TracedRecord) -> str:
    fields = (record.id, record.tool_name, record.command, record.error_code, record.approval)
    return " ".join((*fields, *record.paths))


def newest_call(folder: Path, task_id: str, keys: Sequence[bytes]) -> int:
    """Event number of the newest recorded call of a task; 0 if there is none. With keys, only
    records signed with one of them count: a shell command could otherwise hide a call behind a
    forged record."""
    named = json.dumps(task_id, ensure_ascii=False).encode("utf-8", "replace")
    for line in islice(newest_first(folder), SEARCHED_LINES):
        if named not in line:
            continue
        try:
            record = json.loads(line)
            own = chain_entry(record) or {}
            seq = own.get("log_seq") if own.get("task_id") == task_id else None
            if isinstance(seq, int) and (not keys or _is_signed(record, own, keys)):
                return seq
        except (ValueError, RecursionError):
            continue
    return 0


def _is_signed(record: dict[str, Any], own: dict[str, Any], keys: Sequence[bytes]) -> bool:
    bare = {name: value for name, value in own.items() if name not in ("hash", "mac")}
    whole = canonical({**record, "metadata": {**record["metadata"], "orchestration": bare}})
    mac = str(own.get("mac")).encode("utf-8", "replace")
    return any(compare_digest(signature(key, whole).encode(), mac) for key in keys)
