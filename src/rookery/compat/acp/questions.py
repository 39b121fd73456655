"""Questions of a session as permission requests and forms, and their answers.

Only an option that was offered approves. Every other answer, an error, or none, rejects.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from rookery.compat.acp.tool_calls import Wire, content, text_block
from rookery.core.asks import Choice, Reply, reply_of
from rookery.core.facts import Asked
from rookery.core.modes import Level
from rookery.protocol.attend import Say
from rookery.protocol.codec import followup

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
