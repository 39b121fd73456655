"""One life of a session: from its checkout on this worker to its end, a question, or a stop.

A life begins where the journal ends, so it does not matter whether the one before it was ended or
killed, or on which worker it was. What that one changed after its last checkpoint is lost with its
machine; the session says so before it continues.

Text that the model streams does not go through the database. A manager that shows a session leaves
its address there; the slot connects to it with a WebSocket and is then the host on it, which the
manager follows. Only passing events are sent: lasting ones are in the database, so a manager that
misses the text loses nothing. A slot proves who it is with a secret whose digest is in its row. The
certificate of a manager must have the fingerprint that it left.
"""

import logging
import os
import queue
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Literal, NoReturn, TypeAlias, TypeVar

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from msgspec import Struct

from rookery.app.local_host import open_host
from rookery.app.model_choice import ModelChoice, choose_model
from rookery.app.task_hooks import Consent
from rookery.core.asks import CATEGORY, AskCategory, AskKind, takes
from rookery.core.commands import Command, OpenTask, ReopenTask
from rookery.core.facts import (
    Asked,
    CompletionOffered,
    Event,
    FilesChanged,
    ToolFinished,
    ToolStarted,
)
from rookery.core.folds.task_record import fold
from rookery.core.modes import Level
from rookery.core.queries import Asking
from rookery.core.settings import Settings
from rookery.errors import CommandRejected, RookeryError, first_error
from rookery.faults import kp
from rookery.fleet.checkouts import PROTOCOLS, SavedCheckpoint, SessionCheckout, check_name
from rookery.fleet.database import FleetDatabase, Watcher, digest_of, reported
from rookery.fleet.journal import PostgresJournals, TakenOver
from rookery.fleet.orders import Given, SessionOrder, seconds_left
from rookery.platform.user_folders import Places, find_places
from rookery.protocol.attend import Displays, Fate, Leave, Response, RunEnd, Say, attend
from rookery.protocol.codec import Host
from rookery.protocol.outcomes import Unattended
from rookery.protocol.server import serve
from rookery.protocol.worker_channel import WorkerGreeting, dial_manager
from rookery.storage.sessions import TaskStore
from rookery.storage.settings_files import find_settings

T = TypeVar("T")
_debug = logging.getLogger(__name__)
Kind: TypeAlias = Literal["completed", "failed", "retry", "asked", "cancelled", "drained"]
AGAIN = ("rate_limited", "stalled")
"""Failures of the model's provider after which a later life may succeed."""
_SAVE = """
insert into rookery.checkpoints (task, seq, commit, ref)
select task, %(seq)s, %(commit)s, %(ref)s from rookery.journals
where task = %(task)s and token = %(token)s
on conflict (task) do update
    set seq = excluded.seq, commit = excluded.commit, ref = excluded.ref
"""


class LifeEnd(Struct, frozen=True, kw_only=True):
    kind: Kind
    text: str = ""
    """The result, or the question."""
    reason: str = ""
    code: str = ""
    digest: str = ""
    seq: int = 0
    """Where the journal ends after the question."""


LifeOrder: TypeAlias = Literal["cancel", "drain", "over"] | Watcher


