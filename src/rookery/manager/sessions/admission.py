"""The sessions that a manager has and runs: loaded, prepared, admitted, or found outside of it.

A session is on the list before its worktree exists and can be cancelled then; the code that
prepares it finds out at its next step. `Admission` limits how many sessions run at once and how
many processes are kept.

The task store says which sessions exist. Those started without a manager, such as in a terminal,
are listed too, and adopted when the user acts on them.
"""

import uuid
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
from msgspec.structs import replace

from rookery.core.stored_tasks import StoredStatus, TaskSummary
from rookery.errors import CommandRejected, StorageError
from rookery.manager.dependencies import StoredTasks
from rookery.manager.sessions.message_queue import check
from rookery.manager.sessions.session_events import ProcessError, StartEvent, UserMessage
from rookery.manager.sessions.session_folders import (
    SessionFolder,
    SessionFolders,
    SessionLaunch,
    SessionOptions,
    launch_of,
    record_of,
)
from rookery.manager.sessions.session_process import is_alive
from rookery.manager.sessions.session_record import ParallelMode, SessionRecord, label_of
from rookery.manager.sessions.session_states import (
    CREATION_INTERRUPTED,
    PREPARATION_INTERRUPTED,
    SessionState,
    SessionStatus,
)
from rookery.manager.sessions.session_store import SessionStore
from rookery.manager.sessions.stored_session import rebuild_session, recovered_record
from rookery.manager.sessions.supervised_session import SupervisedSession

if TYPE_CHECKING:
    from rookery.manager.sessions.supervisor import Supervisor

DEFAULT_LIMIT, MAX_LIMIT = 5, 32
"""Default and maximum number of sessions that run at once."""


class Admission:
    def __init__(self, sessions: Mapping[str, SupervisedSession], limit: int) -> None:
        self._sessions = sessions
        self.limit = min(max(1, limit), MAX_LIMIT)
        self._queue: deque[SupervisedSession] = deque()

    def queue(self, session: SupervisedSession) -> None:
        self._queue.append(session)

    @property
    def has_queue(self) -> bool:
        return any(each.is_queued for each in self._queue)

    def admit(self) -> None:
        """Start queued sessions, oldest first, while there is room; idle processes are ended to
        make room. A session that waits for the user does not count as running, but keeps its
        process. There are never more processes than `MAX_LIMIT`."""
        self._queue = deque(each for each in self._queue if each.is_queued)
        sessions = self._sessions.values()
        room = self.limit - sum(each.is_running for each in sessions)
        room = min(room, MAX_LIMIT - sum(each.keeper.has_process for each in sessions))
        while self._queue and room > 0:
            room -= 1
            self._queue.popleft().launch()
        self._retire_idle()

    def _retire_idle(self) -> None:
        """End the processes that have been idle longest, until no more are kept than may run."""
        sessions = [each for each in self._sessions.values() if each.keeper.has_process]
        idle = sorted(
            (each for each in sessions if each.is_idle), key=lambda each: each.record.end_time or 0
        )
        for session in idle[: max(0, len(sessions) - self.limit)]:
            session.keeper.retire()


async def load(session: SupervisedSession) -> None:
    """Restore a session after a manager restart: adopt its process, or queue it again."""
    mark = session.folder.mark()
    current = mark if mark and mark.generation == session.record.generation else None
    alive = current is not None and is_alive(current)
    has_launch = session.folder.launch() is not None
    was_queued = session.record.process_open and not current and has_launch
    opens_task = current is not None and current.new_task and not session.record.announced
    if (alive and not opens_task) or session.record.status is SessionStatus.RUNNING:
        await session.load_history()
    _update_from_journal(session)
    is_at_rest = current is not None and current.at_rest and not session.record.saw_session_created
    continues = (alive or was_queued) and not is_at_rest
    ask = session.root.ask if continues else session.stored_ask
    session.record = rebuild_session(session.record, ask, alive=continues)
    if session.record.failure == CREATION_INTERRUPTED and not has_launch:
        session.record = replace(session.record, failure=PREPARATION_INTERRUPTED)
    if is_at_rest and alive:
        session.record = replace(session.record, process_open=True)
    if mark and is_alive(mark):
        session.keeper.adopt(mark, follow=alive and session.record.process_open)
    if was_queued and session.record.process_open:
        session.enqueue()


def _update_from_journal(session: SupervisedSession) -> None:
    record, root = session.record, session.root
    has_requested = root.has_request and record.saw_session_created
    session.record = replace(
        record,
        saw_api_req_started=record.saw_api_req_started or has_requested,
        completion_text=root.result or record.completion_text,
    )


