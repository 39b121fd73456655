"""The rows of a task: an immutable sequence, and the sheet that builds it.

Adding or replacing a row returns a new sequence that shares most of the old one, so that a client
can compare the rows it has drawn with the current ones.

The sheet guarantees two things. Rows are ordered by `ts`, and each `ts` identifies one row forever.
An open question that stops the loop is the last row: later rows appear when it is closed.
"""

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, Literal, Protocol, TypeVar, overload

from msgspec.structs import replace

from rookery.core.blocks import Image
from rookery.core.facts import Event, TaskReopened
from rookery.core.message import Content, Message, Pieces

PAGE = 32

PACED = "api_req_rate_limit_wait"
NOTHING: Mapping[str, Any] = {}
"""One for all that keep nothing: a long task keeps very many."""
_NO_EVENT = Event(0, 0, 0, TaskReopened())
_TIMER = "\n<retry_timer>"


class Placed(Protocol):
    @property
    def ts(self) -> int: ...


R = TypeVar("R", bound=Placed)


class Rows(Sequence[R], Generic[R]):
    """Rows ordered by `ts`.

    Old rows are on full pages. The newest `PAGE` to 2 x `PAGE` rows, which change most, are the
    tail. Versions share one growing list of pages; each version knows how many of them are its own.
    """

    __slots__ = ("_count", "_pages", "_tail")

    def __init__(
        self,
        pages: list[tuple[R, ...]] | None = None,
        count: int = 0,
        tail: tuple[R, ...] = (),
    ) -> None:
        self._pages: list[tuple[R, ...]] = [] if pages is None else pages
        self._count = count
        self._tail = tail

    def __len__(self) -> int:
        return self._count * PAGE + len(self._tail)

    @overload
    def __getitem__(self, index: int) -> R: ...
    @overload
    def __getitem__(self, index: slice) -> list[R]: ...
    def __getitem__(self, index: int | slice) -> R | list[R]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(index)
        page, place = divmod(position, PAGE)
        if page < self._count:
            return self._pages[page][place]
        return self._tail[position - self._count * PAGE]

    def __iter__(self) -> Iterator[R]:
        return self.since(0)

    def since(self, position: int) -> Iterator[R]:
        for page in range(position // PAGE, self._count):
            yield from self._pages[page][max(0, position - page * PAGE) :]
        yield from self._tail[max(0, position - self._count * PAGE) :]

    def find(self, ts: int) -> int | None:
        """The position of the row with this `ts`."""
        tail, first = self._tail, self._count * PAGE
        if tail and tail[0].ts <= ts:  # nearly always
            place = bisect_left(tail, ts, key=_ts)
            return first + place if place < len(tail) and tail[place].ts == ts else None
        position = bisect_left(self, ts, hi=first, key=_ts)
        return position if position < first and self[position].ts == ts else None

    def append(self, row: R) -> "Rows[R]":
        tail = (*self._tail, row)
        if len(tail) < 2 * PAGE:
            return Rows(self._pages, self._count, tail)
        pages = self._pages
        if len(pages) > self._count:  # another version has gone on from here: leave it its pages
            pages = pages[: self._count]
        pages.append(tail[:PAGE])
        return Rows(pages, self._count + 1, tail[PAGE:])

    def replace(self, position: int, row: R) -> "Rows[R]":
        page, place = divmod(position, PAGE)
        if page < self._count:
            pages = self._pages[: self._count]
            pages[page] = _with(pages[page], place, row)
            return Rows(pages, self._count, self._tail)
        return Rows(self._pages, self._count, _with(self._tail, position - self._count * PAGE, row))

    def remove(self, position: int) -> "Rows[R]":
        place = position - self._count * PAGE
        if place >= 0:
            return Rows(self._pages, self._count, self._tail[:place] + self._tail[place + 1 :])
        page = position // PAGE
        rows: Rows[R] = Rows(self._pages, page)
        for row in self.since(page * PAGE):
            if row is not self[position]:
                rows = rows.append(row)
        return rows

    def shared_with(self, other: "Rows[R]") -> int:
        """The number of leading rows that are the same, without comparing each."""
        pages = min(self._count, other._count)
        if self._pages is other._pages:
            return pages * PAGE
        same = 0
        while same < pages and self._pages[same] is other._pages[same]:
            same += 1
        return same * PAGE


def _ts(row: Placed) -> int:
    return row.ts


def _with(rows: tuple[R, ...], place: int, row: R) -> tuple[R, ...]:
    return (*rows[:place], row, *rows[place + 1 :])


class Sheet:
    """All attributes are immutable values, so that copying is cheap. `event` is the current
    event; new rows get its `ts`."""

    __slots__ = ("_held", "_last_ts", "_open", "event", "question", "rows")

    def __init__(self) -> None:
        self.rows: Rows[Message] = Rows()
        self.event = _NO_EVENT
        self.question: int | None = None
        self._last_ts = 0
        self._open: frozenset[int] = frozenset()
        self._held: tuple[Message, ...] = ()

    def copy(self) -> "Sheet":
        """A copy without the current event, which would stay in memory with it."""
        other = Sheet()
        for name in self.__slots__:
            setattr(other, name, getattr(self, name))
        other.event = _NO_EVENT
        return other

    def as_it_was(self, before: "Sheet") -> "Sheet":
        """The earlier rows; `ts` values used since are not used again."""
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
        row = Message(
            ts=self.event.ts,
            seq=self.event.seq,
            type="say",
            say=kind,
            content=content,
            images=images,
            partial=partial,
            call_id=call_id,
        )
        return self.append(row)

    def append(self, row: Message) -> Message:
        """Add a row at the end, or after the open question is closed."""
        if self.question is not None:
            self._held = (*self._held, row)
            return row
        if row.ts <= self._last_ts:
            row = replace(row, ts=self._last_ts + 1)
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

    def let_go(self) -> list[Message]:
        *rows, last = self.rows
        self.rows = Rows(tail=(last,))
        return rows

    def close(self, row: Message) -> None:
        """Mark the row as complete, and as answered if it is an ask."""
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
        """Show that requests are paced. The row disappears when the wait is over."""
        self.say(PACED, f"Next request in {math.ceil(seconds)} s.", partial=True)

    def _position(self, ts: int) -> int:
        position = self.rows.find(ts)
        assert position is not None
        return position

    def _watch(self, row: Message) -> None:
        if row.open != (row.ts in self._open):
            self._open ^= {row.ts}


Value = TypeVar("Value")


def without(mapping: Mapping[str, Value], key: str) -> Mapping[str, Value]:
    if key not in mapping:
        return mapping
    rest = dict(mapping)
    del rest[key]
    return rest
