"""Tells one client of the list of sessions: all of it once, and then what changes in it."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from functools import partial
from typing import Any, Protocol, cast

import anyio
import anyio.to_thread

from rookery.manager.rendering.markdown_html import make_ready
from rookery.manager.rendering.session_rows import inbox_row, session_row
from rookery.manager.sessions.session_record import (
    active_first,
    archived_records,
)
from rookery.manager.sessions.session_summary import Question, in_order
from rookery.manager.sessions.supervisor import Supervisor
from rookery.manager.shown_rows import InboxRow, Overview, SessionRow
from rookery.protocol.codec import answer_to_json
from rookery.protocol.relay import Outlet

SECONDS_BETWEEN = 0.1
"""What comes in between is told in one."""
ROWS_AT_ONCE = 200
"""In one message."""


class Manager(Protocol):
    @property
    def supervisor(self) -> Supervisor: ...

    def overview(self) -> Overview: ...


async def relay_list(outlet: Outlet, manager: Manager) -> None:
    told = _Told(manager)
    changes = cast(AsyncGenerator[frozenset[str], None], manager.supervisor.changes())
    async with aclosing(changes), anyio.create_task_group() as group:
        # whoever looks at the list will look at a session next
        group.start_soon(partial(anyio.to_thread.run_sync, make_ready, abandon_on_cancel=True))
        async for changed in changes:
            await outlet.room()
            for piece in _pieces(await told.news(changed)):
                outlet.tell("list", b"," + answer_to_json(piece)[1:-1])
                await outlet.room()
            await anyio.sleep(SECONDS_BETWEEN)


def _pieces(news: dict[str, Any]) -> Iterator[dict[str, Any]]:
    rows = news.pop("rows", [])
    if news or rows:
        yield news | ({"rows": rows[:ROWS_AT_ONCE]} if rows else {})
    for place in range(ROWS_AT_ONCE, len(rows), ROWS_AT_ONCE):
        yield {"rows": rows[place : place + ROWS_AT_ONCE]}


class _Told:
    """What a client has been told, so that it is told only what is new."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._rows: dict[str, SessionRow] = {}
        self._order: tuple[str, ...] | None = None
        self._overview: Overview | None = None
        self._questions: dict[str, Question] = {}

    async def news(self, changed: frozenset[str]) -> dict[str, Any]:
        first = self._overview is None
        if first:
            changed = frozenset(each.session_id for each in self._manager.supervisor.records())
        rows, removed = self._look_at(changed)
        told: dict[str, Any] = {}
        if rows:
            told["rows"] = rows
        if removed:
            told["removed"] = removed
        if rows or removed or "" in changed or first:
            told |= self._head()
        if self._has_new_questions(changed) or first:
            told["inbox"] = await self._inbox()
        return told

    def _look_at(self, changed: frozenset[str]) -> tuple[list[SessionRow], list[str]]:
        rows: list[SessionRow] = []
        removed: list[str] = []
        for session_id in sorted(changed - {""}):
            shown = self._manager.supervisor.session(session_id)
            if shown is None:
                if self._rows.pop(session_id, None):
                    removed.append(session_id)
                continue
            row = session_row(shown)
            if self._rows.get(session_id) != row:
                self._rows[session_id] = row
                rows.append(row)
        return rows, removed

    def _head(self) -> dict[str, Any]:
        records = self._manager.supervisor.records()
        listed = (*active_first(records), *archived_records(records))
        order = tuple(record.session_id for record in listed)
        overview = self._manager.overview()
        told: dict[str, Any] = {}
        if order != self._order:
            told["order"] = self._order = order
        if overview != self._overview:
            told["overview"] = self._overview = overview
        return told

    def _has_new_questions(self, changed: frozenset[str]) -> bool:
        new = False
        for session_id in changed:
            question = self._manager.supervisor.question(session_id)
            if question != self._questions.pop(session_id, None):
                new = True
            if question:
                self._questions[session_id] = question
        return new

    async def _inbox(self) -> tuple[InboxRow, ...]:
        asked = in_order(self._questions.values())
        # their words are rendered, which may take a moment
        return await anyio.to_thread.run_sync(lambda: tuple(map(inbox_row, asked)))
