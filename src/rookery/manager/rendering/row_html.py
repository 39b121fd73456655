"""What the rows look like that a client follows: their Markdown as HTML, made beside the loop.

The newest rows come first, and of each only what is new.
"""

import time
from collections.abc import Callable, Iterable
from typing import Any

import anyio
import anyio.to_thread
from msgspec import Struct

from rookery.core.folds.rows import Rows
from rookery.core.message import Message
from rookery.manager.rendering.markdown_html import Cut, GrowingMarkdown, Rendered, units
from rookery.manager.rendering.session_rows import markdown_of

SECONDS_AT_ONCE = 0.025
"""Of work, after which what was made so far is told."""
_one_at_a_time = anyio.CapacityLimiter(1)


class _Job(Struct, frozen=True):
    ts: int
    growing: GrowingMarkdown
    cut: Cut


class Made(Struct, frozen=True):
    ts: int
    text: str
    rendered: Rendered


class RowLooks:
    def __init__(self, rows: Callable[[], Rows[Message]]) -> None:
        """`rows` are those that the client has been told."""
        self._rows = rows
        self._growing: dict[int, GrowingMarkdown] = {}
        self._unseen: set[int] = set()
        self._jobs: list[_Job] = []
        self._news = anyio.Event()

    def look_at(self, rows: Iterable[int]) -> None:
        """Rows that came or changed, by their `ts`."""
        self._unseen.update(rows)
        self._news.set()

    async def made(self) -> list[Made]:
        """Some more of it, once there is something to be made."""
        while not self._jobs:
            await self._news.wait()
            self._news = anyio.Event()
            self._find_jobs()
        self._find_jobs()
        made = await anyio.to_thread.run_sync(_work, self._jobs, limiter=_one_at_a_time)
        del self._jobs[: len(made)]
        return made

    def fitting(self, made: Iterable[Made]) -> list[dict[str, Any]]:
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
            growing = self._growing.setdefault(ts, GrowingMarkdown())
            if cut := growing.cut(text, complete=not row.partial):
                self._jobs.append(_Job(ts, growing, cut))
        self._unseen.clear()
        self._jobs.sort(key=lambda job: -job.ts)

    def _row(self, ts: int) -> Message | None:
        rows = self._rows()
        position = rows.find(ts)
        return None if position is None else rows[position]


def _work(jobs: list[_Job]) -> list[Made]:
    """Of the first jobs, as many as can be done in so much time; one at least."""
    end = time.monotonic() + SECONDS_AT_ONCE
    made: list[Made] = []
    for job in jobs:
        if made and time.monotonic() > end:
            break
        made.append(Made(job.ts, job.cut.text, job.growing.rendered(job.cut)))
    return made


def _is_of(made: Made, row: Message) -> bool:
    return (markdown_of(row) or "").startswith(made.text)


def _change(made: Made, row: Message) -> dict[str, Any]:
    look = made.rendered
    name = "html" if look.anew else "html_add"
    # the answers that a question offers are said behind it, in the same text
    upto = units(row.text or "") if row.ask == "followup" and not row.partial else look.upto
    return {"ts": made.ts, name: look.blocks, "html_upto": upto}
