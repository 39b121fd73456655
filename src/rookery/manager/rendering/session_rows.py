"""Rows for sessions, questions and messages, as the page and commands show them.

Markdown of rows that a client follows is rendered in a thread: newest rows first, and of each only
what is new.
"""

import json
import time
from collections.abc import Callable, Iterable
from typing import Any

import anyio
import anyio.to_thread
from msgspec import Struct

from rookery.core.folds.rows import Rows
from rookery.core.message import Message
from rookery.manager.rendering.markdown_html import Cut, GrowingHtml, Rendered, rendered, units
from rookery.manager.sessions.session_record import QueuedMessage, same_fields
from rookery.manager.sessions.session_states import SessionState
from rookery.manager.sessions.session_summary import SessionQuestion, SessionSummary
from rookery.manager.shown_rows import InboxRow, SessionRow, UndeliveredRow
from rookery.protocol.codec import ceiling

SECONDS_AT_ONCE = 0.025
"""Seconds of work after which results are sent."""
_one_at_a_time = anyio.CapacityLimiter(1)

PROMPT_SHOWN = 500
WORDS_SHOWN = 2_000
LINES_SHOWN, LINE_SHOWN = 50, 500
"""Lines of a log, and characters of a line."""
_MARKDOWN = frozenset(
    ("text", "reasoning", "completion_result", "user_feedback", "condense_context")
)


class _Job(Struct, frozen=True):
    ts: int
    growing: GrowingHtml
    cut: Cut


class RenderedRow(Struct, frozen=True):
    ts: int
    text: str
    rendered: Rendered


class RowLooks:
    def __init__(self, rows: Callable[[], Rows[Message]]) -> None:
        """`rows` returns the rows that the client has."""
        self._rows = rows
        self._growing: dict[int, GrowingHtml] = {}
        self._unseen: set[int] = set()
        self._jobs: list[_Job] = []
        self._news = anyio.Event()

    def look_at(self, rows: Iterable[int]) -> None:
        """Queue rows that are new or changed, by their `ts`."""
        self._unseen.update(rows)
        self._news.set()

    async def made(self) -> list[RenderedRow]:
        """Wait for work and return the next rendered rows."""
        while not self._jobs:
            await self._news.wait()
            self._news = anyio.Event()
            self._find_jobs()
        self._find_jobs()
        made = await anyio.to_thread.run_sync(_work, self._jobs, limiter=_one_at_a_time)
        del self._jobs[: len(made)]
        return made

    def fitting(self, made: Iterable[RenderedRow]) -> list[dict[str, Any]]:
        """Changes for rows whose text is still what was rendered."""
        pairs = ((each, self._row(each.ts)) for each in made)
        return [_change(each, row) for each, row in pairs if row and _matches(each, row)]

    def _find_jobs(self) -> None:
        for ts in sorted(self._unseen):
            row = self._row(ts)
            text = markdown_of(row) if row else None
            if not row or not text:
                self._growing.pop(ts, None)
                continue
            growing = self._growing.setdefault(ts, GrowingHtml())
            if cut := growing.cut(text, complete=not row.partial):
                self._jobs.append(_Job(ts, growing, cut))
        self._unseen.clear()
        self._jobs.sort(key=lambda job: -job.ts)

    def _row(self, ts: int) -> Message | None:
        rows = self._rows()
        position = rows.find(ts)
        return None if position is None else rows[position]


def session_row(shown: SessionSummary) -> SessionRow:
    record, view = shown.record, shown.view
    worktree = record.parallel_mode
    fields = {
        **same_fields(record, SessionRow),
        **same_fields(shown, SessionRow),
        "name": record.name,
        "flags": shown.flags,
        "prompt": _shorten(record.prompt, PROMPT_SHOWN),
        "auto_approve": record.auto_approve if view.automatic is None else view.automatic,
        "undelivered": tuple(
            _undelivered_row(each) for each in shown.undelivered if each.state != "sent"
        ),
        "branch": worktree.branch if worktree else "",
        "logs": tuple(_shorten(line, LINE_SHOWN) for line in record.logs[-LINES_SHOWN:]),
    }
    return SessionRow(**fields)


def inbox_row(question: SessionQuestion) -> InboxRow:
    row = question.row
    words = row.text if question.state is SessionState.COMPLETED else markdown_of(row)
    fields = {
        **same_fields(row, InboxRow),
        **same_fields(question, InboxRow),
        "ask": row.ask or "",
        "text": row.text or "",
        "html": rendered(words) if words else (),
        "images": len(row.images),
    }
    return InboxRow(**fields)


def markdown_of(row: Message) -> str | None:
    """The Markdown in a row; None if it has none."""
    match row.ask or row.say:
        case "followup":
            return question_in(row.text)
        case "auto_approval_max_req_reached":
            return ceiling(row.text or "")
        case kind:
            return row.text if kind in _MARKDOWN else None


def question_in(text: str | None) -> str | None:
    """The text of a question without its suggestions. An incomplete one is not JSON yet."""
    try:
        said = json.loads(text or "")
    except (ValueError, RecursionError):
        return text
    match said:
        case {"question": str(question)}:
            return question
        case _:
            return text


def _work(jobs: list[_Job]) -> list[RenderedRow]:
    """Do jobs for `SECONDS_AT_ONCE`, at least one."""
    end = time.monotonic() + SECONDS_AT_ONCE
    made: list[RenderedRow] = []
    for job in jobs:
        if made and time.monotonic() > end:
            break
        made.append(RenderedRow(job.ts, job.cut.text, job.growing.rendered(job.cut)))
    return made


def _matches(made: RenderedRow, row: Message) -> bool:
    return (markdown_of(row) or "").startswith(made.text)


def _change(made: RenderedRow, row: Message) -> dict[str, Any]:
    look = made.rendered
    name = "html" if look.anew else "html_add"
    # the row's text also holds the suggestions of a question
    upto = units(row.text or "") if row.ask == "followup" and not row.partial else look.upto
    return {"ts": made.ts, name: look.blocks, "html_upto": upto}


def _undelivered_row(queued: QueuedMessage) -> UndeliveredRow:
    return UndeliveredRow(
        number=queued.number,
        text=_shorten(queued.message.text, WORDS_SHOWN),
        images=len(queued.message.images),
        state=queued.state,
        retries=queued.retries,
        problem=queued.problem,
    )


def _shorten(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"
