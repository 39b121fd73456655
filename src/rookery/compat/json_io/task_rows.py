"""The rows of one task as the driver sees them, and when each is written.

A row is written at once when it is new and when it is complete. While it grows, the whole row is
written each time, less often the longer it is: otherwise the output would grow with the square of
its length.
"""

import json
import uuid
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rookery.compat.json_io.row_messages import (
    CHECKPOINT,
    Wire,
    as_line,
    as_message,
    data_uri,
    read_row,
)
from rookery.compat.structured_output.call_rows import compact, output, readable
from rookery.compat.structured_output.writer import EncodedLines
from rookery.core.asks import AskKind
from rookery.core.facts import (
    Condensed,
    Event,
    ModelSwitched,
    QueueEdited,
    RequestStarted,
    TaskFailed,
    TaskOpened,
    TaskReopened,
    UserSpoke,
)
from rookery.core.folds.view import View, changes, see, settled_rows, take
from rookery.core.message import Message

PACE = 0.05
"""Seconds between two updates of a short row that grows."""
SEALED_AT_ONCE = 500
"""Rows of a stored session after which the earlier ones are kept as JSON."""
SHORT = 4 * 1024
"""Characters up to which a row is short; twice the length waits twice as long."""


class _Written(Struct, frozen=True):
    at: float
    length: int

    @property
    def again(self) -> float:
        """When the row may be written again before it is complete."""
        return self.at + PACE * max(1.0, self.length / SHORT)


class SealedRows:
    """The first rows of a long session as JSON, in pieces. Only a rewind changes them."""

    def __init__(self) -> None:
        self.checkpoints = array("q")
        """The events that saved checkpoints."""
        self._pieces: list[bytes] = []
        self._ts = array("q")
        self._seqs = array("q")
        self._starts: list[tuple[View, int]] = [(View(), 0)]
        """The view and the row at which each piece begins, and those at which the last one ends."""

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def add(self, rows: Sequence[Message], lines: Iterable[bytes], view: View) -> None:
        """Add a piece that `view` continues."""
        piece = b"\n".join(lines)
        if not piece.isascii() or b"\x7f" in piece:
            piece = readable(piece.decode()).encode()
        self._pieces.append(piece)
        self._ts.extend(row.ts for row in rows)
        self._seqs.extend(row.seq for row in rows)
        self.checkpoints.extend(row.seq for row in rows if row.say == CHECKPOINT)
        self._starts.append((view, len(self._ts)))

    def cut(self, to: int) -> tuple[View, list[Wire]]:
        """Remove what may have changed after event `to`. Return where to continue, and the
        removed messages."""
        kept = max(0, bisect_left(self._starts, to, key=lambda start: start[0].seq) - 1)
        end, place = self._starts[kept]
        view = settled_rows(end)[1] if end.seq else View()
        lines = (line for piece in self._pieces[kept:] for line in piece.split(b"\n"))
        removed = [json.loads(line) for line in lines]
        del self._pieces[kept:], self._starts[kept + 1 :], self._ts[place:], self._seqs[place:]
        del self.checkpoints[bisect_right(self.checkpoints, view.seq) :]
        return view, removed

    def find(self, ts: int) -> Message | None:
        place = bisect_left(self._ts, ts)
        if place == len(self._ts) or self._ts[place] != ts:
            return None
        piece = bisect_right(self._starts, place, key=lambda start: start[1]) - 1
        line = self._pieces[piece].split(b"\n")[place - self._starts[piece][1]]
        row = read_row(json.loads(line))
        return replace(row, seq=self._seqs[place]) if row else None

    def lines(self) -> EncodedLines:
        return EncodedLines(_joined(self._pieces, b"\n"))

    def whole(self, line: Wire, rows: list[Any]) -> EncodedLines:
        """The line with these rows before `rows`, which must be a list in the line."""
        mark = uuid.uuid4().hex
        rows.insert(0, mark)
        head, tail = readable(compact(line)).split(f'"{mark}"')
        listed = _joined([piece.replace(b"\n", b",") for piece in self._pieces], b",")
        return EncodedLines([head.encode(), *listed, tail.encode()])


