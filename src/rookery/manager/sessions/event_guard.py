"""Which events count, and as what: the guard before the table, and the row an event is."""

from msgspec.structs import replace

from rookery.manager.sessions.session import PendingAsk, Session, is_answered, settled
from rookery.manager.sessions.session_events import (
    Activity,
    AgentAsked,
    AgentMessage,
    ApiReqStarted,
    ApproveAction,
    AskAnswered,
    AutoApproved,
    CancelSession,
    CreationTimeout,
    Event,
    ProcessError,
    ProcessEvent,
    ProcessExit,
    RejectAction,
    ResumeSession,
    Retry,
    SayCheckpointSaved,
    SayCompletionResult,
    SendMessage,
    SessionCreated,
    StartSession,
)
from rookery.manager.sessions.session_states import SessionState
from rookery.manager.sessions.transitions import Signal, ask_signal

_WAITING = (SessionState.WAITING_APPROVAL, SessionState.WAITING_INPUT)


def is_dead(session: Session, event: ProcessEvent) -> bool:
    """Whether this is of a process that is not listened to. Its messages belong nowhere."""
    return event.generation != session.generation or not session.process_open


def is_history(session: Session, event: AgentMessage) -> bool:
    """Told before what is open now; or an ask that is over, told again."""
    if _blocks(event) and is_answered(event.ts, session.answered_ask_ts):
        return True
    if not (open_ask := session.open_ask):
        return False
    about_an_ask = _blocks(event) or isinstance(event, AskAnswered)
    return event.ts < open_ask.ts or (event.ts == open_ask.ts and not about_an_ask)


def _blocks(event: AgentMessage) -> bool:
    return isinstance(event, AgentAsked) and ask_signal(event.ask) is not Signal.ACTIVITY


def resumes(event: AgentMessage) -> bool:
    return isinstance(event, AgentAsked) and ask_of(event).resumes


def unheard(session: Session, event: AgentMessage) -> Session:
    """A message after a stop moves nothing, but no ask it makes or outdates is open later."""
    if isinstance(event, SayCheckpointSaved):
        return session
    session = settled(session)
    return replace(session, answered_ask_ts=event.ts) if _blocks(event) else session


def comes_too_late(session: Session, event: Event) -> bool:
    """Whether this is an answer, but not to what is asked now, or a timer that is not needed any
    more. Text of which nobody said what it answers is no answer."""
    pending = session.pending_ask.ts if session.pending_ask else None
    match event:
        case ApproveAction() | RejectAction() | AutoApproved():
            return event.ask_ts != pending
        case SendMessage() if session.state in _WAITING:
            return event.ask_ts != pending
        case CreationTimeout():
            return session.saw_session_created
        case _:
            return False


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


_SIGNALS: dict[type[object], Signal] = {
    StartSession: Signal.START_SESSION,
    SendMessage: Signal.SEND_MESSAGE,
    ApproveAction: Signal.APPROVE_ACTION,
    RejectAction: Signal.REJECT_ACTION,
    CancelSession: Signal.CANCEL_SESSION,
    ResumeSession: Signal.RESUME_SESSION,
    Retry: Signal.RETRY,
    SessionCreated: Signal.SESSION_CREATED,
    ApiReqStarted: Signal.API_REQ_STARTED,
    Activity: Signal.ACTIVITY,
    AskAnswered: Signal.ACTIVITY,
    SayCompletionResult: Signal.SAY_COMPLETION_RESULT,
    SayCheckpointSaved: Signal.SAY_CHECKPOINT_SAVED,
    AutoApproved: Signal.AUTO_APPROVED,
    CreationTimeout: Signal.CREATION_TIMEOUT,
    ProcessError: Signal.PROCESS_ERROR,
}


def ask_of(event: AgentAsked) -> PendingAsk:
    return PendingAsk(ask=event.ask, ts=event.ts, text=event.text)
