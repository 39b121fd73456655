"""A session put together again from what is stored: its record, its last ask, its process.

Used for selection, reloads and restarts alike. As long as the manager has heard everything its
process said, this gives the very session the machine has; what happened while nobody listened is
told by the messages and by whether the process still lives.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from rookery.core.asks import AskKind
from rookery.core.folds.agent_state import newest_first
from rookery.core.message import Message
from rookery.manager.sessions.session import PendingAsk, Session, is_answered
from rookery.manager.sessions.session_failures import (
    CREATION_INTERRUPTED,
    ENDS_PROCESS,
    Failure,
    failure_of_ask,
)
from rookery.manager.sessions.session_record import SessionRecord
from rookery.manager.sessions.session_states import SessionState, SessionStatus
from rookery.manager.sessions.transitions import Signal, ask_signal


def last_ask(messages: Sequence[Message]) -> PendingAsk | None:
    """The complete blocking ask that the messages end with, checkpoints aside."""
    for message in newest_first(messages):
        if message.say == "checkpoint_saved":
            continue
        if message.type != "ask" or message.partial or message.answered or message.ask is None:
            return None
        if ask_signal(message.ask) is Signal.ACTIVITY:
            return None
        return PendingAsk(ask=message.ask, ts=message.ts, text=message.text or "")
    return None


def rebuilt(record: SessionRecord | None, last_ask: PendingAsk | None, *, alive: bool) -> Session:
    """The session that is stored. `alive` only if the process was verified to live, or waits for
    its turn to be started."""
    if record is None:
        return Session()
    if last_ask and is_answered(last_ask.ts, record.answered_ask_ts):
        last_ask = None
    heard = alive and record.process_open
    state = _state(record, last_ask, heard=heard)
    failure = _failure(record, last_ask, state, heard=heard)
    session = Session(
        session_id=record.session_id,
        state=state,
        generation=record.generation,
        process_open=heard and not (failure and failure.kind in ENDS_PROCESS),
        saw_session_created=record.saw_session_created,
        saw_api_req_started=record.saw_api_req_started,
        answered_ask_ts=record.answered_ask_ts,
        failure=failure,
        completion_text=record.completion_text,
        stop_requested=state is SessionState.STOPPED,
        outbox=record.outbox,
        handed=record.handed,
        last_exit=record.last_exit,
    )
    return _asking(session, last_ask)


def _state(record: SessionRecord, ask: PendingAsk | None, *, heard: bool) -> SessionState:
    """The order of the rules is their priority."""
    status = record.status
    if status is SessionStatus.STOPPED:
        return SessionState.STOPPED
    if not heard:
        return _state_without_process(record, ask)
    if status is SessionStatus.CREATING and not _is_born(record, ask):
        return SessionState.CREATING
    if ask is None:
        return SessionState.STREAMING
    if ask.ask == AskKind.RESUME_COMPLETED_TASK and status is SessionStatus.DONE:
        return SessionState.COMPLETED
    return _STATES[ask.signal]


def _is_born(record: SessionRecord, ask: PendingAsk | None) -> bool:
    return record.saw_session_created and (record.saw_api_req_started or ask is not None)


_STATES = {
    Signal.ASK_APPROVAL: SessionState.WAITING_APPROVAL,
    Signal.ASK_LIMIT: SessionState.WAITING_APPROVAL,
    Signal.ASK_FOLLOWUP: SessionState.WAITING_INPUT,
    Signal.ASK_COMPLETION_RESULT: SessionState.COMPLETED,
    Signal.ASK_RESUME_TASK: SessionState.PAUSED,
    Signal.ASK_RESUME_COMPLETED_TASK: SessionState.PAUSED,
    Signal.ASK_FAILURE: SessionState.ERROR,
}


def _state_without_process(record: SessionRecord, ask: PendingAsk | None) -> SessionState:
    """A question outlives a process that was lost, as in a reboot: it still waits for the user,
    whose answer starts another process. One whose end was seen is paused."""
    if _is_lost(record) and ask is not None and ask.signal in _QUESTIONS:
        return _STATES[ask.signal]
    match record.status:
        case SessionStatus.CREATING | SessionStatus.ERROR:
            return SessionState.ERROR
        case SessionStatus.DONE:
            return SessionState.COMPLETED
        case _:
            finished = ask is not None and ask.ask == AskKind.COMPLETION_RESULT
            return SessionState.COMPLETED if finished else SessionState.PAUSED


_QUESTIONS = frozenset((Signal.ASK_APPROVAL, Signal.ASK_LIMIT, Signal.ASK_FOLLOWUP))


def _is_lost(record: SessionRecord) -> bool:
    return record.status is SessionStatus.RUNNING and record.last_exit is None


def _failure(
    record: SessionRecord, ask: PendingAsk | None, state: SessionState, *, heard: bool
) -> Failure | None:
    if state is not SessionState.ERROR:
        return None
    if heard and ask:
        return failure_of_ask(ask.ask, ask.text)
    return CREATION_INTERRUPTED if record.status is SessionStatus.CREATING else record.failure


def _asking(session: Session, ask: PendingAsk | None) -> Session:
    """With its ask where the state has it: a stopped session keeps only the offer to resume."""
    match session.state:
        case SessionState.CREATING:
            return replace(session, deferred_ask=ask)
        case SessionState.STOPPED if ask and not ask.resumes:
            return session
        case _:
            return replace(session, pending_ask=ask)
