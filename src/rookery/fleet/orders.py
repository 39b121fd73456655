"""What people and scripts ask of the fleet: start a session, answer, cancel, list.

A session is one DBOS workflow with the session's id. Its queue is that of its label, so only
workers with this label take it. Queues are partitioned by repository, which limits how many
sessions of one repository run at once. `rookery.sessions` has what lists show.
"""

import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

import msgspec
from dbos import DBOSClient, DBOSPortableJSONSerializer
from dbos import error as dbos_error
from msgspec import Struct
from sqlalchemy.exc import SQLAlchemyError

from rookery.core.asks import AskKind
from rookery.core.facts import Event
from rookery.core.fleet_rows import FleetListing, FleetQueue, FleetSession, FleetState, FleetWorker
from rookery.core.text.characters import whole_values
from rookery.errors import CommandRejected, StorageError
from rookery.first_use import prepared
from rookery.fleet.checkouts import check_name, check_remote
from rookery.fleet.database import FleetDatabase, Watcher, digest_of, reported, watched
from rookery.fleet.journal import read_journal

T = TypeVar("T")
WORKFLOW = "session"
ANSWERS = "answers"
"""The topic of messages to a session."""
DEFAULT_QUEUE = "rookery"
SESSIONS_PER_PROJECT = 50
POLL_SECONDS = 0.5
PRIORITY = 10
PATIENCE = 60.0
"""Seconds that a client waits for a database that is away."""
LOOK_AGAIN = 10.0
"""Seconds after which a client looks without news: its connection may have been lost."""

OVER: tuple[FleetState, ...] = ("completed", "failed", "cancelled")
UNREADABLE = "The session's row in the database is not valid."


LONGEST_ROW = 4 * 1024**2
"""Bytes in a session's row. rookery writes no longer rows, and PostgreSQL may fail to turn one into
JSON."""
LONGEST_NAME = 1000

_TEXTS = "state label repo ref text worker question digest result reason code"
_SIZE = f"octet_length({') + octet_length('.join(_TEXTS.split())})"
_SESSION = f"""
case when {_SIZE} <= {LONGEST_ROW} then json_build_object(
    'session_id', task, 'state', state, 'label', label, 'repo', repo, 'ref', ref, 'text', text,
    'worker', worker, 'question', question, 'digest', digest, 'result', result, 'reason', reason,
    'code', code,
    'created', case when isfinite(created) then floor(extract(epoch from created) * 1000) end,
    'checkpoint', (select left(c.ref, {LONGEST_NAME}) from rookery.checkpoints c
        where c.task = sessions.task)
) end
"""
_WORKERS = f"""
select executor, left(name, {LONGEST_NAME}),
    case when pg_column_size(labels) <= {64 * LONGEST_NAME} then labels end,
    left(state, {LONGEST_NAME}), left(coalesce(nullif(session, ''), (
        select task from rookery.sessions s
        where s.worker = executor and s.state = 'waiting' limit 1
    ), ''), {LONGEST_NAME}),
    case when isfinite(seen) then extract(epoch from now() - seen)::float end
from rookery.workers order by executor
"""
_QUEUES = f"""
select label, count(*) filter (where state = 'queued'), count(*) filter (where state = 'running'),
    count(*) filter (where state = 'waiting')
from rookery.sessions
where state in ('queued', 'running', 'waiting') and octet_length(label) <= {LONGEST_NAME}
group by label
"""


class SessionOrder(Struct, frozen=True, kw_only=True):
    """A session to run. It is stored in the database, so it holds no secret."""

    session_id: str
    text: str
    repo: str
    ref: str
    label: str = ""
    level: str = ""
    """How far the session goes without asking; a worker may allow less."""
    mode: str = ""
    timeout: float = 0.0
    """Seconds from the order to the end; 0 for no limit."""
    retries: int = 3
    """How often a failed request to the model is tried in a new run."""

    @property
    def queue(self) -> str:
        return queue_of(self.label)


class Given(Struct, frozen=True, kw_only=True):
    """A message to a session: the answer to its question, or that it is to end."""

    reply: Literal["yes", "no", "message"] = "yes"
    text: str = ""
    digest: str = ""
    """Of the action or question that the user saw. Anything else is asked again."""
    cancel: bool = False
    seq: int = 0
    """Where the session's journal ended when it asked. Identifies the question."""


def queue_of(label: str) -> str:
    return f"{DEFAULT_QUEUE}:{label}" if label else DEFAULT_QUEUE


def register(queues: Any, name: str, limit: int | None) -> None:
    """Register a queue with DBOS or a client of it. Each slot runs one session at a time."""
    queues.register_queue(
        name,
        worker_concurrency=1,
        partition_concurrency=limit or SESSIONS_PER_PROJECT,
        polling_interval_sec=POLL_SECONDS,
        on_conflict="always_update" if limit else "never_update",
    )


