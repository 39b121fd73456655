"""Counts what sessions have changed, for the list and for open reviews.

A session is counted again when one of its tool calls has finished or its state has changed, and
only once a client follows the list. A session without a worktree is counted from its journal, which
is long while it works, so its figures come when it rests; its revision still grows at once. One
that rested before the list was followed is not counted until it works again.
"""

from contextlib import aclosing
from typing import TypeAlias

import anyio
from msgspec.structs import replace

from rookery.errors import RookeryError
from rookery.manager.handlers.review_handler import ReviewHandler
from rookery.manager.sessions.session_record import ChangeCount, same_fields
from rookery.manager.sessions.session_states import SessionState
from rookery.manager.sessions.session_summary import SessionSummary
from rookery.manager.sessions.supervisor import Supervisor
from rookery.manager.shown_rows import WorktreeStats

SECONDS_BETWEEN = 0.3
"""Seconds between two rounds of counting; changes in between are counted together."""
_Mark: TypeAlias = tuple[SessionState, int]


class ChangeCounts:
    def __init__(self, supervisor: Supervisor, review: ReviewHandler) -> None:
        self._supervisor = supervisor
        self._review = review
        self._marks: dict[str, _Mark] = {}
        self._runs = False

    def start(self) -> None:
        """Count from now on; a client follows the list."""
        if not self._runs and not self._supervisor.read_only:
            self._runs = True
            self._supervisor.group.start_soon(self._run)

    async def _run(self) -> None:
        self._marks = {
            each.record.session_id: _mark_of(each)
            for each in self._supervisor.all()
            if not each.record.worktree_id and not each.flags.is_active
        }
        async with aclosing(self._supervisor.changes()) as changes:
            async for changed in changes:
                for session_id in sorted(changed - {""}):
                    await self._look_at(session_id)
                await anyio.sleep(SECONDS_BETWEEN)

    async def _look_at(self, session_id: str) -> None:
        summary = self._supervisor.session(session_id)
        if not summary:
            self._marks.pop(session_id, None)
            return
        mark = _mark_of(summary)
        if self._marks.get(session_id) != mark:
            self._marks[session_id] = mark
            await self._count(summary)

    async def _count(self, summary: SessionSummary) -> None:
        session_id = summary.record.session_id
        local = not summary.record.worktree_id
        stats = (
            None
            if local and summary.flags.is_active
            else await self._stats(session_id, local=local)
        )
        try:
            session = self._supervisor.find(session_id)
        except RookeryError:
            return  # removed meanwhile, or of a terminal
        counted = (
            session.changes if stats is None else ChangeCount(**same_fields(stats, ChangeCount))
        )
        session.changes = replace(counted, revision=session.changes.revision + 1)
        self._supervisor.changed(session_id)

    async def _stats(self, session_id: str, *, local: bool) -> WorktreeStats | None:
        try:
            return await self._review.stats(session_id, local=local)
        except (RookeryError, OSError):
            return None  # for example, the project is no longer trusted


def _mark_of(summary: SessionSummary) -> _Mark:
    return summary.record.state, summary.tools_finished
