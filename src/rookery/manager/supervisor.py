"""All sessions of a project: started, spoken to, watched, taken up again.

Leaving ends nothing: the sessions run on, and the next supervisor of the project finds them.
"""

import uuid
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from rookery.core import session_list
from rookery.core.sessions.events import (
    ApproveAction,
    CancelSession,
    RejectAction,
    ResumeSession,
    Retry,
    SendMessage,
    StartSession,
    UserEvent,
)
from rookery.core.sessions.orders import Letter
from rookery.core.sessions.record import SessionRecord, label_of
from rookery.errors import CommandRejected, StorageError
from rookery.manager.changes import Changes
from rookery.manager.pictures import check
from rookery.manager.records import found_again
from rookery.manager.session_folders import SessionFolders
from rookery.manager.session_json import KeptSession
from rookery.manager.session_store import SessionStore
from rookery.manager.shown import Question, Shown, as_recorded, question_of, shown
from rookery.manager.supervised_session import SupervisedSession
from rookery.manager.timings import Timings
from rookery.manager.wishes import Wish, launch_of, record_of
from rookery.storage.places import Places
from rookery.storage.tasks import TaskStore

USUAL_LIMIT, HIGHEST_LIMIT = 5, 32
"""Of sessions that run at once."""


@asynccontextmanager
async def open_supervisor(
    project: Path,
    places: Places,
    environ: Mapping[str, str],
    *,
    limit: int = USUAL_LIMIT,
    timings: Timings | None = None,
) -> AsyncIterator["Supervisor"]:
    """The supervisor of a project, which has found its sessions again. Afterwards they run on."""
    store = SessionStore(project)
    try:
        async with anyio.create_task_group() as group:
            supervisor = Supervisor(
                store, places, environ, group, limit=limit, timings=timings or Timings()
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
        self.tasks = TaskStore(places)
        self._folders = SessionFolders(places)
        self._limit = min(max(1, limit), HIGHEST_LIMIT)
        self._sessions: dict[str, SupervisedSession] = {}
        self._queue: deque[SupervisedSession] = deque()
        self._changes = Changes()
        self._selected: str | None = None

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
            return
        self.group.start_soon(self.store.save_when_changed)
        self._find_lost()
        for kept in self.store.all():
            self._add(kept).load()
        async with anyio.create_task_group() as group:
            for session in self._sessions.values():
                group.start_soon(session.see_whether_it_answers)
        for session in self._sessions.values():
            session.keep()
        self.store.save()
        self._admit()

    async def start(self, wish: Wish) -> str:
        """Starts a session and returns its id. Raises `CommandRejected` or `StorageError`, and
        then there is none."""
        self._check_writable()
        if not (wish.prompt.strip() or wish.images):
            raise CommandRejected("Say what to work on.")
        check(Letter(text=wish.prompt, images=wish.images))
        session_id = str(uuid.uuid4())
        folder = self._folders.of(session_id)
        folder.keep_launch(launch_of(wish, self.project))
        session = self._add(KeptSession(record=record_of(wish, session_id)))
        try:
            await session.act(StartSession(text=wish.prompt, images=wish.images))
        except StorageError:
            folder.remove()
            self._forget(session_id)
            raise
        return session_id

    async def send(
        self, session_id: str, text: str, images: tuple[str, ...] = (), *, ask_ts: int | None = None
    ) -> None:
        """Words for a session: an answer to the question of `ask_ts`, or for later."""
        check(Letter(text=text, images=images))
        if not (text.strip() or images):
            raise CommandRejected("There is nothing in that message.")
        await self._act(session_id, SendMessage(text=text, images=images, ask_ts=ask_ts))

    async def approve(self, session_id: str, ask_ts: int, text: str = "") -> None:
        await self._act(session_id, ApproveAction(ask_ts=ask_ts, text=text))

    async def reject(self, session_id: str, ask_ts: int, text: str = "") -> None:
        await self._act(session_id, RejectAction(ask_ts=ask_ts, text=text))

    async def cancel(self, session_id: str) -> None:
        await self._act(session_id, CancelSession())

    async def resume(self, session_id: str, text: str = "") -> None:
        await self._act(session_id, ResumeSession(text=text))

    async def retry(self, session_id: str) -> None:
        await self._act(session_id, Retry())

    def rename(self, session_id: str, label: str) -> None:
        """An empty label gives the session its own name back."""
        record = self._find(session_id).record
        named = label_of(label)
        shown_as = named or label_of(record.prompt)
        self._rewrite(replace(record, label=shown_as, renamed=bool(named)))

    def archive(self, session_id: str, *, archived: bool = True) -> None:
        self._rewrite(replace(self._find(session_id).record, archived=archived))

    def select(self, session_id: str | None) -> None:
        """The user looks at this session now, so nothing of it is unread."""
        self._selected = session_id
        if session_id and not self.read_only:
            self._rewrite(replace(self._find(session_id).record, unread=False))

    def retry_message(self, session_id: str, number: int) -> None:
        session = self._find(session_id)
        session.mailbox.retry(number)
        session.keep(now=True)
        session.keeper.wake_for_mail()

    def discard_message(self, session_id: str, number: int) -> None:
        session = self._find(session_id)
        session.mailbox.discard(number)
        session.keep(now=True)

    async def remove(self, session_id: str) -> None:
        """Takes a session off the list and ends its process. Its task stays in the history."""
        session = self._find(session_id)
        await session.end()
        self._folders.of(session_id).remove()
        self._forget(session_id)
        self.store.save()

    async def stop_all(self) -> None:
        """Ends all processes. What they were doing can be resumed."""
        async with anyio.create_task_group() as group:
            for session in self._sessions.values():
                group.start_soon(session.end)

    def session(self, session_id: str) -> Shown | None:
        """With all that was said in it."""
        if supervised := self._sessions.get(session_id):
            supervised.recall()
            return shown(supervised)
        return next((each for each in self._all() if each.record.session_id == session_id), None)

    def sessions(self) -> tuple[Shown, ...]:
        """All that are not archived: what is active, then the rest, newest first."""
        by_id = {each.record.session_id: each for each in self._all()}
        listed = session_list.ordered(each.record for each in by_id.values())
        return tuple(by_id[record.session_id] for record in listed)

    def counts(self) -> session_list.Counts:
        return session_list.counts(each.record for each in self._all())

    def inbox(self) -> tuple[Question, ...]:
        """What sessions wait for, whoever has waited longest first."""
        asked = (question_of(session) for session in self._sessions.values())
        waiting = (question for question in asked if question)
        return tuple(sorted(waiting, key=lambda each: (each.row.ts, each.session_id)))

    def changes(self) -> AsyncIterator[frozenset[str]]:
        """The ids of sessions that changed, again and again: first all, then those that did since
        the last look. One that is not there any more was removed."""
        return self._changes.follow(self._sessions)

    def changed(self, session_id: str) -> None:
        self._changes.note(session_id)

    def moved(self) -> None:
        self._admit()

    def is_selected(self, session_id: str) -> bool:
        return session_id == self._selected

    def queue(self, session: SupervisedSession) -> None:
        self._queue.append(session)

    def _admit(self) -> None:
        """Whoever waits longest, while there is room. Processes that rest make room for others."""
        self._queue = deque(each for each in self._queue if each.is_queued)
        running = [
            each for each in self._sessions.values() if each.is_active and not each.is_queued
        ]
        room = self._limit - len(running)
        while self._queue and room > 0:
            room -= 1
            self._queue.popleft().launch()
        self._retire_the_idle()

    def _retire_the_idle(self) -> None:
        """As many processes are kept as may run, the longest at rest go first."""
        sessions = [each for each in self._sessions.values() if each.keeper.has_process]
        idle = sorted(
            (each for each in sessions if each.is_idle), key=lambda each: each.record.end_time or 0
        )
        for session in idle[: max(0, len(sessions) - self._limit)]:
            session.keeper.retire()

    async def _act(self, session_id: str, event: UserEvent) -> None:
        await self._find(session_id).act(event)

    def _all(self) -> list[Shown]:
        if self.read_only:
            self.store.reload()
            return [as_recorded(kept) for kept in self.store.all()]
        return [shown(session) for session in self._sessions.values()]

    def _find(self, session_id: str) -> SupervisedSession:
        self._check_writable()
        if found := self._sessions.get(session_id):
            return found
        raise CommandRejected(f"There is no session {session_id} here.")

    def _check_writable(self) -> None:
        if self.read_only:
            raise CommandRejected(self.read_only)

    def _add(self, kept: KeptSession) -> SupervisedSession:
        session_id = kept.record.session_id
        session = SupervisedSession(kept, self._folders.of(session_id), self)
        self._sessions[session_id] = session
        return session

    def _forget(self, session_id: str) -> None:
        self._sessions.pop(session_id).is_forgotten = True
        self.store.remove(session_id)
        self._changes.note(session_id)

    def _rewrite(self, record: SessionRecord) -> None:
        session = self._find(record.session_id)
        session.record = record
        session.keep(now=True)

    def _find_lost(self) -> None:
        """Sessions whose folder is there, although the list does not know them."""
        known = {kept.record.session_id for kept in self.store.all()}
        for folder, launch in self._folders.of_project(str(self.project)):
            if folder.session_id in known:
                continue
            if lost := found_again(folder, launch, self.tasks):
                self.store.put(lost)
            elif folder.mark() is None:
                folder.remove()  # of a session that was never begun
