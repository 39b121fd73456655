"""A stored session that no process runs, opened to go back in it.

Its journal is held while it is open, so no other process can resume it meanwhile.
"""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from msgspec import Struct

from rookery.app.local_host import SystemClock, open_checkpoints
from rookery.core.facts import Event, Fact, TaskOpened
from rookery.core.settings import Settings
from rookery.engine.engine import settled_before
from rookery.engine.event_log import EventLog, recover
from rookery.engine.ports.hooks import Governance
from rookery.engine.ports.workspace import Restored
from rookery.engine.undo import Undo
from rookery.errors import StorageError
from rookery.permissions.protected_changes import protected_paths
from rookery.platform.user_folders import Places
from rookery.storage.journal import events_of_dead_task
from rookery.storage.sessions import TaskStore


class Past(Struct, frozen=True):
    """A session that nobody is running, and what it would take to go back in it."""

    task_id: str
    log: EventLog
    _undo: Undo
    _governance: Governance

    @property
    def events(self) -> Sequence[Event]:
        return self.log.events

    def settled_before(self, to: int) -> int:
        return settled_before(self.log.events, to)

    def append(self, fact: Fact) -> None:
        self.log.append(fact)

    async def recover(self) -> None:
        await self._undo.recover()

    async def rehearse(self, to: int, *, overwrite: bool) -> Restored:
        return await self._undo.rehearse(to, overwrite=overwrite)

    async def restore(self, to: int, *, overwrite: bool) -> None:
        await self._governance.begin()
        await self._undo.restore(to, overwrite=overwrite)


@asynccontextmanager
async def open_past(
    settings: Settings, places: Places, store: TaskStore, task_id: str, workspace: Path
) -> AsyncIterator[Past]:
    """The past of a session. Raises `StorageError` while another process runs it."""
    from rookery.governance.oversight import PastGovernance

    checkpoints = open_checkpoints(settings, workspace, places)
    async with anyio.create_task_group() as group:

        def stored(task_id: str) -> Past:
            log = EventLog(store.open(task_id), SystemClock().now)
            governance = PastGovernance(settings, workspace, places, task_id, log)
            undo = Undo(
                log,
                lambda: checkpoints,
                shielded=protected_paths,
                start_soon=group.start_soon,
                governance=governance,
            )
            return Past(task_id, log, undo, governance)

        past = stored(task_id)
        try:
            await recover(past, lambda child: stored(child) if store.exists(child) else None)
            yield past
        finally:
            past.log.close()


def record_rest(places: Places, store: TaskStore, task_id: str) -> None:
    """Before a session is deleted: put on record what a crash cut off in it, which only its
    journal tells. Raises `StorageError` if that is not possible."""
    try:
        opened = next(store.read(task_id), None)
    except StorageError:
        return  # nothing in it can be read, and it may be deleted for that
    if opened is None or not isinstance(opened.fact, TaskOpened) or not opened.fact.workspace:
        return
    from rookery.governance.layout import find_layout
    from rookery.governance.project import open_project

    workspace = Path(opened.fact.workspace)
    try:
        layout = find_layout(workspace, workspace).layout
        if layout is None or layout.folder.is_symlink():
            return
        recording = open_project(Settings(), layout, places).recording
    except (OSError, StorageError):
        return  # a link, say; a later ledger records that the calls are unknown
    if recording.is_open(task_id):
        recording.recover(layout.root, lambda each: events_of_dead_task(store.folder(each)))
        recording.close()


def drop_files(places: Places, store: TaskStore, gone: Collection[str]) -> str:
    """Drop what checkpoints hold only for the deleted sessions `gone`, and copies of
    repositories; a sentence if that was not possible."""
    from rookery.checkpoints.checkpoint_snapshot import drop_unneeded
    from rookery.checkpoints.git_copies import drop_copies

    drop_copies(places.git_copies)
    others_work = store.some_run()
    return drop_unneeded(places.checkpoints, store.hashes(), gone, others_work=others_work)
