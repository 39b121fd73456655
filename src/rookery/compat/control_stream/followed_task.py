"""One task of the control stream: its queue, its rows, and the requests they belong to."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from rookery.compat.structured_output.call_rows import Ids, Output, output
from rookery.compat.structured_output.output_events import DrivenOutput
from rookery.core.asks import APPROVALS, ASKED_AGAIN, CATEGORY, AskCategory, AskKind, Reply
from rookery.core.event_list import EventList
from rookery.core.facts import Answered, Event, Fact, QueueEdited, TaskOpened, UserSpoke
from rookery.core.folds.view import see, view_from
from rookery.core.folds.view_start import view_start
from rookery.core.message import Message
from rookery.core.text.terminal_text import shortened


class Attribution:
    def __init__(self) -> None:
        self.active = ""
        self.interrupted = ""
        """The request that was active before a cancellation."""
        self.turn: list[str] = []
        """The requests that this turn answers, in order."""
        self._last_queued = False
        """The last of them was a queued message, so an answer does not replace it."""
        self._waiting: dict[str, str] = {}
        """Request ids of queued messages, oldest first."""
        self._places: dict[str, int] = {}
        """Position of each queued request of this task."""
        self.refused: dict[str, str] = {}
        """Requests of the turn whose message a hook refused, each with the reason."""
        self._answer = ""
        """The last request that answered a question."""
        self._before_answer: tuple[str, str, list[str], bool] = ("", "", [], False)

    def take_over(self, request_id: str) -> None:
        self.active = request_id
        self.interrupted = ""
        if self.turn and not self._last_queued:
            self.turn.pop()
        self.turn.append(request_id)
        self._last_queued = False

    def answer(self, request_id: str, *, takes_over: bool) -> None:
        self._answer = request_id
        self._before_answer = (self.active, self.interrupted, self.turn[:], self._last_queued)
        if takes_over:
            self.take_over(request_id)

    def refuse(self, message: Fact | None, reason: str) -> str:
        """Return the request whose message a hook refused, if there is one."""
        match message:
            case UserSpoke(message_id=message_id) | QueueEdited(message_id=message_id):
                return self._refuse_queued(message_id, reason)
            case TaskOpened() if self.turn:
                self.refused[self.turn[0]] = reason
                return self.turn[0]
            case Answered():
                return self._refuse_answer()
            case _:
                return ""

    def _refuse_queued(self, message_id: str, reason: str) -> str:
        """Give the request its result in order; the active request stays."""
        if request_id := self._waiting.pop(message_id, ""):
            self._join_turn(request_id)
            self.refused[request_id] = reason
        return request_id

    def _refuse_answer(self) -> str:
        """Make the previous request active again."""
        if self.active == self._answer:
            self.active, self.interrupted, self.turn, self._last_queued = self._before_answer
        return self._answer

    def cancel(self, request_id: str) -> None:
        self.interrupted = self.interrupted or self.active
        self.active = request_id

    def start(self, request_id: str) -> None:
        """Begin another task; messages queued for the previous one are dropped."""
        for each in (self._waiting, self._places, self.refused, self.turn):
            each.clear()
        self.take_over(request_id)

    def queue(self, message_id: str, request_id: str) -> None:
        self._waiting[message_id] = request_id
        self._places[request_id] = len(self._places) + 1

    def forget(self, message_id: str) -> None:
        self._waiting.pop(message_id, None)

    def knows(self, message_id: str) -> bool:
        return message_id in self._waiting

    def removed_request(self, fact: Fact) -> str:
        """Return the request of a message that was removed from the queue."""
        if isinstance(fact, QueueEdited) and fact.text is None:
            return self._waiting.get(fact.message_id, "")
        return ""

    def receive(self, message_id: str) -> None:
        """Make a queued message active when the model receives it. It gets its own result."""
        request_id = self._waiting.pop(message_id, "")
        if not request_id:
            return
        self.active, self.interrupted = request_id, ""
        self._join_turn(request_id)

    def _join_turn(self, request_id: str) -> None:
        """Insert a queued request after those that were queued before it."""
        rest = [each for each in self.turn if each != request_id]
        later = (at for at, each in enumerate(rest) if self._is_later(each, request_id))
        place = next(later, len(rest))
        self.turn = [*rest[:place], request_id, *rest[place:]]
        self._last_queued = True

    def _is_later(self, one: str, other: str) -> bool:
        return self._places.get(one, 0) > self._places[other]

    def end_turn(self) -> list[tuple[str, str]]:
        """Return the requests that get a result now, each with the reason if it was refused."""
        requests, self.turn = self.turn or [self.interrupted or self.active], []
        refused, self.refused = self.refused, {}
        return [(each, refused.get(each, "")) for each in requests]

    def complete(self) -> None:
        """Complete a turn. The oldest queued request becomes active."""
        if self._waiting:
            self.take_over(next(iter(self._waiting.values())))


ANSWERED_BY_MESSAGES = frozenset(
    (AskKind.FOLLOWUP, *APPROVALS, *ASKED_AGAIN, AskKind.MISTAKE_LIMIT_REACHED)
)
"""Questions that a message answers."""

LONGEST_TEXT = 180


def continues(ask: AskKind, reply: Reply) -> bool:
    """Whether the task continues after this answer."""
    if reply == "yes":
        return ask is not AskKind.COMPLETION_RESULT
    return reply == "message" or CATEGORY[ask] is AskCategory.INTERACTIVE


class StreamQuestion(Struct, frozen=True, kw_only=True):
    """A question that blocks a task. `row` is its id in the output."""

    task_id: str
    ask_id: str
    ask: AskKind
    digest: str
    row: int | None


class StreamRefusal(Struct, frozen=True, kw_only=True):
    """A message that a hook refused. The refusal of an answer is reported at once."""

    request_id: str
    reason: str
    is_answer: bool


_GROWING = ("assistant", "thinking", "tool_use", "tool_result")
"""Rows that are streamed. The row of a call ends with its result."""


class StreamTask:
    """A task and its output. Stored events are not written again, and of many only the last ones
    are read."""

    def __init__(self, task_id: str, ids: Ids, stored: Sequence[Event] = ()) -> None:
        past = stored if isinstance(stored, EventList) else EventList(stored)
        start = view_start(past)
        self.task_id = task_id
        self.view = view_from(start)
        after = past[-1].seq if past else 0
        self.output = DrivenOutput(session_id=task_id, after=after, ids=ids)
        self._spoken: dict[str, int] = {}
        self.messages: dict[int, Fact] = {}
        """The user's messages, by event number."""
        self.refusal: StreamRefusal | None = None
        """The refusal that the next event belongs to."""
        self._open: set[int] = set()
        """Rows that were written and not closed."""
        for event in past[start.seq :]:
            self.learn(event)
        self.output.resume(past)

    @property
    def question(self) -> StreamQuestion | None:
        asked = self.view.open_ask if self.view.agent.is_waiting_for_input else None
        return self._named(asked) if asked else None

    @property
    def queue(self) -> tuple[UserSpoke, ...]:
        return self.view.queue

    def learn(self, event: Event) -> None:
        self.view = see(self.view, event)
        if isinstance(event.fact, UserSpoke):
            self._spoken[event.fact.message_id] = event.ts
        if isinstance(event.fact, TaskOpened | UserSpoke | QueueEdited | Answered):
            self.messages[event.seq] = event.fact

    def events_for(self, event: Event) -> Iterator[Output]:
        """Return the output for an event. Queued messages wait until the model gets them."""
        if not isinstance(event.fact, UserSpoke):
            for one in self.output.see(event):
                self._note(one)
                yield one

    def settle(self) -> Iterator[Output]:
        """Close the rows that stay unfinished. Rows of an earlier run were never written here."""
        written, self._open = self._open, set()
        yield from (one for one in self.output.settle() if one.get("id") in written)

    def _note(self, row: Output) -> None:
        if row["type"] not in _GROWING:
            return
        if "done" in row and row["type"] != "tool_use":
            self._open.discard(row["id"])
        else:
            self._open.add(row["id"])

    def queue_update(self, subtype: str, queue: tuple[UserSpoke, ...]) -> Output:
        return queue_event(subtype, self.task_id, queue, self._spoken)

    def _named(self, asked: Message) -> StreamQuestion:
        return StreamQuestion(
            task_id=self.task_id,
            ask_id=asked.ask_id,
            ask=AskKind(str(asked.ask)),
            digest=asked.digest,
            row=self.output.question_id,
        )