def dbos_address(address: str) -> str:
    """The same address for SQLAlchemy, which needs the driver's name."""
    return f"postgresql+psycopg://{watched(address).partition('://')[2]}"


class Fleet:
    """The fleet as its clients see it."""

    def __init__(self, address: str) -> None:
        self._database = FleetDatabase(address, "client")
        with dbos_errors():
            self._client = DBOSClient(
                system_database_url=dbos_address(address),
                serializer=DBOSPortableJSONSerializer(),
                system_database_pool_size=2,
                retry_connection_errors=False,
            )

    def close(self) -> None:
        self._client.destroy()
        self._database.close()

    def submit(self, order: SessionOrder, priority: int = PRIORITY) -> None:
        """Put a session into its queue. The same order twice is one session."""
        order = _encodable(order)
        check_remote(order.repo)
        check_name(order.session_id)
        check_name(order.ref)
        if not order.text.strip():
            raise CommandRejected("The task is empty.")
        if not math.isfinite(order.timeout):
            raise CommandRejected("The timeout must be a number of seconds; 0 means none.")
        text = msgspec.json.encode(order).decode()
        row = [order.session_id, order.label, order.repo, order.ref, order.text]
        self._ask(
            "insert into rookery.sessions (task, label, repo, ref, text, state) "
            "values (%s, %s, %s, %s, %s, 'queued') on conflict do nothing returning task",
            row,
        )
        same = "select 1 from rookery.sessions where (task, label, repo, ref, text) = "
        if not self._ask(f"{same} (%s, %s, %s, %s, %s)", row):
            raise CommandRejected(
                f"Session {order.session_id} already exists with another task, label, repository "
                "or ref. Choose another id."
            )
        with dbos_errors():
            register(self._client, order.queue, None)
            self._client.enqueue(
                {
                    "workflow_name": WORKFLOW,
                    "queue_name": order.queue,
                    "workflow_id": order.session_id,
                    "queue_partition_key": order.repo,
                    "priority": priority,
                },
                text,
            )

    def answer(self, session_id: str, given: Given) -> None:
        """Answer what the session asks now, or only the action of the digest."""
        session = self.session(session_id)
        if session.state != "waiting":
            raise CommandRejected(f"Session {session_id} is {session.state}; it has no question.")
        if given.digest not in ("", session.digest):
            raise CommandRejected(
                "The session asks something else now. Nothing was answered; look again."
            )
        if session.code == AskKind.FOLLOWUP and given.reply != "message":  # it takes only text
            given = Given(reply="message", text=given.reply)
        if given.reply == "message" and not given.text.strip():
            raise CommandRejected("The answer is empty.")
        with self._database.transaction():
            asked = self._ask(
                "update rookery.sessions s set state = 'running' from rookery.journals j "
                "where s.task = %s and s.state = 'waiting' and s.digest = %s and j.task = s.task "
                "returning j.seq",
                [session_id, session.digest],
            )
            if not asked:
                raise CommandRejected(
                    f"Session {session_id} no longer asks this. Your answer was not sent."
                )
            self._send(
                session_id,
                msgspec.structs.replace(given, digest=session.digest, seq=asked[0][0]),
            )

    def cancel(self, session_id: str) -> None:
        session = self.session(session_id)
        if session.state in OVER:
            raise CommandRejected(f"Session {session_id} is already {session.state}.")
        self._ask(
            "update rookery.sessions set cancelled = true, "
            "state = case when state = 'queued' then 'cancelled' else state end "
            "where task = %s returning task",
            [session_id],
        )
        self._send(session_id, Given(cancel=True))

    def _send(self, session_id: str, given: Given) -> None:
        with dbos_errors():
            text = msgspec.json.encode(_encodable(given)).decode()
            self._client.send(session_id, text, topic=ANSWERS)

    def session(self, session_id: str) -> FleetSession:
        found = self.sessions(session_id)
        if not found:
            raise CommandRejected(f"No such session: {session_id}.")
        return found[0]

    def sessions(self, session_id: str = "", most: int | None = None) -> list[FleetSession]:
        """The newest sessions, or all, or one."""
        found = self._ask(
            f"select task, {_SESSION} from rookery.sessions where %s in ('', task) "
            "order by created desc, task limit %s",
            [session_id, most],
        )
        return [_session(task, row) for task, row in found]

    def workers(self) -> list[FleetWorker]:
        return [_worker(row) for row in self._ask(_WORKERS, [])]

    def listing(self, most: int) -> FleetListing:
        """All workers and queues, and the newest sessions."""
        workers, sessions = self.workers(), self.sessions(most=most)
        counted = self._ask(_QUEUES, [])
        slots = Counter(
            label for worker in workers for label in {"", *worker.labels} if worker.state == "ready"
        )
        states = ("queued", "running", "waiting")
        numbers = {label: dict(zip(states, counts, strict=True)) for label, *counts in counted}
        queues = [
            FleetQueue(label=label, slots=slots[label], **numbers.get(label, {}))
            for label in sorted({"", *numbers, *slots})
        ]
        total = self._ask("select count(*) from rookery.sessions", [])[0][0]
        return FleetListing(
            workers=tuple(workers),
            queues=tuple(queues),
            sessions=tuple(sessions),
            more=total - len(sessions),
        )

    def is_writer(self, session_id: str, executor: str, secret: str) -> bool:
        """Whether this slot writes the session, and the secret is its own."""
        found = self._ask(
            "select 1 from rookery.workers w join rookery.journals j on j.holder = w.executor "
            "where w.executor = %s and w.digest = %s and w.state <> 'lost' and j.task = %s",
            [executor, digest_of(secret), session_id],
        )
        return bool(found)

    def watch(self, session_id: str, watcher: Watcher) -> None:
        """Ask the slot that runs the session to show its text to a manager, for a while."""
        self._ask(
            "insert into rookery.watchers (task, url, fingerprint, machine) "
            "values (%s, %s, %s, %s) on conflict (task, url) do update "
            "set fingerprint = excluded.fingerprint, seen = now() returning task",
            [session_id, watcher.url, watcher.fingerprint, watcher.machine],
        )

    def stop_watching(self, session_id: str, watcher: Watcher) -> None:
        self._ask(
            "delete from rookery.watchers where (task = %s and url = %s) "
            "or seen < now() - interval '1 hour' returning task",
            [session_id, watcher.url],
        )

    def writer(self, session_id: str) -> str:
        """The slot that holds the session's lease; empty if none does."""
        found = self._ask("select holder from rookery.journals where task = %s", [session_id])
        return str(found[0][0]) if found else ""

    def events(self, session_id: str, after: int = 0) -> list[Event]:
        return read_journal(self._database, session_id, after)

    def wait(self, session_id: str, seconds: float | None = None) -> FleetSession:
        """Wait until the session is over or asks something. The database may be away for a
        while."""
        until = time.monotonic() + seconds if seconds else None
        answered = time.monotonic()
        while True:
            try:
                with reported("did not answer"):
                    self._database.execute("listen rookery_sessions")
                session = self.session(session_id)
                answered = time.monotonic()
                left = until - answered if until else LOOK_AGAIN
                if session.state in (*OVER, "waiting", "unreadable") or left <= 0:
                    return session
                with reported("did not answer"):
                    self._database.wait_for_news(min(left, LOOK_AGAIN))
            except StorageError:
                if time.monotonic() - answered > PATIENCE:
                    raise
                time.sleep(1)

    def _ask(self, statement: str, values: Sequence[Any]) -> list[Any]:
        return self._database.ask(statement, whole_values(values))


