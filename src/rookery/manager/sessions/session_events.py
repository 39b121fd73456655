"""The values of the state machine: events in, the session itself, orders out.

An event of a process carries the generation of that process, so that late events of an old one are
recognised. An answer names its ask, so that a late click cannot answer another one. An order tells
the supervisor what to do with the process.
"""

from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.asks import Reply
from rookery.manager.sessions.session_states import Failure, SessionState, Signal, ask_signal


class SessionEvent(Struct, frozen=True):
    pass


class UserEvent(SessionEvent, frozen=True):
    """Something the user wants."""


class StartEvent(UserEvent, frozen=True, kw_only=True):
    """Send the prompt to a new process as a new task."""

    text: str = ""
    images: tuple[str, ...] = ()


class SendEvent(UserEvent, frozen=True, kw_only=True):
    """Text of the user. It answers an open question only if `ask_ts` names that question."""

    text: str
    images: tuple[str, ...] = ()
    ask_ts: int | None = None


class ApproveEvent(UserEvent, frozen=True, kw_only=True):
    ask_ts: int
    text: str = ""


class RejectEvent(UserEvent, frozen=True, kw_only=True):
    ask_ts: int
    text: str = ""


class CancelEvent(UserEvent, frozen=True):
    pass


class ResumeEvent(UserEvent, frozen=True, kw_only=True):
    text: str = ""


class RetryEvent(UserEvent, frozen=True):
    pass


class ProcessEvent(SessionEvent, frozen=True, kw_only=True):
    """An event of one process of the session."""

    generation: int


class SessionCreated(ProcessEvent, frozen=True, kw_only=True):
    session_id: str


class AgentMessage(ProcessEvent, frozen=True, kw_only=True):
    """Something the agent said or asked. `ts` identifies the message and only grows."""

    ts: int


class ApiReqStarted(AgentMessage, frozen=True, kw_only=True):
    """A request that was not seen before."""


class ActivityEvent(AgentMessage, frozen=True, kw_only=True):
    """Any other message: it only shows that the agent works."""


class SayCompletionResult(AgentMessage, frozen=True, kw_only=True):
    text: str = ""


class SayCheckpointSaved(AgentMessage, frozen=True, kw_only=True):
    pass


class AgentAsked(AgentMessage, frozen=True, kw_only=True):
    """A complete ask, by its wire name."""

    ask: str
    text: str = ""


class AskAnswered(AgentMessage, frozen=True, kw_only=True):
    """The ask of this `ts` was answered, by any client."""


class AutoApproved(ProcessEvent, frozen=True, kw_only=True):
    ask_ts: int


class CreationTimeout(ProcessEvent, frozen=True, kw_only=True):
    """The process has not announced its session in time; `text` is the end of its log."""

    text: str = ""


class ProcessError(ProcessEvent, frozen=True, kw_only=True):
    """The process could not be started, or the connection to it failed for good."""

    text: str


class ProcessExit(ProcessEvent, frozen=True, kw_only=True):
    """The process is gone. `requested`: the manager ended it. `text` is the end of its log."""

    code: int | None = 0
    signal: int | None = None
    requested: bool = False
    text: str = ""

    @property
    def clean(self) -> bool:
        return self.code == 0 and self.signal is None


class UserMessage(Struct, frozen=True, kw_only=True):
    """Text of the user, with images as data URIs or paths."""

    text: str = ""
    images: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.text or self.images)


class ProcessOrder(Struct, frozen=True):
    """What the supervisor does with the process."""


class StartTask(ProcessOrder, frozen=True):
    """Start a process and give it the handed messages as a new task."""


class Respawn(ProcessOrder, frozen=True):
    """Start a process that resumes the session with the handed messages. It opens a new task if
    none is stored yet. A running process of an earlier generation is ended first: two must never
    write to one task."""


class AnswerOrder(ProcessOrder, frozen=True, kw_only=True):
    ask_ts: int
    reply: Reply
    message: UserMessage


class AnswerAgain(ProcessOrder, frozen=True):
    """Give the answer to the next process, if it asks the identical question. The process that
    asked is gone, and an approval is only valid in the process that asked."""


class Deliver(ProcessOrder, frozen=True, kw_only=True):
    """Queue these messages on the engine, in this order."""

    messages: tuple[UserMessage, ...]


