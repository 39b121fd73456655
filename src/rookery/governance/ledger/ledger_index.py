"""Finds records by intent, task, file and time without reading the whole ledger.

A cache in SQLite. It says where to look; what is there is read from the ledger and compared
with the question again, and verifying never asks it.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

from rookery.governance.ledger.ledger_reader import Query, newest, oldest
from rookery.governance.ledger.segments import (
    active_file,
    lines,
    lines_backwards,
    open_ledger_file,
    sealed_files,
)
from rookery.governance.ledger.traced import TracedRecord, records_in, records_on
from rookery.governance.ledger.verify_ledger import LONGEST_LINE, bounded_lines

_SCHEMA = """
create table if not exists files(name text primary key, size int, last blob);
create table if not exists records(
    file text, offset int, length int, time text, kind text, intent text, task text, outcome text);
create table if not exists paths(path text, record int);
create index if not exists by_intent on records(intent, time);
create index if not exists by_task on records(task, time);
create index if not exists by_time on records(time);
create index if not exists by_file on records(file);
create index if not exists by_path on paths(path);
"""
_REFUSED = ("blocked", "denied")
_WRITES = f"""
select intent, count(*) from records
where intent != '' and outcome not in {_REFUSED} and rowid in (select record from paths)
group by intent
"""
PATIENCE = 1.0
"""Seconds for which an index that others use is waited for."""
_LAST = 200
"""Bytes before the end of what was indexed that must still be the same."""


class LedgerIndex:
    def __init__(self, folder: Path, place: Path, *, patience: float = PATIENCE) -> None:
        """The ledger's folder, and where the index lies: nowhere that an agent can write."""
        self._folder = folder
        self._patience = patience
        self._path = place

    def find(self, query: Query) -> Iterator[TracedRecord]:
        """The records that match, newest first by their times. Compressed files are read through,
        after all others."""
        try:
            database = self._refreshed()
        except sqlite3.Error:  # in use by others for too long: it is only a cache
            yield from newest(self._folder, query)
            return
        with closing(database):
            for name, offset, length in database.execute(*_statement(query)):
                yield from self._records(self._folder / name, offset, length, query)
        for path in reversed(sealed_files(self._folder)):
            if path.suffix == ".gz":
                yield from filter(query.matches, records_in(lines_backwards(path)))

    def writes(self) -> dict[str, int]:
        """How many records changed files, by the intents they changed them for."""
        try:
            database = self._refreshed()
        except sqlite3.Error:
            return writes_in(oldest(self._folder))
        with closing(database):
            counted = dict(database.execute(_WRITES).fetchall())
        packed = (path for path in sealed_files(self._folder) if path.suffix == ".gz")
        for intent, more in writes_in(each for path in packed for each in _of(path)).items():
            counted[intent] = counted.get(intent, 0) + more
        return counted

    def _refreshed(self) -> sqlite3.Connection:
        database = self._opened()
        try:
            self._refresh(database)
        except BaseException:
            database.close()
            raise
        return database

    def _opened(self) -> sqlite3.Connection:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            return _connected(self._path, self._patience)
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:  # no database at all
            self._path.unlink(missing_ok=True)
            return _connected(self._path, self._patience)

    def _refresh(self, database: sqlite3.Connection) -> None:
        there = {
            str(path.relative_to(self._folder)): path
            for path in (*sealed_files(self._folder), active_file(self._folder))
            if path.suffix == ".jsonl" and path.exists()
        }
        for (name,) in database.execute("select name from files").fetchall():
            if name not in there:
                _forget(database, name)
        for name, path in there.items():
            self._take_in(database, name, path)
        database.commit()

    def _take_in(self, database: sqlite3.Connection, name: str, path: Path) -> None:
        found = database.execute("select size, last from files where name = ?", (name,)).fetchone()
        size, last = found or (0, b"")
        with open_ledger_file(path) as file:
            file.seek(max(0, size - len(last)))
            if file.read(len(last)) != last:
                _forget(database, name)
                size = 0
            file.seek(size)
            for line in bounded_lines(file.readline):
                if not line.endswith(b"\n") and len(line) < LONGEST_LINE:
                    break
                _insert(database, name, size, line)
                size, last = size + len(line), line[-_LAST:]
        database.execute("insert or replace into files values(?, ?, ?)", (name, size, last))

    def _records(
        self, path: Path, offset: int, length: int, query: Query
    ) -> Iterator[TracedRecord]:
        with open_ledger_file(path) as file:
            file.seek(offset)
            yield from filter(query.matches, records_on(file.read(length)))


def writes_in(records: Iterable[TracedRecord]) -> dict[str, int]:
    """As `LedgerIndex.writes`, for who has no index."""
    wrote = (each for each in records if each.files and each.outcome not in _REFUSED)
    return Counter(each.intent_id for each in wrote if each.intent_id)


def _of(path: Path) -> Iterator[TracedRecord]:
    return records_in(lines(path))


def _connected(path: Path, patience: float) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=patience)
    try:
        database.execute("pragma synchronous = off")
        database.executescript(_SCHEMA)
    except sqlite3.DatabaseError:
        database.close()
        raise
    return database


def _forget(database: sqlite3.Connection, name: str) -> None:
    owned = "select rowid from records where file = ?"
    database.execute(f"delete from paths where record in ({owned})", (name,))
    database.execute("delete from records where file = ?", (name,))
    database.execute("delete from files where name = ?", (name,))


def _insert(database: sqlite3.Connection, name: str, offset: int, line: bytes) -> None:
    for record in records_on(line):
        told = (record.time, record.kind, record.intent_id, record.task_id, record.outcome)
        row = database.execute(
            "insert into records values(?, ?, ?, ?, ?, ?, ?, ?)", (name, offset, len(line), *told)
        ).lastrowid
        database.executemany(
            "insert into paths values(?, ?)", [(file.path, row) for file in record.files]
        )


def _statement(query: Query) -> tuple[str, tuple[str, ...]]:
    tests = {
        "intent = ?": query.intent,
        "task = ?": query.task,
        "kind = ?": query.kind,
        "outcome = ?": query.outcome,
        "time >= ?": query.since,
        "time < ?": query.until,
        "rowid in (select record from paths where path glob ?)": query.file,
    }
    asked = {test: wanted for test, wanted in tests.items() if wanted}
    where = f" where {' and '.join(asked)}" if asked else ""
    order = " order by time desc, rowid desc"
    return f"select distinct file, offset, length from records{where}{order}", tuple(asked.values())
