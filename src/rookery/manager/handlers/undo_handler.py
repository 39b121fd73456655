"""Checkpoints of a session: list them, preview a restore, and restore.

An idle session is reopened in its own process, because only that process may write its journal.
"""

from bisect import bisect_right
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from itertools import pairwise
from pathlib import Path

import anyio
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from rookery.core.commands import RestoreFiles, Rewind
from rookery.core.facts import Event, Fact, FilesChanged, FilesRestored, Noted, Rewound
from rookery.core.folds.points import Point, points
from rookery.core.instructions import revealed
from rookery.core.limits import Limits
from rookery.core.queries import AskRehearsal, RestoreRehearsal
from rookery.core.replies import NO_FILE_PUT_BACK, restored_files
from rookery.core.text.terminal_text import shortened
from rookery.errors import CommandRejected, RookeryError
from rookery.manager.dependencies import Snapshots
from rookery.manager.handlers.router import Handlers
from rookery.manager.requests import ListCheckpoints, RehearseRestore, RestoreSession
from rookery.manager.sessions.session_folders import Workspaces
from rookery.manager.sessions.session_task import closable
from rookery.manager.sessions.supervisor import Supervisor
from rookery.manager.shown_rows import CheckpointRow, Done
from rookery.protocol.codec import Host

SECONDS_FOR_PATHS = 3.0
"""Seconds to find out which files commands changed. Checkpoints without a result list no paths."""
SECONDS_TO_RESTORE = 60.0
SECONDS_AFTER_A_NOTE = 2.0
"""Seconds to wait after a note, because a restore is then recorded immediately or not at all."""
SECONDS_TO_SETTLE = 5.0
"""Seconds for a session to become idle after a restore."""
AT_WORK = "The session is working. Cancel it or wait, then rewind."
STILL_RESTORING = "The files are still being restored; the session reports when it is done."
CONVERSATION_KEPT = "The conversation was not changed."
MAX_TITLE = 300


class Moment(Struct, frozen=True, kw_only=True):
    """A checkpoint. `steps` are pairs of snapshots whose changed paths are not in the journal."""

    row: CheckpointRow
    steps: tuple[tuple[str, str], ...] = ()

    def with_paths(self, paths: Sequence[str]) -> CheckpointRow:
        return replace(self.row, paths=tuple(paths))


class UndoHandler:
    def __init__(
        self,
        supervisor: Supervisor,
        workspaces: Workspaces,
        snapshots: Callable[[Path, Limits], Snapshots],
    ) -> None:
        self._supervisor = supervisor
        self._workspaces = workspaces
        self._snapshots = snapshots

    @property
    def handlers(self) -> Handlers:
        return {
            ListCheckpoints: self._list,
            RehearseRestore: self._rehearse,
            RestoreSession: self._restore,
        }

    async def _list(self, request: ListCheckpoints) -> tuple[CheckpointRow, ...]:
        session_id = request.session_id
        self._supervisor.summary(session_id)
        if not self._supervisor.tasks.exists(session_id):
            return ()
        events = await anyio.to_thread.run_sync(self._events, session_id)
        found = await anyio.to_thread.run_sync(moments, events)
        changed = await self._changed(session_id, [each for each in found if each.steps])
        return tuple(each.with_paths(changed.get(each, each.row.paths)) for each in found)

    async def _changed(
        self, session_id: str, unnamed: Sequence[Moment]
    ) -> dict[Moment, tuple[str, ...]]:
        """Find the paths that changed at these moments, latest first, within a time limit."""
        changed: dict[Moment, tuple[str, ...]] = {}
        try:
            snapshots = self._snapshots(self._workspaces.of(session_id), Limits())
        except RookeryError:  # its folder is gone, but its checkpoints can still be listed
            return changed
        with anyio.move_on_after(SECONDS_FOR_PATHS):
            for moment in reversed(unnamed):
                changed[moment] = await _paths(snapshots, moment)
        return changed

    async def _rehearse(self, request: RehearseRestore) -> RestoreRehearsal:
        host = await self._idle_host(request.session_id)
        return await _rehearsal(host, request.session_id, request.to, overwrite=request.overwrite)

    async def _restore(self, request: RestoreSession) -> Done:
        if not (request.files or request.conversation):
            raise CommandRejected("Choose what to rewind: the files, the conversation or both.")
        host = await self._idle_host(request.session_id)
        notes = await self._restore_parts(host, request)
        await self._mark_seen(request.session_id)
        return Done(notes=notes)

    async def _restore_parts(self, host: Host, request: RestoreSession) -> tuple[str, ...]:
        notes: tuple[str, ...] = ()
        if request.files:
            restored, notes = await self._restore_files(host, request)
            if request.conversation and not restored:
                return (*notes, CONVERSATION_KEPT)
        if request.conversation:
            notes = (*notes, await self._rewind(host, request))
        return notes

    async def _mark_seen(self, session_id: str) -> None:
        """Wait until the session is idle and mark it read: the user is looking at it."""
        last = await self._last_event(session_id)
        with anyio.move_on_after(SECONDS_TO_SETTLE):
            async with aclosing(self._supervisor.changes()) as changes:
                async for _ in changes:
                    summary = self._supervisor.summary(session_id)
                    if summary.view.seq >= last and not summary.flags.show_spinner:
                        break
        self._supervisor.mark_read(session_id)

    async def _restore_files(
        self, host: Host, request: RestoreSession
    ) -> tuple[bool, tuple[str, ...]]:
        """Whether the files were restored, with notes for the user."""
        task_id, to, overwrite = request.session_id, request.to, request.overwrite
        plan = await _rehearsal(host, task_id, to, overwrite=overwrite)
        if plan.problem:
            raise CommandRejected(f"Nothing was changed. {plan.problem}")
        if not (plan.written or plan.removed or plan.kept):
            return True, (NO_FILE_PUT_BACK,)
        after = await self._last_event(task_id)
        await host.send(RestoreFiles(task_id=task_id, to=to, overwrite=overwrite))
        return await _wait_for_restore(host, task_id, after)

    async def _rewind(self, host: Host, request: RestoreSession) -> str:
        task_id, after = request.session_id, await self._last_event(request.session_id)
        await host.send(Rewind(task_id=task_id, to=request.to))
        with anyio.move_on_after(SECONDS_TO_RESTORE):
            async with aclosing(_facts(host, task_id, after)) as facts:
                async for fact in facts:
                    if isinstance(fact, Rewound):
                        return f"The conversation was rewound to event {fact.to}."
        return "The conversation is still being rewound; the session reports when it is done."

    async def _idle_host(self, session_id: str) -> Host:
        summary = self._supervisor.summary(session_id)
        if summary.flags.show_spinner or summary.queued:
            raise CommandRejected(AT_WORK)
        return await self._supervisor.host_of(session_id, reopen=True)

    async def _last_event(self, session_id: str) -> int:
        return len(await anyio.to_thread.run_sync(self._events, session_id))

    def _events(self, session_id: str) -> list[Event]:
        return list(self._supervisor.tasks.read(session_id))