class LifeOrders:
    """A queue of orders to one life: to end, or to show its text to a watcher."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[LifeOrder] = queue.SimpleQueue()
        self.tell = self._queue.put
        self.wait = self._queue.get


class LifePlace(Struct, frozen=True):
    """Where lives run: what a worker was started with."""

    address: str
    executor: str
    root: Path
    highest: Level | None
    """The level that no order exceeds; None for that of the settings."""
    lease: float
    secret: str
    """Proves to managers that text comes from this slot."""
    protocols: str = PROTOCOLS
    """What git may use to reach remotes, separated by colons."""


class Life:
    def __init__(self, place: LifePlace, order: SessionOrder, given: Given | None) -> None:
        self._place = place
        self._order = order
        self._given = given
        check_name(order.session_id)
        check_name(order.ref)
        self._journals = PostgresJournals(place.address, place.executor, place.lease)
        self._database = FleetDatabase(place.address, place.executor)
        self._checkout = SessionCheckout(place.root, order.repo, order.session_id, place.protocols)
        self._changed = anyio.Event()
        self._seq = 0
        self._result = ""

    async def run(self, orders: LifeOrders) -> LifeEnd:
        """Raises `StorageError` if the database is lost, and `TakenOver` if the lease is."""
        try:
            return await self._run(orders)
        except BaseExceptionGroup as errors:
            raise first_error(errors) from errors
        finally:
            self._journals.close()
            self._database.close()

    async def _run(self, orders: LifeOrders) -> LifeEnd:
        session_id = self._order.session_id
        # a life that lost the database could not release the session; this slot has no other
        self._journals.fence(self._place.executor)
        stored: Sequence[Event] = ()
        if self._journals.exists(session_id):
            stored = self._journals.read(session_id)
        saved = self._last_checkpoint()
        lost = lost_changes(stored, saved.seq if saved else 0)
        if (done := fold(stored).completion) is not None and not lost:
            return LifeEnd(kind="completed", text=done)  # the worker was lost right after it
        try:
            await anyio.to_thread.run_sync(self._checkout.prepare, self._order.ref, saved)
        except (RookeryError, OSError) as error:
            return LifeEnd(kind="retry", reason=str(error), code="task_failed")
        kp("fleet.checked_out")
        respond = FleetResponder(lost, self._given, automatic=self._level is Level.AUTO)
        end = LifeEnd(kind="drained")
        async with self._host() as host:
            first = OpenTask(
                task_id=session_id,
                text=self._order.text,
                mode=self._order.mode or self._settings.mode,
                level=self._level,
            )
            await host.send(ReopenTask(task_id=session_id, level=self._level) if stored else first)
            async with anyio.create_task_group() as group:
                group.start_soon(self._save_checkpoints)
                group.start_soon(self._watch, orders, host, group)
                with anyio.move_on_after(self._remaining) as limit:
                    run = await attend(
                        host,
                        session_id,
                        display=Displays(self, respond),
                        respond=respond,
                        after=stored[-1].seq if stored else 0,
                    )
                    end = self._end_of(run, respond)
                if limit.cancelled_caught:
                    reason = f"The session reached its timeout of {self._order.timeout:g} s."
                    end = LifeEnd(kind="failed", reason=reason, code="timeout")
                group.cancel_scope.cancel()
        if self._stopped == "cancel":
            end = LifeEnd(kind="cancelled", reason="The session was cancelled.")
        with anyio.CancelScope(shield=True):
            unsaved = await anyio.to_thread.run_sync(self._save)
        if unsaved and end.kind != "drained":
            reason = f"The files of the session could not be pushed: {unsaved}"
            return LifeEnd(kind="failed", text=end.text, reason=reason, code="task_failed")
        if not unsaved:
            await anyio.to_thread.run_sync(self._checkout.remove)
        return end

    _stopped: str = ""

    async def _watch(self, orders: LifeOrders, host: Host, group: TaskGroup) -> None:
        shown: set[str] = set()
        while isinstance(
            told := await anyio.to_thread.run_sync(orders.wait, abandon_on_cancel=True), Watcher
        ):
            if told.url not in shown:
                shown.add(told.url)
                group.start_soon(self._show_text, told, host, shown)
        self._stopped = told
        if told != "over":
            group.cancel_scope.cancel()

    async def _show_text(self, watcher: Watcher, host: Host, shown: set[str]) -> None:
        greeting = WorkerGreeting(
            executor=self._place.executor,
            secret=self._place.secret,
            session_id=self._order.session_id,
        )
        await show_text(watcher, host, greeting)
        shown.discard(watcher.url)

    def _host(self) -> AbstractAsyncContextManager[Host]:
        places = find_places(os.environ)
        settings = self._settings
        choose = partial(_choose, places)
        return open_host(
            settings,
            choose(settings),
            TaskStore(places),
            self._checkout.folder,
            places,
            Consent(level=self._level, acts_anyway=True, attended=False),
            choose=choose,
            logs=self._journals,
        )

    @property
    def _settings(self) -> Settings:
        """The worker's own settings. A repository of the fleet sets none."""
        places = find_places(os.environ)
        return find_settings(places.settings_file, None, os.environ, {}).settings

    @property
    def _level(self) -> Level:
        highest = self._place.highest or self._settings.level(once=True)
        ordered = Level(self._order.level) if self._order.level else highest
        return min(ordered, highest, key=list(Level).index)

    def show(self, event: Event, child: str = "") -> None:
        """Note what happened, for checkpoints and the result."""
        if child:
            return
        if event.fact.lasting:
            self._seq = event.seq
        match event.fact:
            case FilesChanged(before=before, after=after) if before != after:
                self._changed.set()
            case CompletionOffered(result=result):
                self._result = result
            case _:
                pass

    async def _save_checkpoints(self) -> None:
        """Push a checkpoint after files changed. Changes during a push are in the next one."""
        while True:
            await self._changed.wait()
            self._changed = anyio.Event()
            await anyio.to_thread.run_sync(self._save)

    def _save(self) -> str:
        """Push the files, and record it if this worker still has the lease. Returns why the files
        were not pushed; empty if they were."""
        seq, token = self._seq, self._journals.tokens.get(self._order.session_id)
        if token is None:
            return ""
        try:
            saved = self._checkout.save(seq, token)
        except RookeryError as error:
            return str(error)
        kp("fleet.pushed")
        values: dict[str, object] = {"task": self._order.session_id, "token": token, "seq": seq}
        with reported("did not record a checkpoint"):
            values |= {"commit": saved.commit, "ref": saved.ref}
            recorded = self._database.execute(_SAVE, values).rowcount
        if not recorded:  # the next push would remove the checkpoint that counts
            raise TakenOver(f"Another worker has taken over session {self._order.session_id}.")
        return ""

    @property
    def _remaining(self) -> float | None:
        return seconds_left(self._database, self._order)

    def _last_checkpoint(self) -> SavedCheckpoint | None:
        statement = "select seq, commit, ref from rookery.checkpoints where task = %s"
        found = self._database.ask(statement, [self._order.session_id])
        return SavedCheckpoint(*found[0]) if found else None

    def _end_of(self, end: RunEnd, respond: "FleetResponder") -> LifeEnd:
        if respond.question:
            asked = respond.question
            return LifeEnd(kind="asked", text=asked.text, digest=_shown(asked), code=asked.ask)
        if end.fate is Fate.COMPLETED:
            return LifeEnd(kind="completed", text=self._result, reason=end.reason, code=end.code)
        kind: Kind = "retry" if end.code in AGAIN else "failed"
        return LifeEnd(kind=kind, text=self._result, reason=end.reason, code=end.code)