class CancelOrder(ProcessOrder, frozen=True):
    """Ask the process to cancel its task; end the process if it does not."""


class Terminate(ProcessOrder, frozen=True):
    """End the process and ignore anything it still sends."""


class PendingAsk(Struct, frozen=True, kw_only=True):
    """A complete ask that the agent waits on, by its wire name."""

    ask: str
    ts: int
    text: str = ""

    @property
    def signal(self) -> Signal:
        return ask_signal(self.ask)

    @property
    def resumes(self) -> bool:
        return self.signal in (Signal.ASK_RESUME_TASK, Signal.ASK_RESUME_COMPLETED_TASK)


class LastExit(Struct, frozen=True, kw_only=True):
    code: int | None = None
    signal: int | None = None


class Session(Struct, frozen=True, kw_only=True, rename="camel"):
    """The state of one session. An ask is pending, deferred until the session is announced, or
    settled (then `answered_ask_ts` is at least its `ts`). There is no other way to drop an ask,
    so the stored messages and this one number say which ask is still open."""

    session_id: str = ""
    state: SessionState = SessionState.IDLE
    generation: int = 0
    process_open: bool = False
    """Whether the process of this generation is followed. False for good after it exited or
    failed, or was ended because the session failed."""
    saw_session_created: bool = False
    saw_api_req_started: bool = False
    pending_ask: PendingAsk | None = None
    deferred_ask: PendingAsk | None = None
    answered_ask_ts: int | None = None
    failure: Failure | None = None
    completion_text: str = ""
    stop_requested: bool = False
    outbox: tuple[UserMessage, ...] = ()
    """Messages that no process is known to have. They survive a failed start."""
    handed: int = 0
    """How many of them the process was started with. It has them once it announces itself."""
    last_exit: LastExit | None = None

    @property
    def open_ask(self) -> PendingAsk | None:
        return self.pending_ask or self.deferred_ask


S = TypeVar("S", bound=Session)

_SIGNALS: dict[type[object], Signal] = {
    StartEvent: Signal.START_SESSION,
    SendEvent: Signal.SEND_MESSAGE,
    ApproveEvent: Signal.APPROVE_ACTION,
    RejectEvent: Signal.REJECT_ACTION,
    CancelEvent: Signal.CANCEL_SESSION,
    ResumeEvent: Signal.RESUME_SESSION,
    RetryEvent: Signal.RETRY,
    SessionCreated: Signal.SESSION_CREATED,
    ApiReqStarted: Signal.API_REQ_STARTED,
    ActivityEvent: Signal.ACTIVITY,
    AskAnswered: Signal.ACTIVITY,
    SayCompletionResult: Signal.SAY_COMPLETION_RESULT,
    SayCheckpointSaved: Signal.SAY_CHECKPOINT_SAVED,
    AutoApproved: Signal.AUTO_APPROVED,
    CreationTimeout: Signal.CREATION_TIMEOUT,
    ProcessError: Signal.PROCESS_ERROR,
}


def settled(session: S) -> S:
    """The session without an open ask: it was answered, or can no longer be answered."""
    if not (ask := session.open_ask):
        return session
    return replace(session, pending_ask=None, deferred_ask=None, answered_ask_ts=ask.ts)


def is_answered(ask_ts: int, answered_ask_ts: int | None) -> bool:
    """Whether the ask was answered. Asks are answered in order, so older ones are settled too."""
    return answered_ask_ts is not None and ask_ts <= answered_ask_ts


def signal_of(session: Session, event: SessionEvent) -> Signal:
    """The row of the transition table for this event."""
    match event:
        case AgentAsked(ask=ask):
            return ask_signal(ask)
        case ProcessExit(requested=requested) if requested or session.stop_requested:
            return Signal.EXIT_STOPPED
        case ProcessExit(clean=False):
            return Signal.EXIT_FAILED
        case ProcessExit():
            return Signal.EXIT_CLEAN_ASKING if session.pending_ask else Signal.EXIT_CLEAN
        case _:
            return _SIGNALS[type(event)]


def ask_of(event: AgentAsked) -> PendingAsk:
    return PendingAsk(ask=event.ask, ts=event.ts, text=event.text)
