"""The rows of one task as the driver sees them, and when each is written.

A row is written at once when it is new and when it is complete. While it grows, the whole row is
written each time, less often the longer it is: otherwise the output would grow with the square of
its length.
"""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from rookery.compat.json_io.row_messages import Wire, as_message, data_uri
from rookery.compat.structured_output.call_rows import output
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
from rookery.core.folds.view import View, changes, see
from rookery.core.message import Message

PACE = 0.05
"""Seconds between two updates of a short row that grows."""
SHORT = 4 * 1024
"""Characters up to which a row is short; twice the length waits twice as long."""


class _Written(Struct, frozen=True):
    at: float
    length: int

    @property
    def again(self) -> float:
        """When the row may be written again before it is complete."""
        return self.at + PACE * max(1.0, self.length / SHORT)


class ShownTask:
    """A task, its rows that are still to be written, and what else a webview shows of it."""

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        self.view = View()
        self._known = self.view
        """The view at the last `catch_up`."""
        self.text = ""
        self.parent: str | None = None
        self.began = 0
        self.provider = ""
        self.failure = ""
        self.parts: set[str] = set()
        """Parts of the view that changed since they were last written."""
        self._extras: dict[int, Wire] = {}
        self._spoken: dict[str, int] = {}
        self._due: dict[int, None] = {}
        self._unwritten: set[int] = set()
        self._growing: dict[int, _Written | None] = {}
        """Incomplete rows, with the last time each was written."""
        self._gone: list[int] = []

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
        self.read(event)
        self.catch_up()

    def read(self, event: Event) -> None:
        """Take an event of which nothing is to be written before `catch_up`."""
        self.view = see(self.view, event)
        self._note(event)

    def catch_up(self) -> None:
        """Find out what is to be written since the last time."""
        before, self._known = self._known, self.view
        change = changes(before, self.view)
        self.parts |= change.parts
        for row in (*change.added, *change.changed):
            self._due[row.ts] = None
            if row.partial:
                self._growing.setdefault(row.ts, None)
            else:
                self._growing.pop(row.ts, None)
        self._unwritten.update(row.ts for row in change.added)
        self._drop(change.removed)

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

    def messages(self) -> list[Wire]:
        """Return all rows, and forget what was still to be written."""
        self._due.clear()
        self._unwritten.clear()
        self._gone.clear()
        return [self.as_message(row) for row in self.view.messages]

    def as_message(self, row: Message) -> Wire:
        return as_message(row, self._extras.get(row.seq) if row.say in _CONDENSED else None)

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
        return None if place is None else self.view.messages[place]

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
