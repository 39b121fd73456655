"""One session's log in PostgreSQL, written by one worker at a time.

A writer holds a lease: a token that increases with every writer, and a time. Facts are appended by
one statement that also compares the token, so a worker that lost its lease while it was stopped or
cut off cannot write any more, however late it wakes up.

Only lasting facts are stored. Those that may wait are sent with the next one that may not.
"""

from collections.abc import Sequence
from typing import ClassVar

import psycopg

from rookery.core.facts import Event, Noted, TaskOpened
from rookery.core.folds.task_record import TaskRecord
from rookery.core.limits import MIB
from rookery.errors import StorageError
from rookery.faults import kp
from rookery.fleet.database import FleetDatabase, Values, reason, reported
from rookery.protocol.codec import event_from_json, event_to_json
from rookery.storage.journal import Journal
from rookery.storage.journal_lines import FORMAT, LONGEST

LEASE_SECONDS = 10.0

_CREATE = """
insert into rookery.journals (task, token, holder, expires)
values (%(task)s, 1, %(holder)s, now() + %(lease)s * interval '1 second')
on conflict (task) do update
    set token = journals.token + 1, holder = excluded.holder, expires = excluded.expires
    where journals.seq = 0 and (journals.holder = '' or journals.expires < now())
returning token, seq, size
"""
_OPEN = """
update rookery.journals
set token = token + 1, holder = %(holder)s, expires = now() + %(lease)s * interval '1 second'
where task = %(task)s and (holder = '' or expires < now()) and seq > 0
returning token, seq, size
"""
_APPEND = """
with held as (
    update rookery.journals
    set seq = %(last)s, size = size + %(size)s, expires = now() + %(lease)s * interval '1 second'
    where task = %(task)s and token = %(token)s and seq = %(before)s
    returning task
)
insert into rookery.events (task, seq, json)
select held.task, line.seq, line.json
from held, unnest(%(seqs)s::integer[], %(lines)s::bytea[]) as line (seq, json)
"""
_RELEASE = "update rookery.journals set holder = '' where task = %s and token = %s"


class TakenOver(StorageError):
    """Another worker writes this session now."""


class PostgresJournal:
    """The log of one session, held by its only writer until it is closed."""

    largest: ClassVar[int] = Journal.largest

    def __init__(
        self, database: FleetDatabase, task_id: str, lease: float, held: tuple[int, int, int]
    ) -> None:
        self._database = database
        self._task = task_id
        self._lease = lease
        self.token, self._stored, self._size = held
        self._seq = self._stored
        self._waiting: list[bytes] = []
        self._refusal = ""
        self._closed = False
        self.recovered = ""

    def write(self, event: Event) -> None:
        """Durable on return, unless the fact may wait. After an error nothing has changed."""
        assert event.fact.lasting
        assert event.seq == self._seq + 1
        if self._refusal:
            raise StorageError(self._refusal)
        line = event_to_json(event)
        self._check_size(len(line))
        kp("journal.before_write")
        self._waiting.append(line)
        try:
            if type(event.fact) not in Journal.waits:
                self._flush()
        except BaseException:
            self._waiting.pop()
            raise
        self._seq = event.seq
        self._size += len(line)
        kp("journal.synced")
        if isinstance(event.fact, Noted) and event.fact.text == self.recovered:
            self.recovered = ""

    def read(self) -> TaskRecord:
        self._flush()
        return TaskRecord.of(read_journal(self._database, self._task))

    def close(self) -> None:
        """Send what waits, and let another worker write."""
        if self._closed:
            return
        self._closed = True
        if self._refusal:
            return
        self._flush()
        with reported("did not end the session's lease, which expires by itself"):
            self._database.execute(_RELEASE, [self._task, self.token])

    def _flush(self) -> None:
        if not self._waiting:
            return
        last = self._stored + len(self._waiting)
        values = {
            "task": self._task,
            "token": self.token,
            "lease": self._lease,
            "before": self._stored,
            "last": last,
            "size": sum(map(len, self._waiting)),
            "seqs": list(range(self._stored + 1, last + 1)),
            "lines": self._waiting,
        }
        try:
            written = self._database.execute(_APPEND, values).rowcount
        except psycopg.OperationalError as error:
            written = self._written_after(error, values)
        except psycopg.Error as error:
            raise _unwritten(error) from error
        if not written:
            self._refusal = (
                f"Another worker has taken over session {self._task}, so this worker stops writing "
                "it. Everything written so far is kept."
            )
            raise TakenOver(self._refusal)
        kp("journal.written")
        self._stored = last
        self._waiting.clear()

    def _written_after(self, lost: psycopg.Error, values: dict[str, object]) -> int:
        """Find out whether a statement took effect whose connection was lost, and repeat it if
        not. If that cannot be found out, the end of the log is uncertain."""
        try:
            found = self._database.execute(
                "select seq from rookery.journals where task = %s and token = %s",
                [self._task, self.token],
            ).fetchone()
            if found == (values["last"],):
                return len(self._waiting)
            return self._database.execute(_APPEND, values).rowcount
        except (psycopg.Error, StorageError):
            self._refusal = (
                f"The end of session {self._task} is uncertain: the connection to the fleet's "
                f"database was lost during a write ({reason(lost)}). A worker continues the "
                "session."
            )
            raise StorageError(self._refusal) from lost

    def _check_size(self, added: int) -> None:
        if added > LONGEST:
            raise StorageError(
                f"An event of {added:,} bytes is too large for the session's journal; the "
                f"limit is {LONGEST:,}. Everything up to here is kept."
            )
        if self._size + added > self.largest:
            raise StorageError(
                f"The session's journal is full: the limit is {self.largest / MIB:,.0f} MiB. "
                "Everything up to here is kept; continue in a new session."
            )


