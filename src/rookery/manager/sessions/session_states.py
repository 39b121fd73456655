"""The states of a session, and what a page shows in each."""

from enum import StrEnum

from msgspec import Struct


class SessionState(StrEnum):
    IDLE = "idle"
    CREATING = "creating"
    STREAMING = "streaming"
    WAITING_APPROVAL = "waiting_approval"
    WAITING_INPUT = "waiting_input"
    COMPLETED = "completed"
    PAUSED = "paused"
    ERROR = "error"
    STOPPED = "stopped"


class SessionStatus(StrEnum):
    """The coarse state that is stored."""

    CREATING = "creating"
    RUNNING = "running"
    DONE = "done"
    ERROR = "error"
    STOPPED = "stopped"


_S = SessionState

STATUS_OF: dict[SessionState, SessionStatus] = {
    _S.CREATING: SessionStatus.CREATING,
    _S.STREAMING: SessionStatus.RUNNING,
    _S.WAITING_APPROVAL: SessionStatus.RUNNING,
    _S.WAITING_INPUT: SessionStatus.RUNNING,
    _S.PAUSED: SessionStatus.RUNNING,
    _S.COMPLETED: SessionStatus.DONE,
    _S.ERROR: SessionStatus.ERROR,
    _S.STOPPED: SessionStatus.STOPPED,
}
"""An idle session has no record, and so no status."""

ENDED = frozenset((SessionStatus.DONE, SessionStatus.ERROR, SessionStatus.STOPPED))

_ACTIVE = frozenset((_S.CREATING, _S.STREAMING, _S.WAITING_APPROVAL, _S.WAITING_INPUT))
WORKING = frozenset((_S.CREATING, _S.STREAMING))
WAITING = frozenset((_S.WAITING_APPROVAL, _S.WAITING_INPUT))

TRUE_IN: dict[str, frozenset[SessionState]] = {
    "show_spinner": WORKING,
    "show_cancel_button": _ACTIVE,
    "show_resume_button": frozenset((_S.PAUSED, _S.STOPPED, _S.COMPLETED)),
    "show_auto_mode_warning": WORKING,
    "input_enabled": frozenset((_S.WAITING_INPUT, _S.COMPLETED, _S.PAUSED, _S.STOPPED)),
    "is_active": _ACTIVE,
    "show_approval_buttons": frozenset((_S.WAITING_APPROVAL,)),
    "show_retry_button": frozenset((_S.ERROR,)),
    "can_queue_text": frozenset((_S.CREATING, _S.STREAMING, _S.WAITING_APPROVAL)),
    "can_guide_text": frozenset((_S.ERROR,)),
    "needs_attention": frozenset(
        (_S.WAITING_APPROVAL, _S.WAITING_INPUT, _S.ERROR, _S.COMPLETED),
    ),
    "can_finish_to_branch": frozenset(
        (_S.STREAMING, _S.WAITING_INPUT, _S.COMPLETED, _S.PAUSED),
    ),
    "can_create_pull_request": frozenset(_S) - {_S.CREATING},
}
"""The states a flag can be true in. Some need more, which `flags` asks for."""


class Flags(Struct, frozen=True, kw_only=True):
    """What a page shows and offers."""

    show_spinner: bool
    show_cancel_button: bool
    show_resume_button: bool
    show_auto_mode_warning: bool
    input_enabled: bool
    is_active: bool
    show_approval_buttons: bool
    show_retry_button: bool
    can_queue_text: bool
    can_guide_text: bool
    needs_attention: bool
    can_finish_to_branch: bool
    can_create_pull_request: bool


def needs_attention(state: SessionState, *, unread: bool) -> bool:
    """A result needs none once it was looked at."""
    return state in TRUE_IN["needs_attention"] and (unread or state is not SessionState.COMPLETED)
