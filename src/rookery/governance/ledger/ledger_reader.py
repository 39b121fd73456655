"""The records of a workspace's ledger that match a query: newest, oldest, recent, or as they come.

Records are streamed, never held as a whole: a ledger may have a gibibyte.
"""

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from hmac import compare_digest
from itertools import islice
from pathlib import Path
from typing import IO, Any

from msgspec import Struct
from msgspec.structs import replace

from rookery.governance.ledger.segments import (
    active_file,
    newest_first,
    oldest_first,
    open_ledger_file,
)
from rookery.governance.ledger.traced import TracedRecord, records_in, records_on
from rookery.governance.ledger.verify_ledger import LONGEST_LINE, canonical, own_part, signature

_AGO = re.compile(r"(\d{1,6})\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
EXAMPLES = "7d, 12h, 2026-02-20 or 2026-02-20T13:54:31Z"
PAUSE = 0.5
"""Seconds between looks. Python has no way of its own to be told that a file grew, and whoever
watches a ledger does not mind half a second."""
HOUSEKEEPING = frozenset({"stream_start", "checkpoint"})
"""Kinds that the ledger needs for its chain, and nobody else needs to read."""
LOOKED_THROUGH = 5_000
"""Records at the end of a ledger that are looked through before an index is asked for help."""
SEARCHED_LINES = 200_000
"""How far back the newest record of a task is looked for: a crash is not longer ago than that."""
_AIMED = ("blocked", "decision")
"""Kinds of records that tell what a call was aimed at without having touched it."""


class Query(Struct, frozen=True, kw_only=True):
    """What is empty asks for nothing. Times are compared as they are written: UTC, RFC 3339."""

    intent: str = ""
    task: str = ""
    call: str = ""
    """A call's own name: what was asked, decided and done about it."""
    file: str = ""
    """A pattern of a path that was changed, or that a call was aimed at which was refused."""
    kind: str = ""
    outcome: str = ""
    since: str = ""
    until: str = ""
    text: str = ""
    """To be found anywhere in the record."""
    without: frozenset[str] = frozenset()
    """Kinds that are left out."""

    @property
    def takes_all(self) -> bool:
        """Whether nothing is asked for, but that kinds are left out."""
        return self == Query(without=self.without)

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
            and (not self.text or self.text in _words(record))
        )


def moment(text: str, now: datetime) -> str:
    """`7d` is seven days ago; a date is its beginning; what names no zone is UTC.

    Raises ValueError for what is no point in time.
    """
    if ago := _AGO.fullmatch(text.strip()):
        try:
            return written(now - timedelta(seconds=int(ago[1]) * _SECONDS[ago[2]]))
        except OverflowError as error:
            raise ValueError(f"{text} is too long ago") from error
    found = datetime.fromisoformat(text.strip())
    return written(found if found.tzinfo else found.replace(tzinfo=UTC))


def written(when: datetime) -> str:
    """As records say it: UTC, with milliseconds."""
    there = when.astimezone(UTC)
    return f"{there:%Y-%m-%dT%H:%M:%S}.{there.microsecond // 1000:03}Z"


def followed(folder: Path) -> Iterator[TracedRecord]:
    """For ever, from where the ledger ends when this is called. A file that is sealed is read to
    its end before the next one is."""
    path = active_file(folder)
    file = _opened(path)
    if file:
        file.seek(0, os.SEEK_END)
    return _from(file, path)


def recent_records(
    folder: Path,
    index: Callable[[], Path],
    query: Query,
    most: int,
    *,
    looked_through: int = LOOKED_THROUGH,
) -> Iterator[TracedRecord]:
    """Straight from the end of the ledger if they are there; else by the index, which takes a
    while to be made and then saves reading everything. `index` is where that lies."""
    if query.takes_all:
        yield from islice(newest(folder, query), most)
        return
    lines = newest_first(folder)
    last = records_in(islice(lines, looked_through))
    near = list(islice(filter(query.matches, last), most))
    if len(near) == most or next(lines, None) is None:
        yield from near
    else:
        yield from _by_index(folder, index(), query, most)


def newest(folder: Path, query: Query | None = None) -> Iterator[TracedRecord]:
    """The records that match, the last one written first."""
    wanted = query or Query()
    return (record for record in records_in(newest_first(folder)) if wanted.matches(record))


def oldest(folder: Path, query: Query | None = None) -> Iterator[TracedRecord]:
    wanted = query or Query()
    return (record for record in records_in(oldest_first(folder)) if wanted.matches(record))


def _from(file: IO[bytes] | None, path: Path) -> Iterator[TracedRecord]:
    while True:
        if file:
            with file:
                yield from _appended(file, path)
        else:
            time.sleep(PAUSE)
        file = _opened(path)


def _opened(path: Path) -> IO[bytes] | None:
    try:
        return open_ledger_file(path)
    except FileNotFoundError:
        return None


def _appended(file: IO[bytes], path: Path) -> Iterator[TracedRecord]:
    """Until another file has taken the place of this one."""
    rest = b""
    while True:
        replaced = not _is_there(file, path)
        while block := file.readline(LONGEST_LINE):
            rest += block
            if rest.endswith(b"\n") or len(rest) >= LONGEST_LINE:
                yield from records_on(rest)
                rest = b""
        if replaced:
            return
        time.sleep(PAUSE)


def _is_there(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _words(record: TracedRecord) -> str:
    said = (record.id, record.tool_name, record.command, record.error_code, record.approval)
    return " ".join((*said, *record.paths))


def _by_index(folder: Path, place: Path, query: Query, most: int) -> list[TracedRecord]:
    """The index knows paths that were changed. What refused calls were aimed at is looked for
    among those, which are few."""
    from rookery.governance.ledger.ledger_index import LedgerIndex

    index = LedgerIndex(folder, place)
    found = list(islice(index.find(query), most))
    known = {record.id for record in found}
    for kind in _AIMED if query.file else ():
        if query.kind in {"", kind}:
            aimed = filter(query.matches, index.find(replace(query, file="", kind=kind)))
            found += islice((each for each in aimed if each.id not in known), most)
    return sorted(found, key=lambda record: record.time, reverse=True)[:most]


def newest_call(folder: Path, task_id: str, keys: Sequence[bytes]) -> int:
    """The newest call of a task that is on record, by its event; 0 if none is. If there are keys,
    only what one of them signed counts: a command could hide a call behind a record of its own."""
    named = json.dumps(task_id, ensure_ascii=False).encode("utf-8", "replace")
    for line in islice(newest_first(folder), SEARCHED_LINES):
        if named not in line:
            continue
        try:
            record = json.loads(line)
            own = own_part(record) or {}
            seq = own.get("log_seq") if own.get("task_id") == task_id else None
            if isinstance(seq, int) and (not keys or _is_signed(record, own, keys)):
                return seq
        except (ValueError, RecursionError):
            continue
    return 0


def _is_signed(record: dict[str, Any], own: dict[str, Any], keys: Sequence[bytes]) -> bool:
    bare = {name: value for name, value in own.items() if name not in ("hash", "mac")}
    whole = canonical({**record, "metadata": {**record["metadata"], "orchestration": bare}})
    mark = str(own.get("mac")).encode("utf-8", "replace")
    return any(compare_digest(signature(key, whole).encode(), mark) for key in keys)