class FleetResponder(Unattended):
    """Answers what a rule can answer. A question for a person ends the life; the next one has
    the answer, and gives it if the question is about the same action."""

    def __init__(self, opening: str, given: Given | None, *, automatic: bool) -> None:
        super().__init__(opening, automatic=automatic)
        self._answer_given = given
        self.question: Asked | None = None

    async def __call__(self, asked: Asked) -> Response:
        for_a_person = CATEGORY[asked.ask] is AskCategory.INTERACTIVE
        if not for_a_person or asked.ask is AskKind.CONDENSE:
            return await super().__call__(asked)
        given, self._answer_given = self._answer_given, None
        if given and given.digest == _shown(asked) and given.reply in takes(asked.ask):
            return Say(given.reply, given.text)
        self.question = asked
        return Leave("The session waits for an answer.", "needs_human")


def _shown(asked: Asked) -> str:
    """The digest of the action, or of the text if the question is not about an action."""
    return asked.digest or digest_of(asked.text)


def lost_changes(events: Sequence[Event], saved: int) -> str:
    """What to say about changes after event `saved`, whose files are not here; empty if none."""
    paths = dict.fromkeys(
        change.path
        for event in events
        if event.seq > saved and isinstance(event.fact, ToolStarted)
        for change in event.fact.changes
    )
    commands = dict.fromkeys(
        event.fact.command
        for event in events
        if event.seq > saved and isinstance(event.fact, ToolStarted) and event.fact.command
    )
    changed = any(
        event.seq > saved and isinstance(event.fact, FilesChanged | ToolFinished)
        for event in events
    )
    if not changed or not (paths or commands):
        return ""
    what = [f"changes to {', '.join(paths)}"] if paths else []
    what += [f"changes by these commands: {'; '.join(commands)}"] if commands else []
    return (
        "The worker that ran this session was lost, and another one continues it. These were not "
        f"pushed and may be lost: {'; '.join(what)}. Look at the files before you continue."
    )


def _choose(places: Places, settings: Settings) -> ModelChoice:
    return choose_model(settings, os.environ, places.keys_file, None)


async def show_text(watcher: Watcher, host: Host, greeting: WorkerGreeting) -> None:
    """Send a session's text to a manager until it disconnects. Errors do not stop the session."""
    try:
        async with dial_manager(watcher.url, watcher.fingerprint, greeting) as channel:
            await serve(PassingEvents(host, greeting.session_id), channel)
    except Exception as error:
        _debug.debug("the text is not shown to %s: %r", watcher.url, error)


class PassingEvents(Struct):
    """A host that only shows the passing events of one session."""

    host: Host
    session_id: str

    async def follow(self, task_id: str, after: int = 0) -> AsyncIterator[Event]:
        if task_id != self.session_id:
            _refuse()
        async for event in self.host.follow(task_id, after):
            if not event.fact.lasting:
                yield event

    async def send(self, command: Command) -> None:
        _refuse()

    async def query(self, query: Asking[T]) -> T:
        _refuse()


def _refuse() -> NoReturn:
    raise CommandRejected("A worker only shows the text of its session. It accepts no commands.")
