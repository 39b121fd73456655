"""The states of a session, the flags a page derives from them, and the transition table; and why
a session failed.

The diagram in `docs/manager.md` is drawn from the table. A cell names the next state or a rule; a
state that is missing in a row ignores the signal.

The kind of a failure decides what is offered, its text is shown, and is never raw JSON. The session
and its messages are kept after every failure.
"""

import json
import re
from enum import StrEnum

from msgspec import Struct

from rookery.core.asks import AskKind
from rookery.core.limits import CHOOSE_A_MODEL, MEANS_BAD_KEY, NO_MODEL_CHOSEN


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


class ErrorKind(StrEnum):
    API = "api"
    AUTH = "auth"
    PAYMENT = "payment"
    MODEL = "model"
    MISTAKES = "mistakes"
    CREATION_TIMEOUT = "creation_timeout"
    CREATION_INTERRUPTED = "creation_interrupted"
    EARLY_EXIT = "early_exit"
    PROCESS = "process"
    CRASH = "crash"


ENDS_PROCESS = frozenset((ErrorKind.AUTH, ErrorKind.PAYMENT, ErrorKind.MODEL))
"""Failures after which the process is ended: it would fail again, at a cost. A new one reads the
settings and keys again."""


class Failure(Struct, frozen=True, kw_only=True):
    kind: ErrorKind
    text: str


CREATION_INTERRUPTED = Failure(
    kind=ErrorKind.CREATION_INTERRUPTED,
    text="The session was interrupted while it was being created. Retry to start it again.",
)
PREPARATION_INTERRUPTED = Failure(
    kind=ErrorKind.CREATION_INTERRUPTED,
    text="The session was interrupted before its worktree was ready, so it cannot be retried. "
    "Nothing was changed. Start a new one with the same prompt.",
)
EARLY_EXIT = Failure(
    kind=ErrorKind.EARLY_EXIT,
    text="The agent ended before the session was created. Retry to start it again.",
)

_STATUS_KINDS = {"401": ErrorKind.AUTH, "402": ErrorKind.PAYMENT, "403": ErrorKind.AUTH}
_ASK_KINDS = {
    AskKind.INVALID_MODEL: ErrorKind.MODEL,
    AskKind.PAYMENT_REQUIRED_PROMPT: ErrorKind.PAYMENT,
    AskKind.MISTAKE_LIMIT_REACHED: ErrorKind.MISTAKES,
}
_GENERIC = {
    ErrorKind.API: "The request to the model failed. Retry, or cancel the session.",
    ErrorKind.AUTH: "The provider refused the key. Sign in, then retry.",
    ErrorKind.PAYMENT: "The provider requires payment. Add credit or change the model, then retry.",
    ErrorKind.MODEL: "The provider does not have this model. Choose another, then retry.",
    ErrorKind.MISTAKES: "The agent made too many mistakes in a row. Guide it, or retry.",
}
NO_KEY = 3
"""Exit code of a process that has no key for its model."""
_ERROR = re.compile(r"^Error: ", re.M)
_STATUS = re.compile(r"(?:^|[:(])\s*(40[123])\b")
_NO_MODEL = re.compile(r"(?:^|:)\s*404\b.*\bmodel\b|\bmodel\b[^.]{0,80}\bnot found\b", re.I | re.S)


def failure_of_ask(ask: str, text: str) -> Failure:
    """The failure that an ask reports."""
    kind = _ASK_KINDS.get(AskKind(ask)) or _kind_of_text(text)
    return Failure(kind=kind, text=_sentence(text) or _GENERIC[kind])


def failure_of_timeout(log_tail: str) -> Failure:
    message = log_tail.strip()
    text = "The agent did not announce the session in time. Retry to start it again."
    return Failure(
        kind=ErrorKind.CREATION_TIMEOUT, text=f"{text} It said: {message}" if message else text
    )


def failure_of_process(text: str) -> Failure:
    message = text.strip() or "The agent's process failed."
    return Failure(kind=ErrorKind.PROCESS, text=message)


def failure_of_start(code: int | None, log: str) -> Failure:
    """The failure of a process that ended before it opened its task, from its own log."""
    message = _last_error(log)
    kind = _kind_of_text(message)
    if message.startswith((NO_MODEL_CHOSEN, CHOOSE_A_MODEL)):
        kind = ErrorKind.MODEL
    elif code == NO_KEY:
        kind = ErrorKind.AUTH
    return Failure(kind=ErrorKind.EARLY_EXIT if kind is ErrorKind.API else kind, text=message)


def failure_of_exit(code: int | None, signal: int | None) -> Failure:
    return Failure(
        kind=ErrorKind.CRASH,
        text=f"The agent {_exit_text(code, signal)}. Its work is kept. Resume it, or read the log.",
    )


def _last_error(log: str) -> str:
    """The last error in a log, or else its last line."""
    if errors := list(_ERROR.finditer(log)):
        return log[errors[-1].end() :].strip()
    return log.strip().splitlines()[-1].strip()


def _exit_text(code: int | None, signal: int | None) -> str:
    """The exit status of a process that another manager started is unknown."""
    if signal is not None:
        return f"was ended by signal {signal}"
    return "ended with an unknown status" if code is None else f"ended with code {code}"


def _kind_of_text(text: str) -> ErrorKind:
    if any(words in text for words in MEANS_BAD_KEY):
        return ErrorKind.AUTH
    if found := _STATUS.search(text):
        return _STATUS_KINDS[found[1]]
    return ErrorKind.MODEL if _NO_MODEL.search(text) else ErrorKind.API


def _sentence(text: str) -> str:
    """The text, or the message inside its JSON; empty if the JSON has none."""
    start = min((at for at in (text.find("{"), text.find("[")) if at >= 0), default=-1)
    if start < 0:
        return text.strip()
    try:
        data = json.loads(text[start:])
    except (ValueError, RecursionError):
        return text.strip()
    return _message_in(data) if isinstance(data, dict) else ""


def _message_in(data: dict[str, object]) -> str:
    inner = data.get("error")
    data = inner if isinstance(inner, dict) else data
    parts = [part for key in ("title", "message") if isinstance(part := data.get(key), str)]
    return ": ".join(part.strip() for part in parts if part.strip())
