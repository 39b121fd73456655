"""Sessions, questions and rows as a page or a command draws them.

The Markdown of rows that a client follows is made beside the loop: the newest rows first, and of
each only what is new.
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
from rookery.manager.sessions.session_summary import SessionQuestion, ShownSession
from rookery.manager.shown_rows import InboxRow, MailRow, SessionRow
from rookery.protocol.codec import ceiling

SECONDS_AT_ONCE = 0.025
"""Of work, after which what was made so far is told."""
_one_at_a_time = anyio.CapacityLimiter(1)

PROMPT_SHOWN = 500
WORDS_SHOWN = 2_000
LINES_SHOWN, LINE_SHOWN = 50, 500
"""Of a log, and of each of its lines."""
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
        """`rows` are those that the client has been told."""
        self._rows = rows
        self._growing: dict[int, GrowingHtml] = {}
        self._unseen: set[int] = set()
        self._jobs: list[_Job] = []
        self._news = anyio.Event()

    def look_at(self, rows: Iterable[int]) -> None:
        """Rows that came or changed, by their `ts`."""
        self._unseen.update(rows)
        self._news.set()

    async def made(self) -> list[RenderedRow]:
        """Some more of it, once there is something to be made."""
        while not self._jobs:
            await self._news.wait()
            self._news = anyio.Event()
            self._find_jobs()
        self._find_jobs()
        made = await anyio.to_thread.run_sync(_work, self._jobs, limiter=_one_at_a_time)
        del self._jobs[: len(made)]
        return made

    def fitting(self, made: Iterable[RenderedRow]) -> list[dict[str, Any]]:
        """The changes of rows that are still what it was made of."""
        told = ((each, self._row(each.ts)) for each in made)
        return [_change(each, row) for each, row in told if row and _is_of(each, row)]

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


def session_row(shown: ShownSession) -> SessionRow:
    record, view = shown.record, shown.view
    worktree = record.parallel_mode
    told = {
        **same_fields(record, SessionRow),
        **same_fields(shown, SessionRow),
        "name": record.name,
        "prompt": _beginning(record.prompt, PROMPT_SHOWN),
        "state": shown.session.state,
        "auto_approve": record.auto_approve if view.automatic is None else view.automatic,
        "failure": shown.session.failure,
        "mail": tuple(_mail_row(mail) for mail in shown.mail if mail.state != "sent"),
        "branch": worktree.branch if worktree else "",
        "logs": tuple(_beginning(line, LINE_SHOWN) for line in record.logs[-LINES_SHOWN:]),
    }
    return SessionRow(**told)


def inbox_row(question: SessionQuestion) -> InboxRow:
    row = question.row
    words = row.text if question.state is SessionState.COMPLETED else markdown_of(row)
    told = {
        **same_fields(row, InboxRow),
        **same_fields(question, InboxRow),
        "ask": row.ask or "",
        "text": row.text or "",
        "html": rendered(words) if words else (),
        "images": len(row.images),
    }
    return InboxRow(**told)


def markdown_of(row: Message) -> str | None:
    """The Markdown that a row says; None if it says none."""
    match row.ask or row.say:
        case "followup":
            return question_in(row.text)
        case "auto_approval_max_req_reached":
            return ceiling(row.text or "")
        case kind:
            return row.text if kind in _MARKDOWN else None


def question_in(text: str | None) -> str | None:
    """What a question says without the answers it offers. While it arrives it has none yet."""
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
    """Of the first jobs, as many as can be done in so much time; one at least."""
    end = time.monotonic() + SECONDS_AT_ONCE
    made: list[RenderedRow] = []
    for job in jobs:
        if made and time.monotonic() > end:
            break
        made.append(RenderedRow(job.ts, job.cut.text, job.growing.rendered(job.cut)))
    return made


def _is_of(made: RenderedRow, row: Message) -> bool:
    return (markdown_of(row) or "").startswith(made.text)


def _change(made: RenderedRow, row: Message) -> dict[str, Any]:
    look = made.rendered
    name = "html" if look.anew else "html_add"
    # the answers that a question offers are said behind it, in the same text
    upto = units(row.text or "") if row.ask == "followup" and not row.partial else look.upto
    return {"ts": made.ts, name: look.blocks, "html_upto": upto}


def _mail_row(mail: QueuedMessage) -> MailRow:
    return MailRow(
        number=mail.number,
        text=_beginning(mail.letter.text, WORDS_SHOWN),
        images=len(mail.letter.images),
        state=mail.state,
        retries=mail.retries,
        problem=mail.problem,
    )


def _beginning(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"
