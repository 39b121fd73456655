"""All sessions of a project: starts, messages, supervision, restarts.

Closing the supervisor ends no process; the next supervisor of the project adopts them.
"""

import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup
from msgspec.structs import replace

from rookery.core.commands import EditQueue
from rookery.errors import CommandRejected, StorageError
from rookery.manager.dependencies import StoredTasks
from rookery.manager.sessions import message_queue
from rookery.manager.sessions import session_events as events
from rookery.manager.sessions.admission import (
    DEFAULT_LIMIT,
    Admission,
    OutsideSessions,
    Preparations,
    adopted_record,
    busy,
    check_prompt,
    complete_list,
    load,
)
from rookery.manager.sessions.conversation import Timings
from rookery.manager.sessions.message_queue import Terms
from rookery.manager.sessions.session_folders import (
    SessionFolder,
    SessionFolders,
    SessionOptions,
    launch_of,
    record_of,
)
from rookery.manager.sessions.session_record import Counts, SessionRecord, count_records, label_of
from rookery.manager.sessions.session_store import SessionStore, manager_folder
from rookery.manager.sessions.session_summary import (
    ChangeFeed,
    SessionQuestion,
    SessionSummary,
    Switches,
    question_in,
    question_of,
    sort_questions,
    summary_of,
    summary_of_record,
    switch,
)
from rookery.manager.sessions.supervised_session import SupervisedSession
from rookery.platform.user_folders import Places
from rookery.protocol.codec import Host

if TYPE_CHECKING:
    from rookery.manager.handlers.terminals import Terminals


@asynccontextmanager
async def open_supervisor(
    project: Path,
    places: Places,
    environ: Mapping[str, str],
    tasks: StoredTasks,
    *,
    limit: int = DEFAULT_LIMIT,
    timings: Timings | None = None,
) -> AsyncIterator["Supervisor"]:
    """Open the supervisor of a project and adopt its sessions. They run on after it is closed."""
    store = SessionStore(project, manager_folder(places, project))
    try:
        async with anyio.create_task_group() as group:
            supervisor = Supervisor(
                store, places, environ, tasks, group, limit=limit, timings=timings or Timings()
            )
            await supervisor.restore_sessions()
            yield supervisor
            group.cancel_scope.cancel()
    finally:
        store.close()


