"""The states of a session, the flags a page derives from them, and the transition table.

The page in `docs/` is generated from the table. A cell names the next state or a rule; a state that
is missing in a row ignores the signal.
"""

from enum import StrEnum

from msgspec import Struct

from rookery.core.asks import AskKind


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
    "needs_attention": frozenset((_S.WAITING_APPROVAL, _S.WAITING_INPUT, _S.ERROR, _S.COMPLETED)),
    "can_finish_to_branch": frozenset((_S.STREAMING, _S.WAITING_INPUT, _S.COMPLETED, _S.PAUSED)),
    "can_create_pull_request": frozenset(_S) - {_S.CREATING},
}
"""The states in which a flag can be true; `flags` adds further conditions for some."""


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
    """A completed session needs attention until its result was read."""
    return state in TRUE_IN["needs_attention"] and (unread or state is not SessionState.COMPLETED)


class Signal(StrEnum):
    """A row of the table."""

    START_SESSION = "start_session"
    SEND_MESSAGE = "send_message"
    APPROVE_ACTION = "approve_action"
    REJECT_ACTION = "reject_action"
    CANCEL_SESSION = "cancel_session"
    RESUME_SESSION = "resume_session"
    RETRY = "retry"
    SESSION_CREATED = "session_created"
    API_REQ_STARTED = "api_req_started"
    ACTIVITY = "activity"
    SAY_COMPLETION_RESULT = "say:completion_result"
    SAY_CHECKPOINT_SAVED = "say:checkpoint_saved"
    ASK_APPROVAL = "ask: an approval"
    AUTO_APPROVED = "auto_approved"
    ASK_LIMIT = "ask:auto_approval_max_req_reached"
    ASK_FOLLOWUP = "ask:followup"
    ASK_COMPLETION_RESULT = "ask:completion_result"
    ASK_RESUME_TASK = "ask:resume_task"
    ASK_RESUME_COMPLETED_TASK = "ask:resume_completed_task"
    ASK_FAILURE = "ask: a failure"
    CREATION_TIMEOUT = "creation_timeout"
    PROCESS_ERROR = "process_error"
    EXIT_CLEAN = "process_exit 0, no pending ask"
    EXIT_CLEAN_ASKING = "process_exit 0, ask pending"
    EXIT_STOPPED = "process_exit, stop was requested"
    EXIT_FAILED = "process_exit non-zero or by signal"


class TransitionRule(StrEnum):
    """How a cell decides, as the documentation shows it. C: the session was announced. A: a
    request was seen. D: the ask is deferred."""

    IGNORE = "·"
    STAY = "="
    NEVER = "n/a"
    GO = "{}"
    IF_C_ELSE_STAY = "{} if C, else ="
    IF_A_ELSE_STAY = "{} if A, else ="
    IF_C_ELSE_DEFER = "{} if C, else D"
    IF_C_ELSE_ERROR = "{} if C, else error"


class Cell(Struct, frozen=True):
    rule: TransitionRule
    to: SessionState | None = None

    def __str__(self) -> str:
        return self.rule.format(self.to)


IGNORED = Cell(TransitionRule.IGNORE)
Row = dict[SessionState, Cell]

_WAITING = (_S.WAITING_APPROVAL, _S.WAITING_INPUT)
_RESTING = (_S.COMPLETED, _S.PAUSED, _S.ERROR)
_STARTED = (_S.STREAMING, *_WAITING, *_RESTING)
"""States in which a message of the agent moves the machine."""


def _to(target: SessionState, *states: SessionState) -> Row:
    return dict.fromkeys(states, Cell(TransitionRule.GO, target))


def _stay(*states: SessionState) -> Row:
    return dict.fromkeys(states, Cell(TransitionRule.STAY))


def _never(*states: SessionState) -> Row:
    return dict.fromkeys(states, Cell(TransitionRule.NEVER))


def _creating(rule: TransitionRule, target: SessionState) -> Row:
    return {_S.CREATING: Cell(rule, target)}


def _asking(target: SessionState) -> Row:
    """An ask moves to its target state; in that state it replaces the ask and stays."""
    return (
        _creating(TransitionRule.IF_C_ELSE_DEFER, target)
        | _to(target, *_STARTED)
        | (_stay(target) if target in _STARTED else {})
    )


_ON_MESSAGE = _stay(_S.CREATING, _S.STREAMING) | _to(_S.STREAMING, *_WAITING, *_RESTING)