class StreamSubTask(StreamTask):
    """A sub-task. Its own session has its full output; here only its questions, their results
    and the user's answers are written."""

    def __init__(self, task_id: str, ids: Ids) -> None:
        super().__init__(task_id, ids)
        self._asked: set[int] = set()

    def events_for(self, event: Event) -> Iterator[Output]:
        rows = list(super().events_for(event))
        self._asked |= {one["id"] for one in rows if one.get("subtype") == "waiting"}
        for one in rows:
            answered = one["type"] == "user" and isinstance(event.fact, Answered)
            if answered or one.get("id") in self._asked:
                yield {**one, "taskId": self.task_id}

    def settle(self) -> Iterator[Output]:
        for one in super().settle():
            if one.get("id") in self._asked:
                yield {**one, "taskId": self.task_id}


def queue_event(
    subtype: str, task_id: str, queue: Sequence[UserSpoke], times: Mapping[str, int]
) -> Output:
    """`times` maps message ids to the time they were queued."""
    waiting = "1 message is queued" if len(queue) == 1 else f"{len(queue)} messages are queued"
    return output(
        type="queue",
        subtype=subtype,
        taskId=task_id,
        content=f"{waiting} for the model.",
        queueDepth=len(queue),
        queue=[_item(spoken, times.get(spoken.message_id)) for spoken in queue],
    )


def change_between(before: Sequence[UserSpoke], after: Sequence[UserSpoke]) -> str | None:
    """Return the subtype of the queue event for a change; None if nothing changed."""
    if before == after:
        return None
    if len(after) > len(before):
        return "enqueued"
    if not after:
        return "drained"
    return "dequeued" if len(after) < len(before) else "updated"


def _item(spoken: UserSpoke, at: int | None) -> Output:
    return output(
        id=spoken.message_id,
        text=shortened(" ".join(spoken.text.split()), LONGEST_TEXT, "...") or None,
        imageCount=len(spoken.images) or None,
        timestamp=at,
    )
