"""What kind of thing a row is, told without drawing it."""

from enum import Enum

from msgspec import Struct

from rookery.core.message import Message


class Family(Enum):
    HIDDEN = "nothing to see"
    USER = "said by the user"
    ANSWER = "said by the model"
    THOUGHT = "thought by the model"
    CALL = "a call of a tool"
    OUTPUT = "what a command wrote"
    TROUBLE = "something went wrong"
    RESULT = "what the task came to"
    QUESTION = "asked in words"
    NOTE = "something to know"
    SUMMARY = "where the conversation was made shorter"


_SAYS = {
    "text": Family.ANSWER,
    "reasoning": Family.THOUGHT,
    "user_feedback": Family.USER,
    "user_feedback_diff": Family.USER,
    "completion_result": Family.RESULT,
    "command_output": Family.OUTPUT,
    "browser_action_result": Family.OUTPUT,
    "error": Family.TROUBLE,
    "diff_error": Family.TROUBLE,
    "condense_context_error": Family.TROUBLE,
    "condense_context": Family.SUMMARY,
    "sliding_window_truncation": Family.SUMMARY,
    "checkpoint_saved": Family.HIDDEN,
    "api_req_finished": Family.HIDDEN,
    "api_req_started": Family.HIDDEN,
}
_CALLS = {"tool", "command", "use_mcp_server", "browser_action_launch"}


class Shown(Struct, frozen=True, kw_only=True):
    """A row with all that its drawing depends on."""

    message: Message
    opening: bool = False
    """It is what the task was opened with."""
    ended: str = ""
    """How its call ended: empty while it has not, `done`, `failed`, `denied` and so on."""
    result: str = ""
    """What its call came to, as the model was told."""
    exit_code: int | None = None
    tries: int = 1
    """How often a request was tried that this row tells of; 0 if a later row tells it."""
    unfolded: bool = False
    depth: int = 0


def family_of(shown: Shown) -> Family:
    if not shown.tries:
        return Family.HIDDEN
    return family(shown.message, opening=shown.opening)


def family(message: Message, *, opening: bool = False) -> Family:
    if opening:
        return Family.USER
    if message.type == "say":
        if message.say == "api_req_started":
            return (
                Family.TROUBLE
                if "streamingFailedMessage" in (message.text or "")
                else (Family.HIDDEN)
            )
        return _SAYS.get(message.say or "", Family.NOTE)
    if message.ask in _CALLS:
        return Family.CALL
    if message.ask == "resume_task":
        return Family.NOTE
    if message.ask == "followup":
        return Family.QUESTION
    return Family.HIDDEN


_BELONGS = {Family.TROUBLE, Family.OUTPUT}
"""What stands right below the call it is about."""


def gap_between(above: Family, below: Family, *, tall: bool) -> int:
    """Empty lines between two rows: what belongs together stands together. `tall` if what is
    above has several lines."""
    if below in _BELONGS and above in (Family.CALL, Family.OUTPUT):
        return 0
    return int(tall) if above is below is Family.CALL else 1
