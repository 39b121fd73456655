"""The questions an agent stops on, and rulings about tool calls.

The loop stops only by asking. The kind of an ask says what it needs. Its category says whether the
task is waiting, finished, paused or still running. The required action says what a client should
offer. Governance questions also carry an `IntentQuestion`. The strictest `Ruling` on a call
applies.
"""

import json
from collections.abc import Iterable, Mapping
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from msgspec import Struct
from msgspec.structs import asdict, replace

if TYPE_CHECKING:
    from rookery.core.refusals import Refusal

Reply: TypeAlias = Literal["yes", "no", "message"]

Choice: TypeAlias = Literal["task", "expand", "halt"]
"""Answers besides yes and no: yes for the rest of the task; yes and add it to the scope; no and
stop the task."""
CHOICES: tuple[Choice, ...] = get_args(Choice)


class AskKind(StrEnum):
    FOLLOWUP = "followup"
    COMMAND = "command"
    COMMAND_OUTPUT = "command_output"
    TOOL = "tool"
    BROWSER_ACTION_LAUNCH = "browser_action_launch"
    USE_MCP_SERVER = "use_mcp_server"
    COMPLETION_RESULT = "completion_result"
    API_REQ_FAILED = "api_req_failed"
    MISTAKE_LIMIT_REACHED = "mistake_limit_reached"
    AUTO_APPROVAL_MAX_REQ_REACHED = "auto_approval_max_req_reached"
    PAYMENT_REQUIRED_PROMPT = "payment_required_prompt"
    INVALID_MODEL = "invalid_model"
    RESUME_TASK = "resume_task"
    RESUME_COMPLETED_TASK = "resume_completed_task"
    REPORT_BUG = "report_bug"
    CONDENSE = "condense"
    CHECKPOINT_RESTORE = "checkpoint_restore"


class AskCategory(StrEnum):
    INTERACTIVE = "interactive"
    IDLE = "idle"
    RESUMABLE = "resumable"
    NON_BLOCKING = "non_blocking"


class RequiredAction(StrEnum):
    NONE = "none"
    APPROVE = "approve"
    ANSWER = "answer"
    RETRY_OR_NEW_TASK = "retry_or_new_task"
    PROCEED_OR_NEW_TASK = "proceed_or_new_task"
    START_TASK = "start_task"
    RESUME_OR_ABANDON = "resume_or_abandon"
    START_NEW_TASK = "start_new_task"
    CONTINUE_OR_ABORT = "continue_or_abort"


_INTERACTIVE, _IDLE = AskCategory.INTERACTIVE, AskCategory.IDLE

_ASKS: dict[AskKind, tuple[AskCategory, RequiredAction]] = {
    AskKind.FOLLOWUP: (_INTERACTIVE, RequiredAction.ANSWER),
    AskKind.COMMAND: (_INTERACTIVE, RequiredAction.APPROVE),
    AskKind.TOOL: (_INTERACTIVE, RequiredAction.APPROVE),
    AskKind.BROWSER_ACTION_LAUNCH: (_INTERACTIVE, RequiredAction.APPROVE),
    AskKind.USE_MCP_SERVER: (_INTERACTIVE, RequiredAction.APPROVE),
    AskKind.REPORT_BUG: (_INTERACTIVE, RequiredAction.APPROVE),
    AskKind.CONDENSE: (_INTERACTIVE, RequiredAction.APPROVE),
    AskKind.CHECKPOINT_RESTORE: (_INTERACTIVE, RequiredAction.APPROVE),
    AskKind.COMPLETION_RESULT: (_IDLE, RequiredAction.START_TASK),
    AskKind.API_REQ_FAILED: (_IDLE, RequiredAction.RETRY_OR_NEW_TASK),
    AskKind.MISTAKE_LIMIT_REACHED: (_IDLE, RequiredAction.PROCEED_OR_NEW_TASK),
    AskKind.AUTO_APPROVAL_MAX_REQ_REACHED: (_IDLE, RequiredAction.START_NEW_TASK),
    AskKind.PAYMENT_REQUIRED_PROMPT: (_IDLE, RequiredAction.RETRY_OR_NEW_TASK),
    AskKind.INVALID_MODEL: (_IDLE, RequiredAction.RETRY_OR_NEW_TASK),
    AskKind.RESUME_COMPLETED_TASK: (_IDLE, RequiredAction.START_NEW_TASK),
    AskKind.RESUME_TASK: (AskCategory.RESUMABLE, RequiredAction.RESUME_OR_ABANDON),
    AskKind.COMMAND_OUTPUT: (AskCategory.NON_BLOCKING, RequiredAction.CONTINUE_OR_ABORT),
}
CATEGORY = {ask: category for ask, (category, _) in _ASKS.items()}
REQUIRED_ACTION = {ask: action for ask, (_, action) in _ASKS.items()}

APPROVALS = tuple(ask for ask, how in REQUIRED_ACTION.items() if how is RequiredAction.APPROVE)
"""Questions whether an action may be performed."""
FAILED_REQUESTS = (
    AskKind.API_REQ_FAILED,
    AskKind.PAYMENT_REQUIRED_PROMPT,
    AskKind.INVALID_MODEL,
)
RESUMES = (AskKind.RESUME_TASK, AskKind.RESUME_COMPLETED_TASK)
ASKED_AGAIN = (AskKind.COMPLETION_RESULT, *RESUMES)
"""Questions that a reopened task asks instead of the one it had open."""

