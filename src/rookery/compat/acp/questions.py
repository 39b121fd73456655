"""Questions of a session as permission requests and forms, and the turn that a question ends.

Only an option that was offered approves. Every other answer, an error, or none, rejects.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import anyio
from msgspec import Struct

from rookery.compat.acp.tool_calls import Wire, content, text_block
from rookery.core.asks import FAILED_REQUESTS, AskKind, Choice, Reply, question_lines, reply_of
from rookery.core.facts import (
    Asked,
    AssistantSpoke,
    Fact,
    PromptRefused,
    RequestFailed,
    StepCancelled,
    StopReason,
    TaskFailed,
)
from rookery.core.limits import FailureKind
from rookery.core.modes import Level
from rookery.protocol.attend import Say
from rookery.protocol.codec import ceiling, followup
from rookery.protocol.jsonrpc import INTERNAL_ERROR, RpcError

AUTH_REQUIRED = -32000
ONCE, ALWAYS, PREFIX, REJECT = "once", "always", "prefix", "reject"
NOT_UNDERSTOOD = "The editor's answer was not one of the options, so this was not approved."
DECLINED = "The user did not answer this question."
_CHOICES: Mapping[Choice, str] = {
    "task": "Allow for the rest of this session: {grant}",
    "expand": "Allow, and add to the scope: {pattern}",
    "halt": "Reject, and stop the session",
}
_PLAN_LEVELS = {
    Level.ASK: "allow_once",
    Level.EDITS: "allow_always",
    Level.SANDBOXED: "allow_always",
    Level.AUTO: "allow_always",
}


class OpenedQuestion(Struct, frozen=True):
    task_id: str
    asked: Asked


def permission_options(asked: Asked) -> list[Wire]:
    """The answers that a question allows, with the words of the rules they would add."""
    return [
        {"optionId": name, "name": label, "kind": kind} for name, label, kind in _options(asked)
    ]


def _options(asked: Asked) -> Iterator[tuple[str, str, str]]:
    yield ONCE, "Allow once", "allow_once"
    if asked.rule:
        yield ALWAYS, f"Always allow {asked.rule}", "allow_always"
    if asked.prefix:
        yield PREFIX, f"Always allow {asked.prefix}", "allow_always"
    governed = asked.governance
    for choice in governed.choices if governed else ():
        assert governed
        label = _CHOICES[choice].format(grant=governed.grant, pattern=governed.pattern)
        yield choice, label, "reject_always" if choice == "halt" else "allow_always"
    yield REJECT, "Reject", "reject_once"


def is_cancelled(response: Any) -> bool:
    match response:
        case {"outcome": {"outcome": "cancelled"}}:
            return True
        case _:
            return False


def permission_answer(asked: Asked, response: Any) -> Say:
    """The answer to a question, from the response to a permission request."""
    offered = {name for name, _, _ in _options(asked)}
    match response:
        case {"outcome": {"outcome": "selected", "optionId": str(option)}} if option in offered:
            choice = next((each for each in _CHOICES if each == option), None)
            reply: Reply = reply_of(choice) if choice else "no" if option == REJECT else "yes"
            return Say(reply, always=option == ALWAYS, prefix=option == PREFIX, choice=choice)
        case _:
            return Say("no", NOT_UNDERSTOOD)


def plan_call(asked: Asked) -> Wire:
    """A plan to approve, as a tool call."""
    return {
        "toolCallId": asked.ask_id,
        "title": "Carry out this plan?",
        "kind": "switch_mode",
        "status": "pending",
        "content": [content(text_block(asked.plan))],
    }


def plan_options(levels: Sequence[Level]) -> list[Wire]:
    """The levels to carry out a plan with."""
    chosen = [
        {"optionId": level.value, "name": f"Yes: the agent {level.sentence}", "kind": kind}
        for level, kind in _PLAN_LEVELS.items()
        if level in levels
    ]
    return [*chosen, {"optionId": REJECT, "name": "No, keep planning", "kind": "reject_once"}]


def chosen_level(response: Any, levels: Sequence[Level]) -> Level | None:
    """The level to carry out a plan with; None if it was not approved."""
    match response:
        case {"outcome": {"outcome": "selected", "optionId": str(option)}}:
            offered = (each for each in _PLAN_LEVELS if each in levels)
            return next((each for each in offered if each.value == option), None)
        case _:
            return None


def question_notes(asked: Asked) -> str:
    """What a person should know before answering."""
    asker = asked.agent and f"The agent {asked.agent} asks."
    notes = [asker, asked.where and f"Runs {asked.where}.", *asked.notes]
    if asked.governance:
        notes += question_lines(asked.governance, dict.fromkeys(("task", "expand", "halt"), "-"))
    return "\n".join(filter(None, notes))


def question_text(asked: Asked) -> str:
    """A question of the model with its suggested answers, as text."""
    question, suggested = followup(asked.text)
    return "\n".join([question, *(f"- {each}" for each in suggested)])


def form(suggested: Sequence[str]) -> Wire:
    """The form for a question: one of the suggested answers, or other words."""
    free = {"type": "string", "title": "Other answer" if suggested else "Answer"}
    if not suggested:
        return {"type": "object", "properties": {"other": free}, "required": ["other"]}
    choice = {"type": "string", "title": "Answer", "enum": list(suggested)}
    return {"type": "object", "properties": {"answer": choice, "other": free}}


def form_answer(response: Any) -> str | None:
    """The answer in a form; None if the user gave none."""
    match response:
        case {"action": "accept", "content": {**given}}:
            said = (given.get("other"), given.get("answer"))
            return next((each for each in said if isinstance(each, str) and each.strip()), None)
        case _:
            return None


class PromptTurn:
    def __init__(self) -> None:
        self.ended = anyio.Event()
        self.stop = "end_turn"
        self.error: RpcError | None = None
        self.begun = anyio.Event()
        """Set once the task has accepted the turn."""
        self.cancelled = False
        self._model_stop = StopReason.END
        self._refused = False
        self._failure: RequestFailed | None = None
        self._crash = ""

    @property
    def takes_messages(self) -> bool:
        return self.begun.is_set() and not self.cancelled

    def see(self, fact: Fact) -> None:
        match fact:
            case AssistantSpoke(stop=stop):
                self._model_stop, self._failure = stop, None
            case RequestFailed():
                self._failure = fact
            case PromptRefused():
                self._refused = True
            case StepCancelled():
                self.cancelled = True
            case TaskFailed(message=message):
                self._crash = message
            case _:
                pass

    def end(self, asked: Asked | None, error: RpcError | None = None) -> None:
        """End with an error, or with the question that the task asks now."""
        self.stop = self._stop(asked)
        self.error = error or (None if self.cancelled else self._error(asked))
        self.begun.set()
        self.ended.set()

    def _stop(self, asked: Asked | None) -> str:
        declined = self._failure and self._failure.error is FailureKind.REFUSED
        if self.cancelled:
            return "cancelled"
        if self._refused or declined or self._model_stop is StopReason.REFUSED:
            return "refusal"
        if asked and asked.ask is AskKind.AUTO_APPROVAL_MAX_REQ_REACHED:
            return "max_turn_requests"
        return "max_tokens" if self._model_stop is StopReason.LENGTH else "end_turn"

    def _error(self, asked: Asked | None) -> RpcError | None:
        if asked is None:
            return RpcError(INTERNAL_ERROR, self._crash or "The session has ended. Load it again.")
        if asked.ask not in FAILED_REQUESTS or self.stop == "refusal":
            return None
        kind = self._failure.error if self._failure else None
        code = AUTH_REQUIRED if kind is FailureKind.BAD_KEY else INTERNAL_ERROR
        reason = asked.text or (self._failure.message if self._failure else "The request failed.")
        return RpcError(code, f"{reason} The session is kept; send a message to try again.")


def early_words(asked: Asked) -> str:
    """What to tell the user when a question ends the turn; the next prompt answers it."""
    match asked.ask:
        case AskKind.FOLLOWUP:
            return question_text(asked)
        case AskKind.MISTAKE_LIMIT_REACHED:
            return asked.text
        case AskKind.AUTO_APPROVAL_MAX_REQ_REACHED:
            return f"{ceiling(asked.text)} Send a message to continue."
        case _:
            return ""