async def _rehearsal(host: Host, task_id: str, to: int, *, overwrite: bool) -> RestoreRehearsal:
    return await host.query(AskRehearsal(task_id=task_id, to=to, overwrite=overwrite))


async def _wait_for_restore(host: Host, task_id: str, after: int) -> tuple[bool, tuple[str, ...]]:
    notes: tuple[str, ...] = ()
    with anyio.move_on_after(SECONDS_TO_RESTORE) as patience:
        async with aclosing(_facts(host, task_id, after)) as facts:
            async for fact in facts:
                if isinstance(fact, FilesRestored):
                    return True, (*notes, restored_files(fact))
                if isinstance(fact, Noted):
                    notes = (*notes, fact.text)
                    patience.deadline = anyio.current_time() + SECONDS_AFTER_A_NOTE
    return False, notes or (STILL_RESTORING,)


async def _facts(host: Host, task_id: str, after: int) -> AsyncGenerator[Fact, None]:
    async with aclosing(closable(host.follow(task_id, after))) as events:
        async for event in events:
            yield event.fact


async def _paths(snapshots: Snapshots, moment: Moment) -> tuple[str, ...]:
    effects = [each for step in moment.steps for each in await snapshots.effects(*step)]
    return tuple(dict.fromkeys(each.path for each in effects))


def moments(events: Sequence[Event]) -> list[Moment]:
    """The points to restore, in order: user messages, calls that may have changed files, and
    earlier restores."""
    known, changes = points(events), _Changes(events)
    ends = [later.to for _, later in pairwise(known)]
    return [
        Moment(
            row=_row(point, _title_prefix(place, point)),
            steps=changes.between(point.to, end) if _unnamed(point) else (),
        )
        for place, (point, end) in enumerate(zip(known, [*ends, len(events)], strict=True))
    ]


def _title_prefix(place: int, point: Point) -> str:
    """The prefix of a title: a restore also undoes the named step, except for the task itself."""
    if place == 0 and point.by_user:
        return "Start: "
    return "Before your message: " if point.by_user else "Before: "


def _unnamed(point: Point) -> bool:
    return point.changed_files and not point.paths


def _row(point: Point, when: str) -> CheckpointRow:
    paths = tuple(map(_shown, point.paths)) if point.changed_files else ()
    return CheckpointRow(seq=point.to, ts=point.ts, title=_title(when + point.what), paths=paths)


def _title(text: str) -> str:
    return shortened(_shown(" ".join(text.split())), MAX_TITLE)


def _shown(text: str) -> str:
    return revealed(text)[0]


class _Changes:
    """File changes, ordered by the event at which they started."""

    def __init__(self, events: Sequence[Event]) -> None:
        found = (event.fact for event in events if isinstance(event.fact, FilesChanged))
        self._found = sorted(found, key=lambda change: change.since)
        self._since = [change.since for change in self._found]

    def between(self, after: int, until: int) -> tuple[tuple[str, str], ...]:
        """Snapshot pairs of the changes that started after one event and no later than another."""
        first, last = bisect_right(self._since, after), bisect_right(self._since, until)
        steps = ((change.before, change.after) for change in self._found[first:last])
        return tuple((before, now) for before, now in steps if before != now)
