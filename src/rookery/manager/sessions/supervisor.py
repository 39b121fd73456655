"""All sessions of a project: started, spoken to, watched, taken up again.

Leaving ends nothing: the sessions run on, and the next supervisor of the project finds them.
"""

import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from rookery.core.commands import EditQueue
from rookery.errors import CommandRejected, StorageError
from rookery.manager.dependencies import StoredTasks
from rookery.manager.sessions.admission import USUAL_LIMIT, Admission, Preparations, load
from rookery.manager.sessions.conversation import Timings
from rookery.manager.sessions.message_queue import Terms, check
from rookery.manager.sessions.outside_sessions import OutsideSessions, busy, complete_list, taken_in
from rookery.manager.sessions.session_events import (
    ApproveEvent,
    CancelEvent,
    RejectEvent,
    ResumeEvent,
    RetryEvent,
    SendEvent,
    StartEvent,
    UserMessage,
)
from rookery.manager.sessions.session_folders import (
    SessionFolder,
    SessionFolders,
    SessionOptions,
    launch_of,
    record_of,
)
from rookery.manager.sessions.session_record import (
    Counts,
    SessionRecord,
    count_records,
    label_of,
)
from rookery.manager.sessions.session_store import SessionStore, manager_folder
from rookery.manager.sessions.session_summary import (
    ChangeFeed,
    SessionQuestion,
    ShownSession,
    Switches,
    as_recorded,
    edit_unsent,
    in_order,
    question_in,
    question_of,
    shown,
    switch,
)
from rookery.manager.sessions.supervised_session import SupervisedSession
from rookery.platform.user_folders import Places
from rookery.protocol.codec import Host