def _encodable(value: T) -> T:
    """Replace bytes from the command line that are not text."""
    return msgspec.convert(whole_values(msgspec.to_builtins(value)), prepared(type(value)))


def _session(session_id: str, row: dict[str, Any]) -> FleetSession:
    try:
        return msgspec.convert(row, prepared(FleetSession))
    except msgspec.ValidationError:
        fields: dict[str, Any] = dict.fromkeys(FleetSession.__struct_fields__, "")
        known = {"session_id": session_id, "state": "unreadable", "reason": UNREADABLE}
        return FleetSession(**fields | known | {"created": 0, "checkpoint": None})


def _worker(row: Sequence[Any]) -> FleetWorker:
    names = FleetWorker.__struct_fields__
    try:
        return msgspec.convert(dict(zip(names, row, strict=True)), prepared(FleetWorker))
    except msgspec.ValidationError:
        return FleetWorker(
            executor=row[0], name="", labels=(), state="unreadable", session="", seconds=0.0
        )


def is_cancelled(database: FleetDatabase, order: SessionOrder) -> bool:
    statement = "select cancelled from rookery.sessions where task = %s"
    return database.ask(statement, [order.session_id]) == [(True,)]


def seconds_left(database: FleetDatabase, order: SessionOrder) -> float | None:
    """Seconds until the session's time is up; None if there is no limit. The clock is the
    database's: those of machines may differ."""
    if not order.timeout:
        return None
    found = database.ask(
        "select %s - extract(epoch from now() - created)::float from rookery.sessions "
        "where task = %s",
        [order.timeout, order.session_id],
    )
    return max(0.0, found[0][0]) if found else 0.0


@contextmanager
def dbos_errors() -> Iterator[None]:
    try:
        yield
    except (dbos_error.DBOSException, SQLAlchemyError) as error:
        first = str(error).strip().partition("\n")[0]
        raise StorageError(
            f"The fleet's database did not accept this ({first}). Start a worker once; it creates "
            "the tables."
        ) from error
