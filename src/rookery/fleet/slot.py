"""A slot of a worker: a process that runs one session at a time.

DBOS takes a session from a queue and runs its workflow, whose steps are lives of the session. A
slot shows that it is alive, and looks for slots that do not any more: it ends their leases, and
puts their sessions back into their queues. Both the journal and DBOS refuse what a slot writes
after that, so a slot that finds itself taken over exits at once and is started anew.

Pickled values are refused: what is in the database must not be able to run code here.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import anyio
import msgspec
import psycopg
from dbos import DBOS, DBOSClient, DBOSPortableJSONSerializer
from dbos import _serialization as serialization
from dbos import error as dbos_error
from sqlalchemy.exc import SQLAlchemyError

from rookery.core.fleet_rows import FleetState
from rookery.errors import RookeryError, StorageError
from rookery.first_use import prepared
from rookery.fleet.database import (
    FleetDatabase,
    connect,
    create_tables,
    digest_of,
    reported,
    watchers,
)
from rookery.fleet.journal import PostgresJournals, TakenOver
from rookery.fleet.orders import (
    ANSWERS,
    DEFAULT_QUEUE,
    WORKFLOW,
    Given,
    SessionOrder,
    dbos_address,
    is_cancelled,
    queue_of,
    register,
    seconds_left,
)
from rookery.fleet.session_life import Life, LifeEnd, LifeOrders, LifePlace

APPLICATION = "rookery"
FORMAT = "1"
"""Of orders and steps. Workers of another format do not take each other's sessions."""
BEATS_PER_LEASE = 5
TAKEN_OVER = 75
ANSWER_SECONDS = 7 * 24 * 3600.0
_LOST = (StorageError, psycopg.Error, SQLAlchemyError)
STEP: dict[str, Any] = {
    "retries_allowed": True,
    "max_attempts": 5000,
    "interval_seconds": 2.0,
    "backoff_rate": 1.0,
    "should_retry": lambda error: isinstance(error, StorageError),
}
"""A step is repeated for some hours while the database cannot be reached."""
_PENDING = """
select workflow_uuid, queue_name from dbos.workflow_status
where status = 'PENDING' and executor_id = %s
"""
"""DBOS can list these too, but one row that is not valid makes its list fail."""
_NEWS = "select pg_notify('rookery_sessions', %(task)s)"


class Busy(Exception):
    """This slot has a session already; the other one was put back."""