@asynccontextmanager
async def open_supervisor(
    project: Path,
    places: Places,
    environ: Mapping[str, str],
    tasks: StoredTasks,
    *,
    limit: int = USUAL_LIMIT,
    timings: Timings | None = None,
) -> AsyncIterator["Supervisor"]:
    """The supervisor of a project, which has found its sessions again. Afterwards they run on."""
    store = SessionStore(project, manager_folder(places, project))
    try:
        async with anyio.create_task_group() as group:
            supervisor = Supervisor(
                store, places, environ, tasks, group, limit=limit, timings=timings or Timings()
            )
            await supervisor.take_up()
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
        self._admission = Admission(self._sessions, limit)
        self._changes = ChangeFeed()
        self._outside = OutsideSessions(self.project, tasks)
        self.preparations = Preparations(self)
        self.ready_to_run: Callable[[SessionRecord], str | None] = lambda _: None
        """Why a process of a session cannot be started now, if so. Asked before each."""

    @property
    def notices(self) -> tuple[str, ...]:
        """What the user should know of the list, in sentences."""
        return tuple(self.store.notices)

    @property
    def read_only(self) -> str:
        """Why nothing can be done here but look, if so."""
        return self.store.read_only

    async def take_up(self) -> None:
        """What an earlier supervisor has left: lists are completed, processes adopted."""
        if self.read_only:
            await self.refresh()
            return
        self.group.start_soon(self.store.save_when_changed)
        complete_list(self.store, self._folders, self.tasks)
        for record in self.store.all():
            await load(self.add(record))
        async with anyio.create_task_group() as group:
            for session in self._sessions.values():
                group.start_soon(session.see_whether_it_answers)
        for session in self._sessions.values():
            session.keep()
        self.store.save()
        await self.refresh()
        self._admission.admit()

    async def refresh(self) -> None:
        """Look for sessions that were started, continued or deleted without a manager."""
        for session_id in await self._outside.refresh(self._known()):
            self._changes.note(session_id)

    async def take_over(self, session_id: str) -> SupervisedSession | None:
        """A session to act on. One that was started without a manager is supervised from now on.
        None if there is no such session, or it can only be read."""
        if self.read_only:
            return None
        if session := self._sessions.get(session_id):
            await self._outside.catch_up(session)
            return session
        await self.refresh()
        async with self._outside.lock:
            if session_id not in self._sessions and (wish := self._outside.wish(session_id)):
                await self.take_in(session_id, wish, self._outside.records[session_id])
                self.mark_read(session_id)
        return self._sessions.get(session_id)

    async def start(self, wish: SessionOptions) -> str:
        """Starts a session and returns its id. Raises `CommandRejected` or `StorageError`, and
        then there is none."""
        self._check_writable()
        if not (wish.prompt.strip() or wish.images):
            raise CommandRejected("Give a task.")
        check(UserMessage(text=wish.prompt, images=wish.images))
        session_id = str(uuid.uuid4())
        folder = self._folders.of(session_id)
        folder.keep_launch(launch_of(wish, self.project))
        session = self.add(record_of(wish, session_id))
        try:
            await session.act(StartEvent(text=wish.prompt, images=wish.images))
        except StorageError:
            folder.remove()
            self.forget(session_id)
            raise
        return session_id

    async def take_in(
        self, session_id: str, wish: SessionOptions, known: SessionRecord | None = None
    ) -> None:
        """A session for a task that is stored already. It rests until the user goes on with it.
        Raises `CommandRejected` if there is no such task, or a session for it."""
        self._check_writable()
        if session_id in self._sessions:
            raise CommandRejected(f"Session {session_id} already exists.")
        folder, launch = self._folders.of(session_id), launch_of(wish, self.project)
        session = self.add(await taken_in(folder, launch, wish, self.tasks, known))
        folder.keep_launch(launch)
        await session.recall()
        await load(session)
        session.keep(now=True)

    async def send(
        self, session_id: str, text: str, images: tuple[str, ...] = (), *, ask_ts: int | None = None
    ) -> None:
        """Words for a session: an answer to the question of `ask_ts`, or for later."""
        check(UserMessage(text=text, images=images))
        if not (text.strip() or images):
            raise CommandRejected("The message is empty.")
        await self.find(session_id).act(SendEvent(text=text, images=images, ask_ts=ask_ts))

    async def approve(
        self, session_id: str, ask_ts: int, text: str = "", terms: Terms | None = None
    ) -> None:
        await self.find(session_id).act(ApproveEvent(ask_ts=ask_ts, text=text), terms)

    async def reject(
        self, session_id: str, ask_ts: int, text: str = "", terms: Terms | None = None
    ) -> None:
        await self.find(session_id).act(RejectEvent(ask_ts=ask_ts, text=text), terms)

    async def cancel(self, session_id: str) -> None:
        await self.find(session_id).act(CancelEvent())

    async def resume(self, session_id: str, text: str = "") -> None:
        await self.find(session_id).act(ResumeEvent(text=text))

    async def retry(self, session_id: str) -> None:
        await self.find(session_id).act(RetryEvent())

    def rename(self, session_id: str, label: str) -> None:
        """An empty label gives the session its own name back."""
        record = self.find(session_id).record
        named = label_of(label)
        shown_as = named or label_of(record.prompt)
        self._rewrite(replace(record, label=shown_as, renamed=bool(named)))

    def archive(self, session_id: str, *, archived: bool = True) -> None:
        self._rewrite(replace(self.find(session_id).record, archived=archived))

    def mark_read(self, session_id: str) -> None:
        """The user has seen how the session stands."""
        record = self.find(session_id).record
        if record.unread:
            self._rewrite(replace(record, unread=False))

    def retry_message(self, session_id: str, number: int) -> None:
        session = self.find(session_id)
        session.mailbox.retry(number)
        session.keep(now=True)
        session.keeper.wake_for_mail()

    def discard_message(self, session_id: str, number: int) -> None:
        session = self.find(session_id)
        session.mailbox.discard(number)
        session.keep(now=True)

    async def edit_queued(self, session_id: str, message_id: str, text: str | None) -> None:
        """Other words in place of those that the model has not heard yet; None takes them back.
        Raises `CommandRejected` if it has heard them."""
        session = self.find(session_id)
        if edit_unsent(session, message_id, text):
            return
        host = await session.host(reopen=False)
        await host.send(EditQueue(task_id=session_id, message_id=message_id, text=text))

    async def switch(self, session_id: str, switches: Switches) -> None:
        """From now on, and in later processes too. Raises `CommandRejected` if it is refused."""
        await switch(self.find(session_id), self._folders.of(session_id), switches)

    async def host_of(self, session_id: str, *, reopen: bool = False) -> Host:
        """The process of a session, to be asked and told what is no business of this supervisor.
        With `reopen` one is started if there is none, and rests. Raises `CommandRejected` if
        there is none."""
        return await self.find(session_id).host(reopen=reopen)

    async def remove(self, session_id: str) -> None:
        """Ends a session and leaves it out of all lists. Its journal stays."""
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
        """Ends all processes. What they were doing can be resumed."""
        async with anyio.create_task_group() as group:
            for session in self._sessions.values():
                group.start_soon(session.end)
        self.store.save_if_possible()

    def session(self, session_id: str) -> ShownSession | None:
        """With what was said in it as far as that was heard or read."""
        supervised = self._sessions.get(session_id)
        if supervised and session_id not in self._outside.deleted:
            return shown(supervised)
        return next((each for each in self.all() if each.record.session_id == session_id), None)

    def all(self) -> list[ShownSession]:
        """In no order, with the archived ones, and with those started without a manager."""
        return [
            shown(self._sessions[id]) if id in self._sessions else as_recorded(record)
            for id, record in self._outside.listed(self._known()).items()
        ]

    def _known(self) -> list[SessionRecord]:
        """The sessions that a manager has started or taken over."""
        if self.read_only:
            self.store.reload()
            return list(self.store.all())
        return [session.record for session in self._sessions.values()]

    @property
    def limit(self) -> int:
        """Of sessions that run at once."""
        return self._admission.limit

    @property
    def has_queue(self) -> bool:
        """Sessions wait for their turn."""
        return self._admission.has_queue

    def records(self) -> list[SessionRecord]:
        return list(self._outside.listed(self._known()).values())

    @property
    def active_number(self) -> int:
        """How many sessions under supervision are working or waiting for the user."""
        return sum(session.is_active for session in self._sessions.values())

    def counts(self) -> Counts:
        """Whoever is in the inbox is counted, and nobody else."""
        everyone = self.all()
        counted = count_records(each.record for each in everyone)
        return replace(counted, attention=sum(each.flags.needs_attention for each in everyone))

    def question(self, session_id: str) -> SessionQuestion | None:
        """What a session waits for, if it does."""
        if session := self._sessions.get(session_id):
            return question_of(session)
        only_shown = self.session(session_id) if self.read_only else None
        return question_in(only_shown) if only_shown else None

    def inbox(self) -> tuple[SessionQuestion, ...]:
        """What sessions want to be attended to for, the most urgent first."""
        asked = (self.question(record.session_id) for record in self.records())
        return tuple(in_order(question for question in asked if question))

    def changes(self) -> AsyncIterator[frozenset[str]]:
        """The ids of sessions that changed, again and again: first all, then those that did since
        the last look. One that is not there any more was removed."""
        return self._changes.follow(each.session_id for each in self.records())

    def changed(self, session_id: str) -> None:
        self._changes.note(session_id)

    def head_changed(self) -> None:
        """There is something new about all of them; no session has an empty id."""
        self._changes.note("")

    def moved(self) -> None:
        self._admission.admit()

    def obstacle(self, record: SessionRecord) -> str | None:
        return self.ready_to_run(record)

    def queue(self, session: SupervisedSession) -> None:
        self._admission.queue(session)

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

    def _rewrite(self, record: SessionRecord) -> None:
        session = self.find(record.session_id)
        session.record = record
        session.keep(now=True)