class Supervisor:
    def __init__(
        self,
        store: SessionStore,
        places: Places,
        environ: Mapping[str, str],
        tasks: StoredTasks,
        group: TaskGroup,
        *,
        limit: int,
        timings: Timings,
    ) -> None:
        self.project = store.project
        self.environ = environ
        self.store = store
        self.group = group
        self.timings = timings
        self.tasks = tasks
        self._folders = SessionFolders(places)
        self._sessions: dict[str, SupervisedSession] = {}
        self.admission = Admission(self._sessions, limit)
        self._changes = ChangeFeed()
        self._outside = OutsideSessions(self.project, tasks)
        self.preparations = Preparations(self)
        self.start_obstacle: Callable[[SessionRecord], str | None] = lambda _: None
        """Returns why a session cannot start a process, or None. Called before every start."""
        self.on_followed: Callable[[], None] = lambda: None
        """Called when a client follows the list."""
        self.schedule_notice = ""
        """What to say about schedules, as a sentence."""
        self.run_schedules: Callable[[], Coroutine[Any, Any, None]] = anyio.lowlevel.checkpoint
        """Starts scheduled sessions until cancelled, in a manager that stays open."""
        self.terminals: Terminals | None = None
        """Opens shells for clients; None if this manager offers none."""

    @property
    def notices(self) -> tuple[str, ...]:
        """Problems with the session list, as sentences for the user."""
        return (*self.store.notices, *filter(None, [self.schedule_notice]))

    @property
    def read_only(self) -> str:
        """Why sessions cannot be changed here; empty if they can."""
        return self.store.read_only

    async def restore_sessions(self) -> None:
        """Complete the list and adopt the processes that an earlier supervisor left."""
        if self.read_only:
            await self.refresh()
            return
        self.group.start_soon(self.store.save_when_changed)
        complete_list(self.store, self._folders, self.tasks)
        for record in self.store.all():
            await load(self.add(record))
        async with anyio.create_task_group() as group:
            for session in self._sessions.values():
                group.start_soon(session.check_responsive)
        for session in self._sessions.values():
            session.save()
        self.store.save()
        await self.refresh()
        self.admission.admit()

    async def refresh(self) -> None:
        """Look for sessions that were started, continued or deleted without a manager."""
        sessions = tuple(self._sessions.values())
        for session_id in await self._outside.refresh(self._known(), sessions):
            self._changes.note(session_id)
        for session in sessions:
            if session.id not in self._outside.elsewhere:
                await self._outside.catch_up(session)

    async def ensure_supervised(self, session_id: str) -> SupervisedSession | None:
        """Return a session to act on, adopted if needed; None if it is unknown or read-only."""
        if self.read_only:
            return None
        if session := self._sessions.get(session_id):
            await self._outside.catch_up(session)
            return session
        await self.refresh()
        async with self._outside.lock:
            if session_id not in self._sessions and (
                options := self._outside.options_for(session_id)
            ):
                await self.adopt_task(session_id, options, self._outside.records[session_id])
                self.mark_read(session_id)
        return self._sessions.get(session_id)

    async def start(self, options: SessionOptions) -> str:
        """Start a session and return its id. Raises `CommandRejected` or `StorageError`."""
        self._check_writable()
        check_prompt(options)
        session_id = str(uuid.uuid4())
        folder = self._folders.of(session_id)
        folder.keep_launch(launch_of(options, self.project))
        session = self.add(record_of(options, session_id))
        try:
            await session.act(events.StartEvent(text=options.prompt, images=options.images))
        except StorageError:
            folder.remove()
            self.forget(session_id)
            raise
        return session_id

    async def adopt_task(
        self, session_id: str, options: SessionOptions, known: SessionRecord | None = None
    ) -> None:
        """Adopt a stored task as an idle session. Raises `CommandRejected` if it cannot."""
        self._check_writable()
        if session_id in self._sessions:
            raise CommandRejected(f"Session {session_id} already exists.")
        folder, launch = self._folders.of(session_id), launch_of(options, self.project)
        session = self.add(await adopted_record(folder, launch, options, self.tasks, known))
        folder.keep_launch(launch)
        await session.load_history()
        await load(session)
        session.save(now=True)

    async def send(
        self, session_id: str, text: str, images: tuple[str, ...] = (), *, ask_ts: int | None = None
    ) -> None:
        """Send a message: the answer to the question `ask_ts`, or a message for the queue."""
        message_queue.check(events.UserMessage(text=text, images=images))
        if not (text.strip() or images):
            raise CommandRejected("The message is empty.")
        await self.find(session_id).act(events.SendEvent(text=text, images=images, ask_ts=ask_ts))

    async def approve(
        self, session_id: str, ask_ts: int, text: str = "", terms: Terms | None = None
    ) -> None:
        await self.find(session_id).act(events.ApproveEvent(ask_ts=ask_ts, text=text), terms)

    async def reject(
        self, session_id: str, ask_ts: int, text: str = "", terms: Terms | None = None
    ) -> None:
        await self.find(session_id).act(events.RejectEvent(ask_ts=ask_ts, text=text), terms)

    async def cancel(self, session_id: str) -> None:
        await self.find(session_id).act(events.CancelEvent())

    async def resume(self, session_id: str, text: str = "") -> None:
        await self.find(session_id).act(events.ResumeEvent(text=text))

    async def retry(self, session_id: str) -> None:
        await self.find(session_id).act(events.RetryEvent())

    def rename(self, session_id: str, label: str) -> None:
        """Rename a session; an empty label restores the name made from its prompt."""
        record = self.find(session_id).record
        named = label_of(label)
        shown_as = named or label_of(record.prompt)
        self.rewrite(replace(record, label=shown_as, renamed=bool(named)))

    def archive(self, session_id: str, *, archived: bool = True) -> None:
        self.rewrite(replace(self.find(session_id).record, archived=archived))

    def mark_read(self, session_id: str) -> None:
        record = self.find(session_id).record
        if record.unread:
            self.rewrite(replace(record, unread=False))

    def retry_message(self, session_id: str, number: int) -> None:
        session = self.find(session_id)
        self.rewrite(message_queue.retried(session.record, number))
        session.keeper.wake_for_messages()

    def discard_message(self, session_id: str, number: int) -> None:
        self.rewrite(message_queue.discarded(self.find(session_id).record, number))

    async def edit_queued(self, session_id: str, message_id: str, text: str | None) -> None:
        """Replace or (None) delete a queued message. Raises `CommandRejected` if it is too late."""
        session, number = self.find(session_id), message_queue.number_of(message_id)
        message = events.UserMessage(text=text) if text else None
        if number is not None and (record := message_queue.edited(session.record, number, message)):
            self.rewrite(record)
            return
        host = await session.host(reopen=False)
        await host.send(EditQueue(task_id=session_id, message_id=message_id, text=text))

    async def switch(self, session_id: str, switches: Switches) -> None:
        """Change settings of a session. Raises `CommandRejected` if the process refuses."""
        await switch(self.find(session_id), self._folders.of(session_id), switches)

    async def host_of(self, session_id: str, *, reopen: bool = False) -> Host:
        """The host of a session's process; `reopen` starts one, without resuming work, if none
        runs. Raises `CommandRejected` if there is none."""
        return await self.find(session_id).host(reopen=reopen)

    async def remove(self, session_id: str) -> None:
        """End a session and hide it in all lists. Its journal stays."""
        session = self.find(session_id)
        await session.end()
        async with self._outside.lock:
            if self.tasks.in_use(session_id):
                raise busy(session_id)
            if session.is_stored():
                self.tasks.hide(session_id)
            self._folders.of(session_id).remove()
            self.forget(session_id)
            self._outside.drop(session_id)
        self.store.save()

    async def stop_all(self) -> None:
        """End all processes. The sessions can be resumed."""
        async with anyio.create_task_group() as group:
            for session in self._sessions.values():
                group.start_soon(session.end)
        self.store.save_if_possible()

    def session(self, session_id: str) -> SessionSummary | None:
        """Summarise a session, with the messages that were received or read so far."""
        supervised = self._sessions.get(session_id)
        if supervised and session_id not in self._outside.deleted:
            return self._summary(supervised)
        return next((each for each in self.all() if each.record.session_id == session_id), None)

    def summary(self, session_id: str) -> SessionSummary:
        """Like `session`, but raises `CommandRejected` if there is none."""
        if summary := self.session(session_id):
            return summary
        raise CommandRejected(f"No such session: {session_id[:80]}.")

    def all(self) -> list[SessionSummary]:
        """All sessions, unordered, including archived ones and those started without a manager."""
        return [
            self._summary(self._sessions[id]) if id in self._sessions else summary_of_record(record)
            for id, record in self._outside.listed(self._known()).items()
        ]

    def _summary(self, session: SupervisedSession) -> SessionSummary:
        return summary_of(session, elsewhere=session.id in self._outside.elsewhere)

    def _known(self) -> list[SessionRecord]:
        if self.read_only:
            self.store.reload()
            return list(self.store.all())
        return [session.record for session in self._sessions.values()]

    def records(self) -> list[SessionRecord]:
        return list(self._outside.listed(self._known()).values())

    @property
    def active_count(self) -> int:
        """Number of supervised sessions that work or wait for the user."""
        return sum(session.is_active for session in self._sessions.values())

    def counts(self) -> Counts:
        """The counts; `attention` is the number of sessions in the inbox."""
        return count_records(each.record for each in self.all())

    def question(self, session_id: str) -> SessionQuestion | None:
        if session := self._sessions.get(session_id):
            return question_of(session)
        summary = self.session(session_id) if self.read_only else None
        return question_in(summary) if summary else None

    def inbox(self) -> tuple[SessionQuestion, ...]:
        """The sessions that need attention, the most urgent first."""
        asked = (self.question(record.session_id) for record in self.records())
        return tuple(sort_questions(question for question in asked if question))

    def changes(self) -> AsyncGenerator[frozenset[str], None]:
        """Yield all ids first, then ids changed or removed since the last set."""
        return self._changes.follow(each.session_id for each in self.records())

    def changed(self, session_id: str) -> None:
        self._changes.note(session_id)

    def overview_changed(self) -> None:
        """Notify followers of a change that concerns the whole list, with an empty id."""
        self._changes.note("")

    def obstacle(self, record: SessionRecord) -> str | None:
        if self.tasks.in_use(record.session_id):
            return str(busy(record.session_id))
        return self.start_obstacle(record)

    def find(self, session_id: str) -> SupervisedSession:
        self._check_writable()
        if found := self._sessions.get(session_id):
            return found
        if session_id in self._outside.records:
            raise busy(session_id)
        raise CommandRejected(f"No such session: {session_id}.")

    def _check_writable(self) -> None:
        if self.read_only:
            raise CommandRejected(self.read_only)

    def folder(self, session_id: str) -> SessionFolder:
        return self._folders.of(session_id)

    def add(self, record: SessionRecord) -> SupervisedSession:
        session = SupervisedSession(record, self._folders.of(record.session_id), self)
        self._sessions[record.session_id] = session
        return session

    def forget(self, session_id: str) -> None:
        session = self._sessions.pop(session_id)
        session.is_forgotten = True
        session.wake()
        self.store.remove(session_id)
        self._changes.note(session_id)

    def rewrite(self, *records: SessionRecord) -> None:
        """Replace records; they are saved together, now."""
        for record in records:
            session = self.find(record.session_id)
            session.record = record
            session.save()
        self.store.save()
