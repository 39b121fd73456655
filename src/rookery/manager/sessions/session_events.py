"""What the state machine of a session works on: events in, the session itself, orders out.

An event from a process names the generation of that process, so that a late word of an old one is
recognised. An answer names its ask, so that a late click answers no other. An order is what the
supervisor has to do toward the process.
"""

from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.asks import Reply
from rookery.manager.sessions.session_failures import Failure
from rookery.manager.sessions.session_states import (
    SessionState,
    Signal,
    ask_signal,
)


class StartEvent(Struct, frozen=True, kw_only=True):
    """The prompt goes to a new process as a new task."""

    text: str = ""
    images: tuple[str, ...] = ()


class SendEvent(Struct, frozen=True, kw_only=True):
    """Text of the user. It answers an open question only if it was written to answer it."""

    text: str
    images: tuple[str, ...] = ()
    ask_ts: int | None = None


class ApproveEvent(Struct, frozen=True, kw_only=True):
    ask_ts: int
    text: str = ""


class RejectEvent(Struct, frozen=True, kw_only=True):
    ask_ts: int
    text: str = ""


class CancelEvent(Struct, frozen=True, kw_only=True):
    pass


class ResumeEvent(Struct, frozen=True, kw_only=True):
    text: str = ""


class RetryEvent(Struct, frozen=True, kw_only=True):
    pass


class ProcessEvent(Struct, frozen=True, kw_only=True):
    """Something that belongs to one process of the session."""

    generation: int


class SessionCreated(ProcessEvent, frozen=True, kw_only=True):
    session_id: str


class AgentMessage(ProcessEvent, frozen=True, kw_only=True):
    """Something the agent said or asked; `ts` names the message, later ones have a larger one."""

    ts: int


class ApiReqStarted(AgentMessage, frozen=True, kw_only=True):
    """A request that was not seen before."""


class ActivityEvent(AgentMessage, frozen=True, kw_only=True):
    """Anything that is said or asked of which only this matters: the agent works."""


class SayCompletionResult(AgentMessage, frozen=True, kw_only=True):
    text: str = ""


class SayCheckpointSaved(AgentMessage, frozen=True, kw_only=True):
    pass


class AgentAsked(AgentMessage, frozen=True, kw_only=True):
    """A complete ask, by its wire name."""

    ask: str
    text: str = ""


class AskAnswered(AgentMessage, frozen=True, kw_only=True):
    """The ask of this `ts` was answered, by whomever."""


class AutoApproved(ProcessEvent, frozen=True, kw_only=True):
    ask_ts: int


class CreationTimeout(ProcessEvent, frozen=True, kw_only=True):
    """The process has not announced its session in time; `text` is what it complained of."""

    text: str = ""


class ProcessError(ProcessEvent, frozen=True, kw_only=True):
    """The process could not be started or cannot be talked to any more."""

    text: str


class ProcessExit(ProcessEvent, frozen=True, kw_only=True):
    """The process is gone; `requested` if the manager itself ended it, as when it quits. `text` is
    what it complained of."""

    code: int | None = 0
    signal: int | None = None
    requested: bool = False
    text: str = ""

    @property
    def clean(self) -> bool:
        return self.code == 0 and self.signal is None


UserEvent: TypeAlias = (
    StartEvent | SendEvent | ApproveEvent | RejectEvent | CancelEvent | ResumeEvent | RetryEvent
)


Event: TypeAlias = (
    UserEvent
    | SessionCreated
    | ApiReqStarted
    | ActivityEvent
    | SayCompletionResult
    | SayCheckpointSaved
    | AgentAsked
    | AskAnswered
    | AutoApproved
    | CreationTimeout
    | ProcessError
    | ProcessExit
)


class UserMessage(Struct, frozen=True, kw_only=True):
    """Text of the user, with its pictures as data URIs or paths."""

    text: str = ""
    images: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.text or self.images)


class StartTask(Struct, frozen=True, kw_only=True):
    """Start a process of this generation and give it the letters as a new task."""

    generation: int
    letters: tuple[UserMessage, ...]


class Respawn(Struct, frozen=True, kw_only=True):
    """Start a process of this generation that takes the session up again, as a new task if none
    was stored yet, and give it the letters to go on with. One of an earlier generation that
    still runs is ended first: two must never write to one task."""

    generation: int
    letters: tuple[UserMessage, ...]


class AnswerOrder(Struct, frozen=True, kw_only=True):
    ask_ts: int
    reply: Reply
    letter: UserMessage


class AnswerAgain(Struct, frozen=True, kw_only=True):
    """The process that asked is gone, and its approval would be worth nothing. Give this answer to
    the next one, if that asks the very same."""

    ask_ts: int
    reply: Reply
    letter: UserMessage


class Deliver(Struct, frozen=True, kw_only=True):
    """Queue these on the engine, in this order."""

    letters: tuple[UserMessage, ...]


class CancelOrder(Struct, frozen=True, kw_only=True):
    """Ask the process to cancel its task; press harder if it does not."""


class Terminate(Struct, frozen=True, kw_only=True):
    """End the process; nothing it still says counts."""


Order: TypeAlias = (
    StartTask | Respawn | AnswerOrder | AnswerAgain | Deliver | CancelOrder | Terminate
)


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


class Session(Struct, frozen=True, kw_only=True):
    """An ask is either pending, or deferred until the session is announced, or settled: then
    `answered_ask_ts` is not older than it. No ask is ever forgotten in another way, which is
    why the stored messages and this one number tell what is still open.
    """

    session_id: str = ""
    state: SessionState = SessionState.IDLE
    generation: int = 0
    process_open: bool = False
    """Whether the process of this generation is listened to. It is not after it exited, failed,
    or was ended because the session failed; only another generation is listened to again."""
    saw_session_created: bool = False
    saw_api_req_started: bool = False
    pending_ask: PendingAsk | None = None
    deferred_ask: PendingAsk | None = None
    answered_ask_ts: int | None = None
    failure: Failure | None = None
    completion_text: str = ""
    stop_requested: bool = False
    outbox: tuple[UserMessage, ...] = ()
    """What the user said and no process is known to have. It survives a failed start."""
    handed: int = 0
    """How many of these the process was started with. It has them once it announces itself."""
    last_exit: LastExit | None = None

    @property
    def open_ask(self) -> PendingAsk | None:
        return self.pending_ask or self.deferred_ask


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


def settled(session: Session) -> Session:
    """With no ask open: it was answered, here or elsewhere, or nobody will answer it."""
    if not (ask := session.open_ask):
        return session
    return replace(session, pending_ask=None, deferred_ask=None, answered_ask_ts=ask.ts)


def is_answered(ask_ts: int, answered_ask_ts: int | None) -> bool:
    """Asks are answered in their order, so what is older than an answered one is over too."""
    return answered_ask_ts is not None and ask_ts <= answered_ask_ts


def signal_of(session: Session, event: Event) -> Signal:
    """The row of the table this event is."""
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
