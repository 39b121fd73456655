"""SQLite index of the ledger, to find records by intent, task, file and time.

It is only a cache: it says where to look. Records are read from the ledger and matched again, and
verification never uses it.
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
LOCK_TIMEOUT = 1.0
"""Seconds to wait for another process that uses the index."""
_LAST = 200
"""Bytes at the end of the indexed part that must be unchanged, else the file is indexed again."""


class LedgerIndex:
    def __init__(self, folder: Path, path: Path, *, timeout: float = LOCK_TIMEOUT) -> None:
        """`path` is the index file. It must be where agents cannot write."""
        self._folder = folder
        self._timeout = timeout
        self._path = path

    def find(self, query: Query) -> Iterator[TracedRecord]:
        """Yield matching records, newest first by time, then those of compressed files, which
        are not indexed."""
        try:
            database = self._open_refreshed()
        except sqlite3.Error:  # locked for too long: it is only a cache
            yield from newest(self._folder, query)
            return
        with closing(database):
            for name, offset, length in database.execute(*_statement(query)):
                yield from self._records(self._folder / name, offset, length, query)
        for path in reversed(sealed_files(self._folder)):
            if path.suffix == ".gz":
                yield from filter(query.matches, records_in(lines_backwards(path)))

    def writes(self) -> dict[str, int]:
        """Number of records that changed files, by intent."""
        try:
            database = self._open_refreshed()
        except sqlite3.Error:
            return count_writes(oldest(self._folder))
        with closing(database):
            counted = dict(database.execute(_WRITES).fetchall())
        packed = (path for path in sealed_files(self._folder) if path.suffix == ".gz")
        for intent, more in count_writes(
            record for path in packed for record in records_in(lines(path))
        ).items():
            counted[intent] = counted.get(intent, 0) + more
        return counted

    def _open_refreshed(self) -> sqlite3.Connection:
        database = self._open()
        try:
            self._refresh(database)
        except BaseException:
            database.close()
            raise
        return database

    def _open(self) -> sqlite3.Connection:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            return _connect(self._path, self._timeout)
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:  # not a database
            self._path.unlink(missing_ok=True)
            return _connect(self._path, self._timeout)

    def _refresh(self, database: sqlite3.Connection) -> None:
        present = {
            str(path.relative_to(self._folder)): path
            for path in (*sealed_files(self._folder), active_file(self._folder))
            if path.suffix == ".jsonl" and path.exists()
        }
        for (name,) in database.execute("select name from files").fetchall():
            if name not in present:
                _remove(database, name)
        for name, path in present.items():
            self._index_file(database, name, path)
        database.commit()

    def _index_file(self, database: sqlite3.Connection, name: str, path: Path) -> None:
        found = database.execute("select size, last from files where name = ?", (name,)).fetchone()
        size, last = found or (0, b"")
        with open_ledger_file(path) as file:
            file.seek(max(0, size - len(last)))
            if file.read(len(last)) != last:
                _remove(database, name)
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


def count_writes(records: Iterable[TracedRecord]) -> dict[str, int]:
    """The same as `LedgerIndex.writes`, without an index."""
    wrote = (each for each in records if each.files and each.outcome not in _REFUSED)
    return Counter(each.intent_id for each in wrote if each.intent_id)


def _connect(path: Path, timeout: float) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=timeout)
    try:
        database.execute("pragma synchronous = off")
        database.executescript(_SCHEMA)
    except sqlite3.DatabaseError:
        database.close()
        raise
    return database


def _remove(database: sqlite3.Connection, name: str) -> None:
    owned = "select rowid from records where file = ?"
    database.execute(f"delete from paths where record in ({owned})", (name,))
    database.execute("delete from records where file = ?", (name,))
    database.execute("delete from files where name = ?", (name,))


def _insert(database: sqlite3.Connection, name: str, offset: int, line: bytes) -> None:
    for record in records_on(line):
        values = (record.time, record.kind, record.intent_id, record.task_id, record.outcome)
        row = database.execute(
            "insert into records values(?, ?, ?, ?, ?, ?, ?, ?)", (name, offset, len(line), *values)
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
    used = {test: wanted for test, wanted in tests.items() if wanted}
    where = f" where {' and '.join(used)}" if used else ""
    order = " order by time desc, rowid desc"
    return f"select distinct file, offset, length from records{where}{order}", tuple(used.values())