class Slot:
    """The state of this process. DBOS calls its workflow in threads."""

    def __init__(self, place: LifePlace, name: str, labels: Sequence[str]) -> None:
        self._place = place
        self._name = name
        self._labels = list(labels)
        self._lease = place.lease
        self._free = threading.Lock()
        self._running: tuple[SessionOrder, LifeOrders] | None = None
        self._database = FleetDatabase(place.address, place.executor)
        self._records = FleetDatabase(place.address, place.executor)
        """For the workflow's threads; the other one is for the beat."""
        self._journals = PostgresJournals(place.address, place.executor, place.lease)
        self._client = DBOSClient(
            system_database_url=dbos_address(place.address),
            serializer=DBOSPortableJSONSerializer(),
            system_database_pool_size=2,
            retry_connection_errors=False,
            lazy=True,
        )
        self.draining = threading.Event()
        self._leaving = threading.Event()
        self._steady = 0

    # ── signs of life, and slots without any ────────────────────────────────────────────

    def begin(self) -> None:
        self._database.execute(
            "insert into rookery.workers (executor, name, labels, state, digest) "
            "values (%s, %s, %s, 'ready', %s)",
            [self._place.executor, self._name, self._labels, digest_of(self._place.secret)],
        )

    def beat(self) -> None:
        """Show that this slot lives, and look after others, until it leaves."""
        beaten = time.monotonic()
        while not self._leaving.wait(self._lease / BEATS_PER_LEASE):
            late = time.monotonic() - beaten > self._lease / 2
            beaten = time.monotonic()
            self._steady = 0 if late else self._steady + 1
            try:
                self._show_life()
                # a slot that was stopped or cut off itself cannot tell who is lost
                if self._steady > BEATS_PER_LEASE:
                    self._take_over_lost()
            except Exception as error:  # without beats, other slots would take the session
                self._steady = 0
                print(f"note: {str(error).partition(chr(10))[0]}", file=sys.stderr)

    def _show_life(self) -> None:
        running = self._running
        alive = self._database.execute(
            "update rookery.workers set seen = now(), session = %s "
            "where executor = %s and state <> 'lost' returning executor",
            [running[0].session_id if running else "", self._place.executor],
        ).fetchone()
        if not alive and not self._leaving.is_set():
            leave_taken_over("Another slot took over this slot's session.")
        self._journals.renew()
        if running and is_cancelled(self._database, running[0]):
            running[1].tell("cancel")
        elif running:
            for watcher in watchers(self._database, running[0].session_id):
                running[1].tell(watcher)

    def _take_over_lost(self) -> None:
        self._database.execute(
            "delete from rookery.workers where state = 'lost' and seen < now() - interval '1 hour'"
        )
        lost = self._database.execute(
            "select executor from rookery.workers "
            "where state <> 'lost' and seen < now() - %s * interval '1 second'",
            [self._lease],
        ).fetchall()
        if not lost:
            return
        with self._alone() as alone:
            for (executor,) in lost if alone else ():
                self._journals.fence(executor)
                self._put_back_all(self._database, executor, self._is_alone)
                self._database.execute(
                    "update rookery.workers set state = 'lost', session = '' where executor = %s",
                    [executor],
                )

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        """Whether no other slot takes over just now. The lock of a slot that is stopped meanwhile
        ends with its connection."""
        self._database.execute(
            "select set_config('idle_session_timeout', %s, false)", [f"{self._lease:.0f}s"]
        )
        found = self._database.execute("select pg_try_advisory_lock(826)").fetchone()
        try:
            yield found == (True,)
        finally:
            if found == (True,):
                self._database.execute("select pg_advisory_unlock(826)")

    def _is_alone(self) -> bool:
        held = self._database.execute(
            "select count(*) from pg_locks "
            "where locktype = 'advisory' and objid = 826 and pid = pg_backend_pid() and granted"
        ).fetchone()
        return held == (1,)

    def _put_back_all(
        self, database: FleetDatabase, executor: str, allowed: Callable[[], bool] = lambda: True
    ) -> None:
        for session_id, queue_name in database.execute(_PENDING, [executor]).fetchall():
            if not allowed():
                raise StorageError("This slot was stopped while it took over sessions.")
            self.put_back(session_id, queue_name)

    def put_back(self, session_id: str, queue_name: str | None) -> None:
        self._client.resume_workflow(session_id, queue_name=queue_name or DEFAULT_QUEUE)

    # ── the workflow of a session ───────────────────────────────────────────────────────

    def session(self, text: str) -> dict[str, Any]:
        """The workflow: lives, questions and new tries, until the session is over."""
        order = msgspec.json.decode(text, type=prepared(SessionOrder))
        with self._taken(order):
            given, tries = "", 0
            while True:
                end = msgspec.convert(_life(text, given), prepared(LifeEnd))
                given = ""
                if end.kind == "asked":
                    given = self._receive(text, end.seq)
                    if not given:
                        reason = "The question was not answered in time."
                        end = LifeEnd(kind="failed", reason=reason, code="timeout")
                    elif msgspec.json.decode(given, type=prepared(Given)).cancel:
                        end = LifeEnd(kind="cancelled", reason="The session was cancelled.")
                    else:
                        continue
                if end.kind == "retry" and tries < order.retries:
                    tries += 1
                    DBOS.sleep(2.0**tries)
                    continue
                return _finish(text, msgspec.to_builtins(end))

    def _receive(self, text: str, seq: int) -> str:
        """The answer to the question that the journal ends with, or a cancellation. A second
        answer to an earlier question is dropped."""
        while given := DBOS.recv(ANSWERS, timeout_seconds=_remaining(text)):
            said = msgspec.json.decode(given, type=prepared(Given))
            if said.cancel or said.seq == seq:
                break
        return given or ""

    @contextmanager
    def _taken(self, order: SessionOrder) -> Iterator[None]:
        """Take the slot for a session. Workers with several labels listen to several queues, so
        a second session may arrive, which goes back."""
        if self.draining.is_set() or not self._free.acquire(blocking=False):
            self.put_back(order.session_id, order.queue)
            raise Busy
        try:
            yield
        finally:
            self._free.release()

    def live(self, text: str, given: str) -> dict[str, Any]:
        """One life of the session, as a step: it continues where the journal ends."""
        order = msgspec.json.decode(text, type=prepared(SessionOrder))
        orders = LifeOrders()
        self._running = order, orders
        if self.draining.is_set():
            orders.tell("drain")
        said = msgspec.json.decode(given, type=prepared(Given)) if given else None
        try:
            cancelled = is_cancelled(self._records, order)
            why = "The session was cancelled." if cancelled else ""
            end = LifeEnd(kind="cancelled", reason=why)
            self.record(order, "cancelled" if cancelled else "running", end, claim=True)
            if not cancelled:
                end = anyio.run(Life(self._place, order, said).run, orders)
        except TakenOver as error:
            leave_taken_over(str(error))
        except StorageError:
            raise
        except Exception as error:  # whatever it is, the session must not hang
            why = str(error) if isinstance(error, RookeryError) else repr(error)
            end = LifeEnd(kind="failed", reason=why, code="task_failed")
        finally:
            self._running = None
            orders.tell("over")
        if end.kind == "drained":
            self.leave()
        if end.kind == "asked":
            end = msgspec.structs.replace(end, seq=self.record(order, "waiting", end))
        return dict(msgspec.to_builtins(end))

    def remaining(self, text: str) -> float:
        """Seconds to wait for an answer."""
        left = seconds_left(self._records, msgspec.json.decode(text, type=prepared(SessionOrder)))
        return ANSWER_SECONDS if left is None else left

    def finish(self, text: str, end: dict[str, Any]) -> dict[str, Any]:
        order = msgspec.json.decode(text, type=prepared(SessionOrder))
        ended = msgspec.convert(end, prepared(LifeEnd))
        state: FleetState = "failed"
        if ended.kind in ("completed", "cancelled"):
            state = "cancelled" if ended.kind == "cancelled" else "completed"
        self.record(order, state, ended)
        return end

    def record(
        self, order: SessionOrder, state: FleetState, end: LifeEnd, *, claim: bool = False
    ) -> int:
        """Store the session's state for lists, unless this slot lost the session. Returns where
        the session's journal ends."""
        asks = state == "waiting"
        values = {
            "task": order.session_id,
            "worker": self._place.executor,
            "claim": claim,
            "state": state,
            "question": end.text if asks else "",
            "digest": end.digest,
            "result": "" if asks else end.text,
            "reason": end.reason,
            "code": end.code,
        }
        with reported("did not answer"):
            ends = self._records.execute(
                "update rookery.sessions set state = %(state)s, worker = %(worker)s, "
                "question = %(question)s, digest = %(digest)s, result = %(result)s, "
                "reason = %(reason)s, code = %(code)s "
                "where task = %(task)s and (worker = %(worker)s or %(claim)s) "
                "returning (select seq from rookery.journals j where j.task = sessions.task)",
                values,
            ).fetchone()
            self._records.execute(_NEWS, values)
        return (ends and ends[0]) or 0

    def drain(self) -> None:
        """Take nothing more, and let another slot continue the session."""
        self.draining.set()
        if running := self._running:
            running[1].tell("drain")
        else:
            self.leave()

    def leave(self) -> NoReturn:
        """Put back what this slot has, and exit. If that fails, it is taken for lost later."""
        self._leaving.set()
        try:
            self._put_back_all(self._records, self._place.executor)
            self._records.execute(
                "delete from rookery.workers where executor = %s", [self._place.executor]
            )
        except (*_LOST, dbos_error.DBOSException) as error:
            print(f"note: {str(error).partition(chr(10))[0]}", file=sys.stderr)
        os._exit(0)


