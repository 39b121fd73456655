"""A question that governance has, as clients are told of it, and what may be answered."""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

from msgspec import Struct

Choice: TypeAlias = Literal["task", "expand", "halt"]
"""What can be said besides yes and no: yes, and for the rest of the task; yes, and it belongs to
the scope from now on; no, and stop the task."""


CHOICES: tuple[Choice, ...] = get_args(Choice)


def reply_of(choice: Choice) -> Literal["yes", "no"]:
    """What a choice is first of all."""
    return "no" if choice == "halt" else "yes"


class AskedReason(Struct, frozen=True, kw_only=True):
    code: str
    error_type: str
    text: str


class AskedTarget(Struct, frozen=True, kw_only=True):
    path: str
    op: str
    verdict: str
    nearest: str = ""
    real_path: str = ""


class IntentQuestion(Struct, frozen=True, kw_only=True):
    """`pattern` is what `expand` would add to the scope, and `grant` what `task` would allow for
    the rest of the task: a pattern of paths, or how a command begins."""

    intent_id: str = ""
    intent_name: str = ""
    revision: int = 0
    scope: tuple[str, ...] = ()
    reasons: tuple[AskedReason, ...] = ()
    targets: tuple[AskedTarget, ...] = ()
    analysis: str = ""
    """How much is known of a command."""
    sandboxed: bool = False
    """Whether the sandbox keeps the command to the scope; it may run in one that does not."""
    pattern: str = ""
    grant: str = ""
    choices: tuple[Choice, ...] = ()


def as_json(question: IntentQuestion, *, approval_id: str, binding: str, diff: str) -> Any:
    """The `governance` object of a question on the wire."""
    said: dict[str, Any] = {
        "approval_id": approval_id,
        "intent": {
            "id": question.intent_id,
            "name": question.intent_name,
            "revision": question.revision,
        },
        "reasons": [
            {"code": each.code, "error_type": each.error_type, "text": each.text}
            for each in question.reasons
        ],
        "targets": [
            {
                "path": each.path,
                "op": each.op,
                "verdict": each.verdict,
                "nearest_scope": each.nearest,
                **({"real_path": each.real_path} if each.real_path else {}),
            }
            for each in question.targets
        ],
        "suggested_scope": question.pattern,
        "binding": binding,
        "choices": ["once", *question.choices, "no"],
    }
    if question.analysis:
        said["command"] = {"analysis": question.analysis, "sandbox": question.sandboxed}
    if diff:
        said["diff"] = diff
    return said


KEYS: Mapping[Choice, str] = {"task": "t", "expand": "e", "halt": "s"}
"""How a choice is made at a terminal."""
UNBOUNDED = "unbounded"
"""The analysis of a command of which nobody can tell beforehand what it writes."""


def question_lines(question: IntentQuestion, ways: Mapping[Choice, str] = KEYS) -> tuple[str, ...]:
    """What else a person must know to answer, line by line. `ways` are how choices are made."""
    name = f' "{question.intent_name}"' if question.intent_name else ""
    owns = ", ".join(question.scope) or "nothing"
    lines = [f"{question.intent_id}{name} owns: {owns}"] if question.intent_id else []
    if question.analysis == UNBOUNDED:
        lines.append(f"What it writes is not known beforehand, and {_keeps(question)}.")
    if "task" in question.choices:
        what = f"count {question.grant} as within the scope for the rest of this task"
        lines.append(f"{ways['task']}  {what}")
    if "expand" in question.choices:
        what = f"add {question.pattern} to the scope of {question.intent_id}"
        lines.append(f"{ways['expand']}  {what}")
    if "halt" in question.choices:
        lines.append(f"{ways['halt']}  no, and stop the task")
    return tuple(lines)


def _keeps(question: IntentQuestion) -> str:
    kept = "the sandbox keeps it to the scope"
    return kept if question.sandboxed else "no sandbox keeps it to the scope"
