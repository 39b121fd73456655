"""A simulated session: a user, a process with its messages, and a manager.

A move is a name and a number. The simulation turns it into an event that could happen now, feeds it
to the state machine, and stores what a manager would store. As in the engine, a process sends
nothing new after a blocking question until it is answered.
"""

from collections.abc import Callable

from msgspec.structs import replace

from rookery.core.asks import AskKind
from rookery.core.message import Message
from rookery.manager.sessions.machine import advance, is_dead
from rookery.manager.sessions.session_events import (
    ActivityEvent,
    AgentAsked,
    AgentMessage,
    ApiReqStarted,
    ApproveEvent,
    AskAnswered,
    AutoApproved,
    CancelEvent,
    CreationTimeout,
    ProcessError,
    ProcessEvent,
    ProcessExit,
    RejectEvent,
    ResumeEvent,
    RetryEvent,
    SayCheckpointSaved,
    SayCompletionResult,
    SendEvent,
    SessionCreated,
    SessionEvent,
    StartEvent,
)
from rookery.manager.sessions.session_record import SessionRecord, updated_record
from rookery.manager.sessions.session_states import SessionState

Move = tuple[str, int]

KINDS = [*AskKind, "moonrise"]
TEXTS = ["", "why?", '401 {"message": "no key"}', "402: pay", "model x not found", '{"a": 1}']


class World:
    def __init__(self) -> None:
        self.record = SessionRecord(session_id="s", state=SessionState.IDLE)
        self.messages: list[Message] = []
        self.last_ts = 0
        self.now = 1000

    def play(self, move: Move) -> SessionEvent:
        """Turn the move into an event, feed it to the machine, and return it."""
        name, number = move
        event = EVENT_OF[name](self, number)
        if isinstance(event, AgentMessage) and not is_dead(self.record, event):
            self._keep(event, partial=name == "partial")
        self.take(event)
        return event

    def take(self, event: SessionEvent) -> None:
        self.now += 1
        before, self.record = self.record, advance(self.record, event)
        if self.record.state is not SessionState.IDLE:
            self.record = updated_record(self.record, before.state, now=self.now)

    def _keep(self, event: AgentMessage, *, partial: bool) -> None:
        if isinstance(event, AskAnswered):
            self.messages = [_answered(row, event.ts) for row in self.messages]
            return
        row = _row(event, partial=partial)
        if event.ts > self.last_ts:
            self.messages.append(row)
        elif self.messages[-1].ts == event.ts and self.messages[-1].partial:
            self.messages[-1] = row
        self.last_ts = max(self.last_ts, event.ts)

    @property
    def asked(self) -> int:
        return self.record.pending_ask.ts if self.record.pending_ask else -1

    @property
    def here(self) -> int:
        return self.record.generation

    @property
    def next_ts(self) -> int:
        return self.last_ts + 1


def _answered(row: Message, ts: int) -> Message:
    return replace(row, answered=True) if row.ts == ts else row


def _row(event: AgentMessage, *, partial: bool) -> Message:
    match event:
        case AgentAsked(ts=ts, ask=ask, text=text):
            return Message(ts=ts, type="ask", ask=str(ask), content=text)
        case SayCheckpointSaved(ts=ts):
            return Message(ts=ts, type="say", say="checkpoint_saved")
        case ApiReqStarted(ts=ts):
            return Message(ts=ts, type="say", say="api_req_started")
        case SayCompletionResult(ts=ts, text=text):
            return Message(ts=ts, type="say", say="completion_result", content=text)
        case _:
            kind = "ask" if partial else "say"
            said = {"ask": "tool"} if partial else {"say": "text"}
            return Message(ts=event.ts, type=kind, partial=partial, **said)


def _ask(world: World, number: int) -> SessionEvent:
    kind, text = KINDS[number % len(KINDS)], TEXTS[number % len(TEXTS)]
    last = world.messages[-1] if world.messages else None
    ts = last.ts if last and last.partial else world.next_ts
    return AgentAsked(generation=world.here, ts=ts, ask=kind, text=text)


def _again(world: World, number: int) -> SessionEvent:
    """A message that was already sent, once more."""
    if not world.messages:
        return ActivityEvent(generation=world.here, ts=world.next_ts)
    old = world.messages[number % len(world.messages)]
    if old.answered:
        return AskAnswered(generation=world.here, ts=old.ts)
    if old.ask and not old.partial:
        return AgentAsked(generation=world.here, ts=old.ts, ask=old.ask, text=old.text or "")
    return ActivityEvent(generation=world.here, ts=old.ts)


def _of_the_dead(world: World, number: int) -> SessionEvent:
    """A message from a process of an earlier generation."""
    name = PROCESS_MOVES[number % len(PROCESS_MOVES)]
    event = EVENT_OF[name](world, number)
    assert isinstance(event, ProcessEvent)
    return replace(event, generation=world.here - 1 - number % 3)


EVENT_OF: dict[str, Callable[[World, int], SessionEvent]] = {
    "start": lambda world, n: StartEvent(text=f"task {n}"),
    "send": lambda world, n: SendEvent(text=f"said {n}", ask_ts=world.asked),
    "send unasked": lambda world, n: SendEvent(text=f"said {n}"),
    "approve": lambda world, n: ApproveEvent(ask_ts=world.asked),
    "approve late": lambda world, n: ApproveEvent(ask_ts=world.asked - 1),
    "reject": lambda world, n: RejectEvent(ask_ts=world.asked, text="no"),
    "cancel": lambda world, n: CancelEvent(),
    "resume": lambda world, n: ResumeEvent(),
    "resume with": lambda world, n: ResumeEvent(text=f"on {n}"),
    "retry": lambda world, n: RetryEvent(),
    "created": lambda world, n: SessionCreated(generation=world.here, session_id=f"s{n % 2}"),
    "request": lambda world, n: ApiReqStarted(generation=world.here, ts=world.next_ts),
    "activity": lambda world, n: ActivityEvent(generation=world.here, ts=world.next_ts),
    "partial": lambda world, n: ActivityEvent(generation=world.here, ts=world.next_ts),
    "result": lambda world, n: SayCompletionResult(
        generation=world.here, ts=world.next_ts, text=f"done {n}"
    ),
    "checkpoint": lambda world, n: SayCheckpointSaved(generation=world.here, ts=world.next_ts),
    "ask": _ask,
    "again": _again,
    "answered": lambda world, n: AskAnswered(generation=world.here, ts=world.asked),
    "auto": lambda world, n: AutoApproved(generation=world.here, ask_ts=world.asked),
    "auto late": lambda world, n: AutoApproved(generation=world.here, ask_ts=world.asked - 1),
    "timeout": lambda world, n: CreationTimeout(generation=world.here, text="stuck"),
    "broken": lambda world, n: ProcessError(generation=world.here, text="broken pipe"),
    "exit": lambda world, n: ProcessExit(generation=world.here),
    "crash": lambda world, n: ProcessExit(generation=world.here, code=n % 3 + 1),
    "killed": lambda world, n: ProcessExit(generation=world.here, code=None, signal=9),
    "ended": lambda world, n: ProcessExit(generation=world.here, code=n % 2, requested=True),
    "dead": _of_the_dead,
}

PROCESS_MOVES = (
    *("created", "request", "activity", "result", "checkpoint", "ask", "again", "answered", "auto"),
    *("timeout", "broken", "exit", "crash", "killed", "ended"),
)
LIVELY = (*EVENT_OF, *["ask"] * 14, *["created", "request", "send", "activity", "start"] * 2)
"""All moves; those that keep a session going are more frequent."""
