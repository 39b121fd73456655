"""Where the rows of a task are written, and two promises about them kept.

Rows are in the order of their `ts`, each of which names one row for ever. And a question
that stops the loop is the last row while it is open: what is written meanwhile appears
when it is closed.
"""

import math
from typing import Literal

from msgspec.structs import replace

from rookery.core.blocks import Image
from rookery.core.facts import Event, TaskReopened
from rookery.core.folds.partial_text import Pieces
from rookery.core.folds.rows import Rows
from rookery.core.message import Content, Message

PACED = "api_req_rate_limit_wait"
_TIMER = "\n<retry_timer>"


class Sheet:
    """All attributes are values that are never changed in place, so a copy costs next to
    nothing. `event` is the one being told; new rows are named after it.
    """

    __slots__ = ("_held", "_last_ts", "_open", "event", "question", "rows")

    def __init__(self) -> None:
        self.rows: Rows[Message] = Rows()
        self.event = Event(0, 0, 0, TaskReopened())
        self.question: int | None = None
        self._last_ts = 0
        self._open: frozenset[int] = frozenset()
        self._held: tuple[Message, ...] = ()

    def copy(self) -> "Sheet":
        other = Sheet()
        for name in self.__slots__:
            setattr(other, name, getattr(self, name))
        return other

    def as_it_was(self, before: "Sheet") -> "Sheet":
        """The earlier rows again; names that were given since are not given twice."""
        sheet = before.copy()
        sheet.event, sheet._last_ts = self.event, self._last_ts
        return sheet

    @property
    def last(self) -> Message | None:
        return self.rows[-1] if self.rows else None

    def row(self, ts: int) -> Message:
        return self.rows[self._position(ts)]

    def open_rows(self) -> list[Message]:
        return [self.row(ts) for ts in sorted(self._open)]

    def new(
        self, type: Literal["say", "ask"], kind: str | None = None, content: Content = None
    ) -> Message:
        return Message(
            ts=self.event.ts,
            seq=self.event.seq,
            type=type,
            say=kind if type == "say" else None,
            ask=kind if type == "ask" else None,
            content=content,
        )

    def say(
        self,
        kind: str,
        content: Content,
        *,
        images: tuple[Image, ...] = (),
        partial: bool = False,
        call_id: str = "",
    ) -> Message:
        row = self.new("say", kind, content)
        return self.append(replace(row, images=images, partial=partial, call_id=call_id))

    def append(self, row: Message) -> Message:
        """Put a row at the end, or keep it until the question there is closed."""
        if self.question is not None:
            self._held = (*self._held, row)
            return row
        row = replace(row, ts=max(row.ts, self._last_ts + 1))
        self._last_ts = row.ts
        self.rows = self.rows.append(row)
        self._watch(row)
        return row

    def rewrite(self, row: Message) -> None:
        self.rows = self.rows.replace(self._position(row.ts), row)
        self._watch(row)

    def extend(self, ts: int, text: str) -> None:
        row = self.row(ts)
        assert isinstance(row.content, Pieces)
        self.rewrite(replace(row, content=row.content.add(text)))

    def remove(self, ts: int) -> None:
        self.rows = self.rows.remove(self._position(ts))
        self._open -= {ts}

    def close(self, row: Message) -> None:
        """The row is complete, and if it is an ask, nobody waits for it."""
        content = row.content
        if row.say == "api_req_retry_delayed" and row.text:
            content = row.text.partition(_TIMER)[0]
        if row.say == PACED:
            self.remove(row.ts)
            return
        answered = row.type == "ask"
        self.rewrite(replace(row, partial=False, answered=answered, content=content))
        if row.ts == self.question:
            self.question = None
            held, self._held = self._held, ()
            for waiting in held:
                self.append(waiting)

    def close_all(self) -> None:
        for row in self.open_rows():
            self.close(row)

    def count_down(self, reason: str, seconds: float) -> None:
        text = f"{reason}{_TIMER}{max(0, round(seconds))}</retry_timer>"
        counting = (row for row in self.open_rows() if row.say == "api_req_retry_delayed")
        if row := next(counting, None):
            self.rewrite(replace(row, content=text))
        else:
            self.say("api_req_retry_delayed", text, partial=True)

    def pace(self, seconds: float) -> None:
        """Say that requests are kept apart. The row goes when the wait is over."""
        self.say(PACED, f"Next request in {math.ceil(seconds)} s.", partial=True)

    def _position(self, ts: int) -> int:
        position = self.rows.find(ts)
        assert position is not None
        return position

    def _watch(self, row: Message) -> None:
        if row.open != (row.ts in self._open):
            self._open ^= {row.ts}