_YES_NO_TEXT: frozenset[Reply] = frozenset(("yes", "no", "message"))
_TEXT: frozenset[Reply] = frozenset(("message",))


def category(ask: str | None) -> AskCategory | None:
    """The category of an ask by its wire name; None for an unknown kind."""
    kind = _known(ask)
    return CATEGORY[kind] if kind else None


def required_action(ask: str | None) -> RequiredAction:
    kind = _known(ask)
    return REQUIRED_ACTION[kind] if kind else RequiredAction.NONE


def is_interactive_ask(ask: str | None) -> bool:
    return category(ask) is AskCategory.INTERACTIVE


def is_non_blocking_ask(ask: str | None) -> bool:
    return category(ask) is AskCategory.NON_BLOCKING


def takes(ask: AskKind) -> frozenset[Reply]:
    """The possible replies to an ask. An open question takes only text."""
    return _TEXT if ask is AskKind.FOLLOWUP else _YES_NO_TEXT


def _known(ask: str | None) -> AskKind | None:
    return AskKind(ask) if ask is not None and ask in _NAMES else None


_NAMES = frozenset(kind.value for kind in AskKind)


def reply_of(choice: Choice) -> Literal["yes", "no"]:
    """The yes or no that a choice implies."""
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
    """`pattern` is what `expand` would add to the scope. `grant` is what `task` would allow for
    the rest of the task: a path pattern or a command prefix."""

    intent_id: str = ""
    intent_name: str = ""
    revision: int = 0
    scope: tuple[str, ...] = ()
    reasons: tuple[AskedReason, ...] = ()
    targets: tuple[AskedTarget, ...] = ()
    analysis: str = ""
    """How well the command is understood."""
    sandboxed: bool = False
    """Whether the sandbox confines the command to the scope."""
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
        "reasons": [asdict(each) for each in question.reasons],
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
"""The terminal key for each choice."""
UNBOUNDED = "unbounded"
"""Analysis of a command whose writes cannot be predicted."""


def question_lines(question: IntentQuestion, ways: Mapping[Choice, str] = KEYS) -> tuple[str, ...]:
    """Lines with what a person needs to know to answer. `ways` describe how to make each choice."""
    name = f' "{question.intent_name}"' if question.intent_name else ""
    owns = ", ".join(question.scope) or "nothing"
    lines = [f"Scope of {question.intent_id}{name}: {owns}"] if question.intent_id else []
    if question.analysis == UNBOUNDED:
        lines.append(f"What it writes is not known in advance, and {_keeps(question)}.")
    if "task" in question.choices:
        what = f"treat {question.grant} as in scope for the rest of this task"
        lines.append(f"{ways['task']}  {what}")
    if "expand" in question.choices:
        what = f"add {question.pattern} to the scope of {question.intent_id}"
        lines.append(f"{ways['expand']}  {what}")
    if "halt" in question.choices:
        lines.append(f"{ways['halt']}  reject, and stop the task")
    return tuple(lines)


def _keeps(question: IntentQuestion) -> str:
    kept = "the sandbox confines it to the scope"
    return kept if question.sandboxed else "it is not confined to the scope"


def offered_in(question: str) -> frozenset[str]:
    """The suggested answers in a model's question; none if they cannot be parsed."""
    try:
        suggested = json.loads(question).get("suggest", [])
        return frozenset(str(each["answer"]).strip() for each in suggested)
    except (ValueError, KeyError, TypeError, AttributeError):
        return frozenset()


class Decision(IntEnum):
    """From no opinion to the strictest. The greatest of several decisions applies."""

    NONE = 0
    ALLOW = 1
    ASK = 2
    DENY = 3


class Ruling(Struct, frozen=True):
    """`notes` are shown to the user whenever the user is asked. `refusals` are what the model
    reads if the call is refused. `question` is what governance asks."""

    decision: Decision = Decision.NONE
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    refusals: "tuple[Refusal, ...]" = ()
    question: IntentQuestion | None = None
    result_notes: tuple[str, ...] = ()
    """Notes the model reads with the result, if the call is made."""
    offline: bool = False
    """Whether a command may run only without network, unless a person approves it."""


def allow() -> Ruling:
    return Ruling(Decision.ALLOW)


def ask(reason: str) -> Ruling:
    return Ruling(Decision.ASK, (reason,))


def deny(reason: str) -> Ruling:
    return Ruling(Decision.DENY, (reason,))


def joined(rulings: Iterable[Ruling]) -> Ruling:
    """Combine rulings: the strictest decision, the reasons behind it, and all notes. The model
    gets every refusal with a code."""
    opinions = list(rulings)
    gravest = max((ruling.decision for ruling in opinions), default=Decision.NONE)
    reasons = tuple(
        reason for ruling in opinions if ruling.decision is gravest for reason in ruling.reasons
    )
    coded = any(ruling.refusals for ruling in opinions if ruling.decision is gravest)
    return Ruling(
        gravest,
        reasons,
        tuple(note for ruling in opinions for note in ruling.notes),
        tuple(each for ruling in opinions for each in ruling.refusals) if coded else (),
        next((ruling.question for ruling in opinions if ruling.question), None),
        tuple(text for ruling in opinions for text in ruling.result_notes),
        any(ruling.offline for ruling in opinions),
    )


def strictest(rulings: Iterable[Ruling]) -> Ruling:
    """Combine all rulings into one.

    If no rule has an opinion, ask: what no rule allows is not allowed.
    """
    ruling = joined(rulings)
    return ruling if ruling.decision else replace(ruling, decision=Decision.ASK)