TABLE: dict[Signal, Row] = {
    Signal.START_SESSION: _to(_S.CREATING, _S.IDLE, *_RESTING, _S.STOPPED),
    Signal.SEND_MESSAGE: _ON_MESSAGE | _to(_S.STREAMING, _S.STOPPED),
    Signal.APPROVE_ACTION: _to(_S.STREAMING, _S.WAITING_APPROVAL),
    Signal.REJECT_ACTION: _to(_S.STREAMING, _S.WAITING_APPROVAL),
    Signal.CANCEL_SESSION: _to(
        _S.STOPPED, _S.CREATING, _S.STREAMING, *_WAITING, _S.PAUSED, _S.ERROR
    ),
    Signal.RESUME_SESSION: _to(_S.STREAMING, *_RESTING, _S.STOPPED),
    Signal.RETRY: _to(_S.STREAMING, _S.ERROR),
    Signal.SESSION_CREATED: _to(_S.STREAMING, _S.IDLE)
    | _creating(TransitionRule.IF_A_ELSE_STAY, _S.STREAMING)
    | _stay(*_STARTED, _S.STOPPED),
    Signal.API_REQ_STARTED: _ON_MESSAGE
    | _to(_S.STREAMING, _S.IDLE)
    | _creating(TransitionRule.IF_C_ELSE_STAY, _S.STREAMING),
    Signal.ACTIVITY: _ON_MESSAGE,
    Signal.SAY_COMPLETION_RESULT: _ON_MESSAGE,
    Signal.SAY_CHECKPOINT_SAVED: _stay(_S.CREATING, *_STARTED),
    Signal.ASK_APPROVAL: _asking(_S.WAITING_APPROVAL),
    Signal.AUTO_APPROVED: _to(_S.STREAMING, _S.WAITING_APPROVAL),
    Signal.ASK_LIMIT: _asking(_S.WAITING_APPROVAL),
    Signal.ASK_FOLLOWUP: _asking(_S.WAITING_INPUT),
    Signal.ASK_COMPLETION_RESULT: _asking(_S.COMPLETED),
    Signal.ASK_RESUME_TASK: _asking(_S.PAUSED) | _stay(_S.STOPPED),
    Signal.ASK_RESUME_COMPLETED_TASK: _asking(_S.PAUSED) | _stay(_S.COMPLETED, _S.STOPPED),
    Signal.ASK_FAILURE: _to(_S.ERROR, _S.CREATING, *_STARTED) | _stay(_S.ERROR),
    Signal.CREATION_TIMEOUT: _to(_S.ERROR, _S.CREATING),
    Signal.PROCESS_ERROR: _to(_S.ERROR, _S.CREATING, _S.STREAMING, *_WAITING)
    | _stay(*_RESTING, _S.STOPPED),
    Signal.EXIT_CLEAN: _creating(TransitionRule.IF_C_ELSE_ERROR, _S.COMPLETED)
    | _to(_S.COMPLETED, _S.STREAMING, _S.ERROR)
    | _stay(_S.COMPLETED)
    | _never(*_WAITING, _S.PAUSED, _S.STOPPED),
    Signal.EXIT_CLEAN_ASKING: _to(_S.PAUSED, *_WAITING)
    | _stay(*_RESTING)
    | _never(_S.CREATING, _S.STREAMING, _S.STOPPED),
    Signal.EXIT_STOPPED: _to(_S.STOPPED, _S.CREATING, _S.STREAMING, *_WAITING)
    | _stay(*_RESTING, _S.STOPPED),
    Signal.EXIT_FAILED: _to(_S.ERROR, _S.CREATING, *_STARTED, _S.STOPPED),
}

ASK_SIGNALS: dict[AskKind, Signal] = {
    AskKind.TOOL: Signal.ASK_APPROVAL,
    AskKind.COMMAND: Signal.ASK_APPROVAL,
    AskKind.BROWSER_ACTION_LAUNCH: Signal.ASK_APPROVAL,
    AskKind.USE_MCP_SERVER: Signal.ASK_APPROVAL,
    AskKind.REPORT_BUG: Signal.ASK_APPROVAL,
    AskKind.CONDENSE: Signal.ASK_APPROVAL,
    AskKind.CHECKPOINT_RESTORE: Signal.ASK_APPROVAL,
    AskKind.AUTO_APPROVAL_MAX_REQ_REACHED: Signal.ASK_LIMIT,
    AskKind.FOLLOWUP: Signal.ASK_FOLLOWUP,
    AskKind.COMPLETION_RESULT: Signal.ASK_COMPLETION_RESULT,
    AskKind.RESUME_TASK: Signal.ASK_RESUME_TASK,
    AskKind.RESUME_COMPLETED_TASK: Signal.ASK_RESUME_COMPLETED_TASK,
    AskKind.API_REQ_FAILED: Signal.ASK_FAILURE,
    AskKind.MISTAKE_LIMIT_REACHED: Signal.ASK_FAILURE,
    AskKind.INVALID_MODEL: Signal.ASK_FAILURE,
    AskKind.PAYMENT_REQUIRED_PROMPT: Signal.ASK_FAILURE,
    AskKind.COMMAND_OUTPUT: Signal.ACTIVITY,
}

_NAMES = frozenset(ASK_SIGNALS)


def ask_signal(ask: str) -> Signal:
    """The signal for an ask's wire name. An unknown ask counts as activity and does not block."""
    return ASK_SIGNALS[AskKind(ask)] if ask in _NAMES else Signal.ACTIVITY


def cell(signal: Signal, state: SessionState) -> Cell:
    return TABLE[signal].get(state, IGNORED)