def _joined(pieces: Sequence[bytes], between: bytes) -> list[bytes]:
    return [each for piece in pieces for each in (between, piece)][1:]


class ShownTask:
    """A task, its rows that are still to be written, and what else a webview shows of it."""

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        self.view = View()
        self._known = View()
        """The view at the last `catch_up`."""
        self.text = ""
        self.parent: str | None = None
        self.began = 0
        self.provider = ""
        self.failure = ""
        self.sealed = SealedRows()
        self.parts: set[str] = set()
        """Parts of the view that changed since they were last written."""
        self._extras: dict[int, Wire] = {}
        self._spoken: dict[str, int] = {}
        self._due: dict[int, None] = {}
        self._unwritten: set[int] = set()
        self._growing: dict[int, _Written | None] = {}
        """Incomplete rows, with the last time each was written."""
        self._gone: list[int] = []
        self._sealed_unwritten = False

    @property
    def question(self) -> Message | None:
        """The question that blocks the task."""
        return self.view.open_ask if self.view.agent.is_waiting_for_input else None

    @property
    def offer(self) -> Message | None:
        """The running command, if it can be continued in the background or ended."""
        asked = self.view.open_ask
        return asked if asked and asked.ask == AskKind.COMMAND_OUTPUT else None

    @property
    def waits(self) -> bool:
        """Whether a row must be written later, even if nothing else happens."""
        return bool(self._due)

    def learn(self, event: Event) -> None:
        self.view = see(self.view, event)
        self._note(event)
        self.catch_up()

    def read(self, event: Event) -> None:
        """Apply a stored event. Nothing is written about it before `catch_up`."""
        self.view = take(self.view, event)
        self._note(event)
        if isinstance(event.fact, RequestStarted) and len(self.view.messages) > SEALED_AT_ONCE:
            self._seal()

    def _seal(self) -> None:
        """Keep the rows so far as JSON, which needs little memory."""
        rows, self.view = settled_rows(self.view)
        lines = (as_line(row, self._extra(row)) for row in rows)
        self.sealed.add(rows, lines, settled_rows(self.view)[1])
        self._sealed_unwritten = True

    def go_back(self, view: View, removed: Sequence[Wire]) -> None:
        """Continue from an earlier view. `removed` are messages that are no longer sealed."""
        before, self.view = self._known, view
        if not before.seq:
            return  # nothing was written
        self._known = view
        self.parts |= changes(before, view).parts
        written = (*removed, *map(self.as_message, before.messages))
        old = {message["ts"]: message for message in written}
        new = {row.ts: row for row in view.messages}
        self._drop(sorted(old.keys() - new.keys()))
        self._unwritten.update(new.keys() - old.keys())
        for row in new.values():
            if old.get(row.ts) != self.as_message(row):
                self._expect(row)

    def catch_up(self) -> None:
        """Find out what has to be written since the last time."""
        before, self._known = self._known, self.view
        change = changes(before, self.view)
        self.parts |= change.parts
        for row in (*change.added, *change.changed):
            self._expect(row)
        self._unwritten.update(row.ts for row in change.added)
        self._drop(change.removed)

    def _expect(self, row: Message) -> None:
        self._due[row.ts] = None
        if row.partial:
            self._growing.setdefault(row.ts, None)
        else:
            self._growing.pop(row.ts, None)

    def news(self, now: float) -> list[Message]:
        """Return the rows to write now, in order."""
        rows: list[Message] = []
        for ts in sorted(self._due):
            row = self._row(ts)
            if ts in self._unwritten and self._follows_a_call(row):
                break  # it will probably be removed again
            telling = self._growing.get(ts)
            if row.partial and telling and now < telling.again:
                continue
            if row.partial:
                self._growing[ts] = _Written(now, len(row.text or ""))
            del self._due[ts]
            self._unwritten.discard(ts)
            rows.append(row)
        return rows

    def gone(self) -> list[int]:
        """Return the written rows that were removed, each once."""
        gone, self._gone = self._gone, []
        return gone

    def sealed_lines(self, *, again: bool = False) -> list[EncodedLines]:
        """Return the sealed rows, each once or again."""
        wanted = self._sealed_unwritten or again
        self._sealed_unwritten = False
        return [self.sealed.lines()] if wanted and self.sealed else []

    def messages(self) -> list[Wire]:
        """Return all rows that are not sealed, and forget what was still to be written."""
        self._due.clear()
        self._unwritten.clear()
        self._gone.clear()
        self._sealed_unwritten = False
        return [self.as_message(row) for row in self.view.messages]

    def as_message(self, row: Message) -> Wire:
        return as_message(row, self._extra(row))

    def _extra(self, row: Message) -> Wire | None:
        return self._extras.get(row.seq) if row.say in _CONDENSED else None

    def queue(self) -> list[Wire]:
        return [
            output(
                id=spoken.message_id,
                timestamp=self._spoken.get(spoken.message_id, 0),
                text=spoken.text,
                images=[data_uri(image) for image in spoken.images] or None,
            )
            for spoken in self.view.queue
        ]

    def row(self, ts: int) -> Message | None:
        place = self.view.messages.find(ts)
        return self.sealed.find(ts) if place is None else self.view.messages[place]

    def checkpoints(self, after: int) -> Iterator[int]:
        """Return the events after `after` that saved checkpoints."""
        rows = (row.seq for row in self.view.messages if row.say == CHECKPOINT)
        return (seq for seq in (*self.sealed.checkpoints, *rows) if seq > after)

    def _row(self, ts: int) -> Message:
        row = self.row(ts)
        assert row
        return row

    def _follows_a_call(self, row: Message) -> bool:
        return any(ts < row.ts and self._row(ts).type == "ask" for ts in self._growing)

    def _drop(self, removed: Iterable[int]) -> None:
        for ts in removed:
            self._due.pop(ts, None)
            self._growing.pop(ts, None)
            if ts in self._unwritten:
                self._unwritten.discard(ts)
            else:
                self._gone.append(ts)

    def _note(self, event: Event) -> None:
        if type(event.fact) not in _NOTED:
            return
        match event.fact:
            case TaskOpened(text=text, parent=parent):
                self.text, self.parent, self.began = text, parent, event.ts
            case UserSpoke(message_id=message_id) | QueueEdited(message_id=message_id):
                self._spoken[message_id] = event.ts
            case ModelSwitched(provider=provider) | RequestStarted(provider=provider) if provider:
                self.provider = provider
            case Condensed() as condensed:
                self._extras[event.seq] = _condensed(condensed, event.seq)
            case TaskReopened():
                self.failure = ""
            case TaskFailed(message=message):
                self.failure = message or "The task ended without being completed."
            case _:
                pass


_NOTED = {
    *(TaskOpened, TaskReopened, TaskFailed, UserSpoke, QueueEdited),
    *(ModelSwitched, RequestStarted, Condensed),
}
_CONDENSED = ("condense_context", "sliding_window_truncation")


def _condensed(fact: Condensed, seq: int) -> Wire:
    tokens: dict[str, Any] = {
        "prevContextTokens": fact.tokens_before,
        "newContextTokens": fact.tokens_after,
    }
    if not fact.summary:
        return {"contextTruncation": {"truncationId": str(seq), **tokens}}
    cost = fact.usage.cost or 0.0
    summed = {"cost": cost, "summary": fact.summary, "condenseId": str(seq)}
    return {"contextCondense": {**tokens, **summed}}
