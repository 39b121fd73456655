"""What a client with a text field and two buttons offers, told from the rows."""

import json
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.asks import AskKind
from rookery.core.folds.agent_state import newest_first, request_in_progress
from rookery.core.message import Message


class Press(StrEnum):
    """What pressing a button does."""

    YES = "yes"
    NO = "no"
    NEW_TASK = "new_task"
    CONTINUE = "continue"
    ABORT = "abort"


class Button(Struct, frozen=True):
    label: str
    press: Press


class Controls(Struct, frozen=True, kw_only=True):
    sending_disabled: bool = False
    buttons_enabled: bool = False
    primary: Button | None = None
    secondary: Button | None = None


Destination: TypeAlias = Literal["new_task", "answer", "queue"]

_NEW_TASK = Button("New task", Press.NEW_TASK)
_APPROVE, _REJECT = Button("Approve", Press.YES), Button("Reject", Press.NO)
_BUSY = Controls(sending_disabled=True)
_WAITS = ("api_req_retry_delayed", "api_req_rate_limit_wait")
_EDITS = ("editedExistingFile", "appliedDiff", "newFileCreated", "generateImage", "imageGenerated")
_BATCHES = ("batchFiles", "batchDiffs", "batchDirs")

_FIXED_BUTTONS: dict[str, tuple[Button | None, Button | None]] = {
    AskKind.API_REQ_FAILED: (Button("Retry", Press.YES), _NEW_TASK),
    AskKind.MISTAKE_LIMIT_REACHED: (Button("Proceed", Press.YES), _NEW_TASK),
    AskKind.FOLLOWUP: (None, None),
    AskKind.COMMAND: (Button("Run", Press.YES), _REJECT),
    AskKind.BROWSER_ACTION_LAUNCH: (_APPROVE, _REJECT),
    AskKind.USE_MCP_SERVER: (_APPROVE, _REJECT),
    AskKind.REPORT_BUG: (_APPROVE, _REJECT),
    AskKind.CONDENSE: (_APPROVE, _REJECT),
    AskKind.CHECKPOINT_RESTORE: (_APPROVE, _REJECT),
    AskKind.COMMAND_OUTPUT: (
        Button("Proceed while running", Press.CONTINUE),
        Button("Kill", Press.ABORT),
    ),
    AskKind.COMPLETION_RESULT: (_NEW_TASK, None),
    AskKind.RESUME_TASK: (Button("Resume", Press.YES), Button("Terminate", Press.NEW_TASK)),
    AskKind.RESUME_COMPLETED_TASK: (_NEW_TASK, None),
    AskKind.AUTO_APPROVAL_MAX_REQ_REACHED: (Button("Continue", Press.YES), _NEW_TASK),
    AskKind.PAYMENT_REQUIRED_PROMPT: (Button("Retry", Press.YES), _NEW_TASK),
    AskKind.INVALID_MODEL: (Button("Retry", Press.YES), _NEW_TASK),
}
_READY_WHILE_PARTIAL = frozenset(
    (
        AskKind.API_REQ_FAILED,
        AskKind.MISTAKE_LIMIT_REACHED,
        AskKind.FOLLOWUP,
        AskKind.COMMAND_OUTPUT,
        AskKind.RESUME_TASK,
        AskKind.RESUME_COMPLETED_TASK,
        AskKind.AUTO_APPROVAL_MAX_REQ_REACHED,
        AskKind.PAYMENT_REQUIRED_PROMPT,
        AskKind.INVALID_MODEL,
    )
)


def controls(messages: Sequence[Message], *, is_subtask: bool = False) -> Controls:
    """What the newest row that has a say in it allows. Rows that have none change nothing."""
    if not messages:
        return Controls()
    waiting = False
    for message in newest_first(messages):
        if message.say in _WAITS:
            waiting = True
        elif message.say == "api_req_started" or (message.type == "ask" and message.answered):
            return _BUSY
        elif message.ask in _FIXED_BUTTONS or message.ask == AskKind.TOOL:
            offered = _for_ask(message, messages, is_subtask)
            return replace(offered, sending_disabled=True) if waiting else offered
    return _BUSY


def shows_streaming(messages: Sequence[Message], *, is_subtask: bool = False) -> bool:
    """Whether to show that the agent is at work. The first row is the task itself."""
    if len(messages) > 1 and messages[-1].type == "ask" and not messages[-1].answered:
        offered = controls(messages, is_subtask=is_subtask)
        if offered.buttons_enabled and offered.primary:
            return False
    last_is_partial = bool(messages) and messages[-1].partial
    return last_is_partial or request_in_progress(messages)


def destination(messages: Sequence[Message], *, queued: int = 0) -> Destination:
    """Where a text goes that the user sends now."""
    if not messages:
        return "new_task"
    runs_command = messages[-1].ask == AskKind.COMMAND_OUTPUT and messages[-1].open
    busy = controls(messages).sending_disabled or shows_streaming(messages)
    return "queue" if busy or queued or runs_command else "answer"


def _for_ask(message: Message, messages: Sequence[Message], is_subtask: bool) -> Controls:
    kind = AskKind(str(message.ask))
    primary, secondary = _FIXED_BUTTONS.get(kind) or _tool_buttons(message)
    if kind is AskKind.RESUME_TASK and is_subtask and _has_result(messages):
        primary, secondary = _NEW_TASK, None
    waits_for_rest = message.partial and kind not in _READY_WHILE_PARTIAL
    blocks_text = kind is AskKind.API_REQ_FAILED or (
        message.partial and (waits_for_rest or kind is AskKind.FOLLOWUP)
    )
    return Controls(
        sending_disabled=blocks_text,
        buttons_enabled=not waits_for_rest,
        primary=primary,
        secondary=secondary,
    )


def _tool_buttons(message: Message) -> tuple[Button, Button | None]:
    asked = _fields(message.text)
    if asked.get("tool") == "finishTask":
        return Button("Complete and return", Press.YES), None
    if any(asked.get(batch) for batch in _BATCHES):
        return Button("Approve all", Press.YES), Button("Deny all", Press.NO)
    if message.diff or asked.get("tool") in _EDITS:
        return Button("Save", Press.YES), _REJECT
    return _APPROVE, _REJECT


def _has_result(messages: Sequence[Message]) -> bool:
    return any("completion_result" in (message.say, message.ask) for message in messages)


def _fields(text: str | None) -> dict[str, Any]:
    try:
        fields = json.loads(text or "")
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}
