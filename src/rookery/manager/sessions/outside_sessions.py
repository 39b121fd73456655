"""Sessions of a project that its manager does not run: started without one, or lost from its list.

The task store says which sessions exist; the manager adds what it knows about those it runs.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import anyio
import anyio.to_thread
from msgspec.structs import replace

from rookery.errors import CommandRejected, StorageError
from rookery.manager.dependencies import StoredTask, StoredTasks
from rookery.manager.sessions.session_folders import (
    SessionFolder,
    SessionFolders,
    SessionLaunch,
    SessionOptions,
    record_of,
)
from rookery.manager.sessions.session_record import SessionRecord, label_of
from rookery.manager.sessions.session_states import SessionState, SessionStatus
from rookery.manager.sessions.session_store import SessionStore
from rookery.manager.sessions.stored_session import rebuild_session, recovered_record
from rookery.manager.sessions.supervised_session import SupervisedSession


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

    def _record(self, task: StoredTask) -> SessionRecord:
        completed = task.status == "completed"
        working = task.status == "open" and self._tasks.in_use(task.id)
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