class PostgresJournals:
    """The logs of all sessions of a fleet, for one worker. For one thread."""

    def __init__(self, address: str, holder: str, lease: float = LEASE_SECONDS) -> None:
        self._database = FleetDatabase(address, holder)
        self._holder = holder
        self._lease = lease
        self.tokens: dict[str, int] = {}
        """Of the sessions that were opened here, open or not."""

    def exists(self, task_id: str) -> bool:
        found = self._ask("select seq from rookery.journals where task = %s", [task_id])
        return bool(found and found[0][0])

    def create(self, task_id: str) -> PostgresJournal:
        held = self._ask(_CREATE, self._wanted(task_id))
        if not held:
            raise self._refusal(task_id, f"Session {task_id} already exists.")
        return self._held(task_id, held[0])

    def open(self, task_id: str) -> PostgresJournal:
        held = self._ask(_OPEN, self._wanted(task_id))
        if not held:
            raise self._refusal(task_id, f"No such session: {task_id}.")
        journal = self._held(task_id, held[0])
        opened = self.read(task_id)[0].fact
        if isinstance(opened, TaskOpened) and opened.format > FORMAT:
            journal._refusal = (
                f"Session {task_id} was written by a newer version (format {opened.format}); "
                "this one can only read it. Update this worker."
            )
        return journal

    def read(self, task_id: str, after: int = 0) -> list[Event]:
        """The stored events. Needs no lease."""
        events = read_journal(self._database, task_id, after)
        if not (events or after):
            raise StorageError(f"No such session: {task_id}.")
        return events

    def delete(self, task_id: str) -> None:
        gone = self._ask(
            "delete from rookery.journals where task = %s and (holder = '' or expires < now()) "
            "returning task",
            [task_id],
        )
        if not gone:
            raise self._refusal(task_id, f"No such session: {task_id}.")

    def fence(self, holder: str) -> None:
        """End the leases of a worker that is lost. Whatever it writes from now on fails."""
        self._ask(
            "update rookery.journals set token = token + 1, holder = '' where holder = %s "
            "returning task",
            [holder],
        )

    def renew(self) -> None:
        """Extend the leases of this worker."""
        self._ask(
            "update rookery.journals set expires = now() + %s * interval '1 second' "
            "where holder = %s returning task",
            [self._lease, self._holder],
        )

    def close(self) -> None:
        self._database.close()

    def _held(self, task_id: str, held: tuple[int, int, int]) -> PostgresJournal:
        self.tokens[task_id] = held[0]
        return PostgresJournal(self._database, task_id, self._lease, held)

    def _wanted(self, task_id: str) -> dict[str, object]:
        return {"task": task_id, "holder": self._holder, "lease": self._lease}

    def _refusal(self, task_id: str, why: str) -> StorageError:
        """Says why, unless another worker holds the session."""
        found = self._ask(
            "select holder from rookery.journals "
            "where task = %s and holder <> '' and expires >= now()",
            [task_id],
        )
        if found:
            why = f"Session {task_id} is open on {found[0][0]}. Close it there, or start another."
        return StorageError(why)

    def _ask(self, statement: str, values: Values) -> Sequence[tuple[int, int, int]]:
        """Run a statement that may be repeated after a lost connection."""
        with reported("did not answer"):
            try:
                return self._database.execute(statement, values).fetchall()
            except psycopg.OperationalError:
                return self._database.execute(statement, values).fetchall()


def read_journal(database: FleetDatabase, task_id: str, after: int = 0) -> list[Event]:
    statement = "select json from rookery.events where task = %s and seq > %s order by seq"
    found = database.ask(statement, [task_id, after])
    try:
        return [event_from_json(json) for (json,) in found]
    except ValueError as error:
        raise StorageError(
            f"This version cannot read an event of session {task_id} ({error}). Update this worker."
        ) from error


def _unwritten(error: psycopg.Error) -> StorageError:
    return StorageError(
        f"The session's journal could not be written ({reason(error)}); everything up to here is "
        "kept. Make room in the fleet's database, or grant its role the right to write."
    )
