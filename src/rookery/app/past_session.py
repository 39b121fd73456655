"""A stored session that no process runs, opened to rewind it.

Its journal stays locked while it is open, so that no other process can resume it.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
from msgspec import Struct

from rookery.app.local_host import open_checkpoints
from rookery.app.task_factory import SystemClock
from rookery.core.facts import Event, Fact, TaskOpened
from rookery.core.settings import Settings
from rookery.engine.engine import settled_before
from rookery.engine.event_log import EventLog, recover
from rookery.engine.ports.hooks import SessionHook
from rookery.engine.ports.workspace import Restored
from rookery.engine.undo import Undo
from rookery.errors import StorageError
from rookery.permissions.protected_changes import protected_paths
from rookery.platform.user_folders import Places
from rookery.storage.sessions import Journals, TaskStore


class PastSession(Struct, frozen=True):
    """A session that no process runs, and what is needed to rewind it."""

    task_id: str
    log: EventLog
    _undo: Undo
    _find_hooks: Callable[[], Awaitable[Sequence[SessionHook]]]
    _hooks: list[SessionHook]

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
        self._hooks[:] = await self._find_hooks()
        await self._undo.restore(to, overwrite=overwrite)
        for hook in reversed(self._hooks):
            await hook.end()


@asynccontextmanager
async def open_past_session(
    settings: Settings, places: Places, store: TaskStore, task_id: str, workspace: Path
) -> AsyncIterator[PastSession]:
    """Open a session to rewind it. Raises `StorageError` while another process runs it."""
    from rookery.governance.oversight import rewind_hooks

    checkpoints = open_checkpoints(settings, workspace, places)
    async with anyio.create_task_group() as group:

        def open_session(task_id: str) -> PastSession:
            log = EventLog(store.open(task_id), SystemClock().now)
            journals = Journals(store.folder)
            hooks: list[SessionHook] = []
            find = partial(
                rewind_hooks, settings, workspace.resolve(), places, task_id, log, journals
            )
            undo = Undo(
                log,
                lambda: checkpoints,
                shielded=protected_paths,
                start_soon=group.start_soon,
                hooks=hooks,
            )
            return PastSession(task_id, log, undo, find, hooks)

        past = open_session(task_id)
        try:
            await recover(past, lambda child: open_session(child) if store.exists(child) else None)
            yield past
        finally:
            past.log.close()


def record_unfinished(places: Places, store: TaskStore, task_id: str) -> None:
    """Record in the ledger what a crash interrupted in a session, before the session is deleted:
    only its journal knows it. Raises `StorageError` if that is not possible."""
    try:
        opened = next(store.read(task_id), None)
    except StorageError:
        return  # unreadable, which may be why it is deleted
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
        return  # such as a symlink; a later ledger records the calls as unknown
    if recording.is_open(task_id):
        recording.recover(layout.root, Journals(store.folder))
        recording.close()


def drop_files(places: Places, store: TaskStore, gone: Collection[str]) -> str:
    """Delete checkpoint data that only the deleted sessions `gone` needed, and copies of
    repositories. Return a sentence if that was not possible."""
    from rookery.checkpoints.checkpoint_snapshot import drop_unneeded
    from rookery.checkpoints.git_copies import drop_copies

    drop_copies(places.git_copies)
    others_work = store.some_run()
    return drop_unneeded(places.checkpoints, store.hashes(), gone, others_work=others_work)
