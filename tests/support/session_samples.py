"""Sessions in any state, for tests of the state machine."""

from rookery.manager.sessions.session_events import PendingAsk, Session
from rookery.manager.sessions.session_states import SessionState

GENERATION = 3
ASK_TS = 50
NEWER = 60

USUAL_ASK = {
    SessionState.WAITING_APPROVAL: "tool",
    SessionState.WAITING_INPUT: "followup",
    SessionState.COMPLETED: "completion_result",
    SessionState.PAUSED: "resume_task",
    SessionState.ERROR: "api_req_failed",
}


def usual_ask(state: SessionState) -> PendingAsk | None:
    kind = USUAL_ASK.get(state)
    return PendingAsk(ask=kind, ts=ASK_TS, text="asked") if kind else None


def standing(
    state: SessionState,
    *,
    created: bool = True,
    requested: bool = True,
    asking: bool = True,
    stop_requested: bool | None = None,
) -> Session:
    """A session that has been in a state for long, with a live process."""
    stopped = state is SessionState.STOPPED
    return Session(
        session_id="s",
        state=state,
        generation=GENERATION,
        process_open=True,
        saw_session_created=created,
        saw_api_req_started=requested,
        pending_ask=usual_ask(state) if asking else None,
        stop_requested=stopped if stop_requested is None else stop_requested,
    )