def check_prompt(options: SessionOptions) -> None:
    if not (options.prompt.strip() or options.images):
        raise CommandRejected("Give a task.")
    check(UserMessage(text=options.prompt, images=options.images))


class Preparations:
    def __init__(self, supervisor: "Supervisor") -> None:
        self._supervisor = supervisor
        self._options: dict[str, SessionOptions] = {}

    async def reserve(self, options: SessionOptions, step: str = "") -> str:
        """Add a session that will be started later and return its id. Its workspace is not used
        before `launch`. Raises `CommandRejected` or `StorageError` if the session cannot be
        added."""
        check_prompt(options)
        session_id = str(uuid.uuid4())
        session = self._supervisor.add(record_of(options, session_id))
        session.is_preparing, session.step = True, step
        try:
            await session.act(StartEvent(text=options.prompt, images=options.images))
        except StorageError:
            self._supervisor.forget(session_id)
            raise
        self._options[session_id] = options
        return session_id

    def set_step(self, session_id: str, step: str) -> None:
        """Show a step of the preparation. Raises `CommandRejected` if it was cancelled."""
        session = self._find_preparing(session_id)
        session.step = step
        session.save()

    def note(self, session_id: str, lines: Sequence[str]) -> None:
        session = self._supervisor.find(session_id)
        session.note(lines)
        session.save()

    async def until_not_preparing(self, session_id: str) -> None:
        """Wait until the session is no longer being prepared, or was cancelled."""
        session = self._supervisor.find(session_id)
        await session.until(lambda: not session.is_preparing)

    def launch(
        self,
        session_id: str,
        *,
        workspace: Path | None = None,
        parallel_mode: ParallelMode | None = None,
        worktree_id: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Queue a prepared session; its process starts when there is room. None keeps the value
        given to `reserve`. Raises `CommandRejected` if the session was cancelled, `StorageError`
        if it cannot be saved."""
        session = self._find_preparing(session_id)
        options = self._options[session_id]
        found = replace(
            options,
            workspace=workspace or options.workspace,
            parallel_mode=parallel_mode or options.parallel_mode,
            worktree_id=worktree_id or options.worktree_id,
            env={**(options.env or {}), **(env or {})},
        )
        self._supervisor.folder(session_id).keep_launch(launch_of(found, self._supervisor.project))
        session.record = replace(
            session.record,
            workspace=str(found.workspace.absolute()),
            parallel_mode=found.parallel_mode,
            worktree_id=found.worktree_id,
        )
        session.save(now=True)
        del self._options[session_id]
        session.is_preparing, session.step = False, ""
        session.enqueue()
        self._supervisor.changed(session_id)
        self._supervisor.admission.admit()

    def fail(self, session_id: str, text: str) -> None:
        """Mark the session as failed with this error. Does nothing if it was cancelled."""
        session = self._supervisor.find(session_id)
        self._options.pop(session_id, None)
        if session.is_preparing:
            session.is_preparing, session.step = False, ""
            session.apply(ProcessError(generation=session.record.generation, text=text))

    def _find_preparing(self, session_id: str) -> SupervisedSession:
        session = self._supervisor.find(session_id)
        if not session.is_preparing:
            self._options.pop(session_id, None)
            raise CommandRejected("The session was cancelled before it started.")
        return session


async def adopted_record(
    folder: SessionFolder,
    launch: SessionLaunch,
    options: SessionOptions,
    tasks: StoredTasks,
    known: SessionRecord | None,
) -> SessionRecord:
    """The record for a task that is already stored. Raises `CommandRejected` if there is none.
    Its start time is now, unless it is `known` from the store."""
    # a journal may be long
    if not (found := await anyio.to_thread.run_sync(recovered_record, folder, launch, tasks)):
        raise CommandRejected(f"No stored session {folder.session_id}.")
    new = record_of(options, folder.session_id)
    return replace(
        found,
        label=new.label or found.label,
        renamed=new.renamed,
        start_time=(known or new).start_time,
        status=known.status if known else found.status,
        parallel_mode=options.parallel_mode,
        worktree_id=options.worktree_id,
    )


def complete_list(store: SessionStore, folders: SessionFolders, tasks: StoredTasks) -> None:
    """Finish interrupted removals, and add sessions that have a folder but are not on the list."""
    for record in store.all():
        if tasks.is_hidden(record.session_id):
            store.remove(record.session_id)
    known = {each.session_id for each in store.all()}
    for folder, launch in folders.of_project(str(store.project)):
        if folder.session_id in known:
            continue
        removed = tasks.is_hidden(folder.session_id)
        if not removed and (lost := recovered_record(folder, launch, tasks)):
            store.put(lost)
        elif removed or folder.mark() is None:
            folder.remove()  # of a session that was removed, or never started


class OutsideSessions:
    """Sessions of a project that were started without a manager, such as in a terminal."""

    def __init__(self, project: Path, tasks: StoredTasks) -> None:
        self._project = str(project)
        self._tasks = tasks
        self.records: dict[str, SessionRecord] = {}
        self.deleted: frozenset[str] = frozenset()
        """Managed sessions whose journal was deleted. They are not listed."""
        self.elsewhere: frozenset[str] = frozenset()
        """Managed sessions that another process works on."""
        self._sizes: dict[str, int] = {}
        """Journal sizes of idle sessions when they were last read."""
        self.lock = anyio.Lock()
        """Held while the store is read or a session is adopted or removed."""

    async def refresh(
        self, known: Sequence[SessionRecord], sessions: Iterable[SupervisedSession]
    ) -> set[str]:
        """Read the store again and return the ids of sessions that changed."""
        async with self.lock:
            before, self.records = self.records, await anyio.to_thread.run_sync(self._read)
            gone = frozenset(each.session_id for each in known if is_deleted(each, self._tasks))
            elsewhere = frozenset(each.id for each in sessions if self._is_elsewhere(each))
            changed = set(gone ^ self.deleted | elsewhere ^ self.elsewhere)
            self.deleted, self.elsewhere = gone, elsewhere
        ids = before.keys() | self.records.keys()
        return changed | {each for each in ids if before.get(each) != self.records.get(each)}

    def listed(self, known: Iterable[SessionRecord]) -> dict[str, SessionRecord]:
        """These records and the known ones, by session id."""
        every = {**self.records, **{each.session_id: each for each in known}}
        return {id: each for id, each in every.items() if id not in self.deleted}

    def options_for(self, session_id: str) -> SessionOptions | None:
        """Options to continue one of these sessions: in the project, asking for approval. None
        if there is no such session or a process works on it."""
        found = self.records.get(session_id)
        if not found or self._tasks.in_use(session_id):
            return None
        workspace = Path(self._project)
        return SessionOptions(prompt=found.prompt, workspace=workspace, auto_approve=False)

    async def catch_up(self, session: SupervisedSession) -> None:
        """Read what a terminal has added to the session's journal since it was last read here."""
        if not self._tasks.in_use(session.id):
            self.elsewhere -= {session.id}
        known, size = session.root.view.seq, self._tasks.size(session.id)
        if not known or _has_process(session) or self._sizes.get(session.id) == size:
            return
        stored = await session.history.task(session.id)
        self._sizes[session.id] = size
        if stored and stored.view.seq > known and not _has_process(session):
            session.root.replace_with(stored)
            status = session.record.status
            record = replace(session.record, status=SessionStatus.RUNNING)  # its journal decides
            rebuilt = rebuild_session(record, session.stored_ask, alive=False)
            session.record = replace(rebuilt, status=status)
            session.save()

    def _is_elsewhere(self, session: SupervisedSession) -> bool:
        stored = self.records.get(session.id)
        works = stored is not None and stored.state is SessionState.STREAMING
        return works and not _has_process(session)

    def drop(self, session_id: str) -> None:
        self.records.pop(session_id, None)

    def _read(self) -> dict[str, SessionRecord]:
        try:
            found = self._tasks.list(self._project, hidden=False)
        except StorageError:
            return self.records
        ids = {each.id for each in found}
        return {each.id: self._record(each) for each in found if each.parent not in ids}

    def _record(self, task: TaskSummary) -> SessionRecord:
        completed = task.status is StoredStatus.COMPLETED
        working = task.status is StoredStatus.OPEN and self._tasks.in_use(task.id)
        resting = SessionState.COMPLETED if completed else SessionState.PAUSED
        return SessionRecord(
            session_id=task.id,
            label=label_of(task.title),
            prompt=task.title,
            start_time=task.created,
            workspace=self._project,
            mode=task.mode or None,
            tokens=task.tokens_in + task.tokens_out,
            cost=task.cost or 0.0,
            auto_approve=False,
            status=SessionStatus.DONE if completed else SessionStatus.RUNNING,
            state=SessionState.STREAMING if working else resting,
            announced=True,
        )


def _has_process(session: SupervisedSession) -> bool:
    return session.keeper.has_process or session.record.process_open


def busy(session_id: str) -> CommandRejected:
    return CommandRejected(f"Another process is working on session {session_id[:8]}. End it first.")


def is_deleted(record: SessionRecord, tasks: StoredTasks) -> bool:
    """Whether the session was started and its journal deleted since. Never true while it runs."""
    has_started = record.announced and not record.process_open
    return has_started and not tasks.exists(record.session_id)
