"""Sessions of a project that its manager does not know: started without one, or lost from its list.

The store of tasks says which sessions there are; the manager adds what it knows of those it runs.
"""

from collections.abc import Iterable
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
from rookery.manager.sessions.stored_session import found_again, rebuilt
from rookery.manager.sessions.supervised_session import SupervisedSession


async def taken_in(
    folder: SessionFolder,
    launch: SessionLaunch,
    wish: SessionOptions,
    tasks: StoredTasks,
    known: SessionRecord | None,
) -> SessionRecord:
    """The record of a session for a task that is stored already. It starts now, unless it is
    `known` from the store."""
    # a log may be long
    if not (found := await anyio.to_thread.run_sync(found_again, folder, launch, tasks)):
        raise CommandRejected(f"No stored session {folder.session_id}.")
    wished = record_of(wish, folder.session_id)
    return replace(
        found,
        label=wished.label or found.label,
        renamed=wished.renamed,
        start_time=(known or wished).start_time,
        status=known.status if known else found.status,
        parallel_mode=wish.parallel_mode,
        worktree_id=wish.worktree_id,
    )


def complete_list(store: SessionStore, folders: SessionFolders, tasks: StoredTasks) -> None:
    """Finish removals that were interrupted, and find sessions that only have a folder."""
    for record in store.all():
        if tasks.is_hidden(record.session_id):
            store.remove(record.session_id)
    known = {each.session_id for each in store.all()}
    for folder, launch in folders.of_project(str(store.project)):
        if folder.session_id in known:
            continue
        removed = tasks.is_hidden(folder.session_id)
        if not removed and (lost := found_again(folder, launch, tasks)):
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
        """Sessions of the manager whose journal was deleted. They are not listed."""
        self._sizes: dict[str, int] = {}
        """Of the journals of sessions that rest, when they were read last."""
        self.lock = anyio.Lock()
        """Held while the store is read, or a session of it changes hands."""

    async def refresh(self, known: Iterable[SessionRecord]) -> set[str]:
        """Read the store again; gives the ids of sessions that changed."""
        async with self.lock:
            before, self.records = self.records, await anyio.to_thread.run_sync(self._read)
            gone = frozenset(each.session_id for each in known if is_deleted(each, self._tasks))
            changed = set(gone ^ self.deleted)
            self.deleted = gone
        ids = before.keys() | self.records.keys()
        return changed | {each for each in ids if before.get(each) != self.records.get(each)}

    def listed(self, known: Iterable[SessionRecord]) -> dict[str, SessionRecord]:
        """These and the known ones, by their ids."""
        every = {**self.records, **{each.session_id: each for each in known}}
        return {id: each for id, each in every.items() if id not in self.deleted}

    def wish(self, session_id: str) -> SessionOptions | None:
        """How one of these continues, unless a process works on it: asking, as where it began."""
        found = self.records.get(session_id)
        if not found or self._tasks.in_use(session_id):
            return None
        workspace = Path(self._project)
        return SessionOptions(prompt=found.prompt, workspace=workspace, auto_approve=False)

    async def catch_up(self, session: SupervisedSession) -> None:
        """Read what a terminal has added to a session since it was read or heard here."""
        known, size = session.root.view.seq, self._tasks.size(session.id)
        if not known or _runs(session) or self._sizes.get(session.id) == size:
            return
        stored = await session.recollection.task(session.id)
        self._sizes[session.id] = size
        if stored and stored.view.seq > known and not _runs(session):
            session.root.become(stored)
            session.session = rebuilt(session.record, session.stored_ask, alive=False)
            session.keep()

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


def _runs(session: SupervisedSession) -> bool:
    return session.keeper.has_process or session.session.process_open


def busy(session_id: str) -> CommandRejected:
    return CommandRejected(f"Another process is working on session {session_id[:8]}. End it first.")


def is_deleted(record: SessionRecord, tasks: StoredTasks) -> bool:
    """Whether it has started, and its journal was deleted since. One that runs is not deleted."""
    begun = record.announced and not record.process_open
    return begun and not tasks.exists(record.session_id)