_slots: list[Slot] = []
"""The slot of this process, for the functions that DBOS calls by their names."""


@DBOS.workflow(name=WORKFLOW)
def _session(text: str) -> dict[str, Any]:
    return _slots[0].session(text)


@DBOS.step(name="life", **STEP)
def _life(text: str, given: str) -> dict[str, Any]:
    return _slots[0].live(text, given)


@DBOS.step(name="finish", **STEP)
def _finish(text: str, end: dict[str, Any]) -> dict[str, Any]:
    return _slots[0].finish(text, end)


@DBOS.step(name="remaining", **STEP)
def _remaining(text: str) -> float:
    return _slots[0].remaining(text)


def leave_taken_over(why: str) -> NoReturn:
    print(f"note: {why} Restarting the slot.", file=sys.stderr, flush=True)
    os._exit(TAKEN_OVER)


def _refuse(*_: object) -> None:
    raise TypeError("The fleet stores JSON only; a pickled value is not read.")


def run_slot(place: LifePlace, name: str, labels: Sequence[str], limit: int | None) -> Slot:
    """Start to take sessions. Returns at once; threads do the rest."""
    serialization.DefaultSerializer.deserialize = _refuse  # type: ignore[method-assign,assignment]
    with connect(place.address) as database:
        create_tables(database)
    DBOS(
        config={
            "name": APPLICATION,
            "system_database_url": dbos_address(place.address),
            "serializer": DBOSPortableJSONSerializer(),
            "application_version": FORMAT,
            "executor_id": place.executor,
            "sys_db_pool_size": 4,
            "log_level": "ERROR",
        }
    )
    slot = Slot(place, name, labels)
    _slots[:] = [slot]
    queues = [queue_of(label) for label in ("", *labels)]
    DBOS.listen_queues(queues)
    DBOS.launch()
    for each in queues:
        register(DBOS, each, limit)
    slot.begin()
    threading.Thread(target=slot.beat, daemon=True).start()
    return slot
