"""Refusals as the model reads them, and problems in files that people wrote.

A refusal is a JSON object with a code and what to do next. The codes are a table. Paths outside the
workspace are never given in full, because text for the model may end up anywhere.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from posixpath import basename, isabs
from typing import Any

from msgspec import Struct
from msgspec.structs import replace


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"


class Problem(Struct, frozen=True, kw_only=True):
    """One problem in a file. Lines and columns count from 1; 0 means the whole file. `text` is
    the faulty line, `path` the element, such as `owned_scope[1]`."""

    file: str
    code: str
    message: str
    line: int = 0
    column: int = 0
    intent_id: str = ""
    path: str = ""
    text: str = ""
    fix: str = ""

    @property
    def severity(self) -> Severity:
        return Severity.WARNING if self.code.startswith("W") else Severity.ERROR

    @property
    def of_whole_file(self) -> bool:
        """Whether the whole policy is unreadable, so that it is unknown what it forbids."""
        return self.code.startswith("E1") or (
            self.severity is Severity.ERROR and self.path.startswith("policy")
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "severity": str(self.severity),
            "code": self.code,
            "intent_id": self.intent_id or None,
            "path": self.path or None,
            "text": self.text,
            "message": self.message,
            "fix": self.fix or None,
        }


class Health(StrEnum):
    OK = "ok"
    WARN = "warn"
    """It works with limitations."""
    BAD = "bad"


class Finding(Struct, frozen=True):
    """`text` is a sentence or a few words; `todo` is what the user can do."""

    name: str
    health: Health
    text: str
    todo: str = ""


MOST_STEPS = 3
DECLINED = "declined"
"""Reason of a refusal for which the usual advice would only lead to the next refusal."""
OUTSIDE = "(outside the workspace)"


class Kind(Struct, frozen=True):
    """One row of the table. A lower `rank` is more severe. `retryable`: the same call can
    succeed later without a person."""

    error_type: str
    rank: int
    retryable: bool = False
    recovery: tuple[str, ...] = ()


_EXPAND = "call request_scope_expansion with the path and a reason"
_SELECT = "call select_active_intent with one of the listed ids, alone in a message"
_ASK = "ask the user"

KINDS: dict[str, Kind] = {
    "REQ-001": Kind("scope_violation", 30, recovery=(_EXPAND,)),
    "REQ-002": Kind(
        "unknown_targets",
        32,
        recovery=("use a tool whose files are known, such as apply_diff", _ASK),
    ),
    "REQ-003": Kind("no_active_intent", 20, True, (_SELECT,)),
    "REQ-004": Kind("intent_mismatch", 22, True, ("omit intent_id, or select that intent first",)),
    "REQ-005": Kind(
        "invalid_metadata", 60, True, ("use AST_REFACTOR or INTENT_EVOLUTION, or leave it out",)
    ),
    "REQ-006": Kind("intent_not_found", 24, True, ("select one of the listed ids", _ASK)),
    "REQ-007": Kind("stale_file", 40, True, ("read the file again, then repeat the change",)),
    "REQ-008": Kind("destructive_operation_denied", 34, recovery=("continue without it", _ASK)),
    "REQ-010": Kind(
        "intent_not_in_progress",
        24,
        recovery=("select an intent that is in progress", "ask the user to start it"),
    ),
    "REQ-011": Kind(
        "intent_file_missing", 12, recovery=("ask the user to run: rookery intents init",)
    ),
    "REQ-012": Kind("intent_invalidated", 18, True, (_SELECT,)),
    "REQ-013": Kind(
        "intent_file_invalid",
        14,
        recovery=("ask the user to fix the file: rookery intents validate",),
    ),
    "REQ-014": Kind("protected_path", 6, recovery=("continue without changing it", _ASK)),
    "REQ-015": Kind("path_rejected", 4, recovery=("name the file by its real path",)),
    "REQ-016": Kind("budget_exceeded", 26, recovery=("ask the user to raise the budget",)),
    "REQ-017": Kind("dependency_unmet", 26, recovery=("select what it depends on first", _ASK)),
    "REQ-018": Kind(
        "scope_conflict", 26, True, ("wait until the other task has ended", "select another intent")
    ),
    "CMD-001": Kind("command_not_authorized", 28, recovery=("use another command", _ASK)),
    "CMD-002": Kind(
        "command_wrote_out_of_scope", 50, recovery=("tell the user which files it changed",)
    ),
    "HOOK-INT-001": Kind("missing_intent", 24, True, ("give intent_id one of the listed ids",)),
    "HOOK-001": Kind("hook_blocked", 16, recovery=("do what the hook's text says",)),
    "HOOK-002": Kind("hook_failed", 44, recovery=("ask the user to fix the hook",)),
    "HOOK-003": Kind("hook_timeout", 44, recovery=("ask the user to fix the hook",)),
    "HOOK-004": Kind("hook_untrusted", 16, recovery=("ask the user to review the hook",)),
    "TRC-001": Kind("trace_write_failed", 8, True, ("ask the user to free disk space",)),
    "TRC-002": Kind("trace_integrity", 2, recovery=("ask the user to run: rookery trace verify",)),
}


class RefusedTarget(Struct, frozen=True):
    path: str
    op: str
    verdict: str


class Refusal(Struct, frozen=True, kw_only=True):
    """`details` are specific to the code, such as both hashes of a stale file. `problems` are
    the other refusals of the same call, `faults` the problems in a file. `steps` come before the
    advice in the table."""

    code: str
    message: str
    intent_id: str = ""
    tool: str = ""
    tool_use_id: str = ""
    targets: tuple[RefusedTarget, ...] = ()
    steps: tuple[str, ...] = ()
    feedback: str = ""
    reason: str = ""
    details: tuple[tuple[str, Any], ...] = ()
    problems: "tuple[Refusal, ...]" = ()
    faults: tuple[Problem, ...] = ()

    @property
    def error_type(self) -> str:
        return KINDS[self.code].error_type

    @property
    def retryable(self) -> bool:
        return KINDS[self.code].retryable

    @property
    def filename(self) -> str:
        """The first refused path."""
        return shown(self.targets[0].path) if self.targets else ""

    @property
    def recovery(self) -> tuple[str, ...]:
        usual = () if self.reason == DECLINED else KINDS[self.code].recovery
        return tuple(dict.fromkeys(self.steps + usual))[:MOST_STEPS]

    def to_json(self) -> dict[str, Any]:
        said: dict[str, Any] = {
            "error_type": self.error_type,
            "code": self.code,
            "intent_id": self.intent_id or None,
            "tool": self.tool,
            "tool_use_id": self.tool_use_id,
            "filename": self.filename or None,
            "message": self.message,
            "targets": [
                {"path": shown(each.path), "op": each.op, "verdict": each.verdict}
                for each in self.targets
            ],
            "retryable": self.retryable,
            "recovery": list(self.recovery),
            "feedback": self.feedback or None,
            **({"reason": self.reason} if self.reason else {}),
            **dict(self.details),
        }
        problems = [each.to_json() for each in self.problems or self.faults]
        hidden = sorted({path for path in self._paths() if isabs(path)}, key=len, reverse=True)
        whole = {**said, **({"problems": problems} if problems else {})}
        return {key: _without(each, hidden) for key, each in whole.items()}

    def _paths(self) -> list[str]:
        return [target.path for one in (self, *self.problems) for target in one.targets]


def merged(refusals: Sequence[Refusal]) -> Refusal:
    """All refusals of one call as one: the most severe on top, all of them as its problems."""
    if len(refusals) == 1:
        return refusals[0]
    gravest = min(refusals, key=lambda each: KINDS[each.code].rank)
    return replace(gravest, problems=tuple(refusals))


def scope_refusal(
    *, intent_id: str, tool: str, tool_use_id: str, target: RefusedTarget, scope: Sequence[str]
) -> Refusal:
    """A refused change outside the scope."""
    granting = [each for each in scope if not each.startswith("!")]
    return Refusal(
        code="REQ-001",
        message=f"{intent_id} may not change {shown(target.path)}.",
        intent_id=intent_id,
        tool=tool,
        tool_use_id=tool_use_id,
        targets=(target,),
        steps=(f"change a file inside: {', '.join(granting)}",) if granting else (),
    )


def shown(path: str) -> str:
    """The path inside the workspace, or only its last name."""
    return f"{OUTSIDE} {basename(path.rstrip('/'))}".rstrip() if isabs(path) else path


def _without(said: Any, hidden: Sequence[str]) -> Any:
    """The same JSON with paths outside the workspace shortened."""
    match said:
        case str():
            for path in hidden:
                said = said.replace(path, shown(path))
            return said
        case Mapping():
            return {key: _without(each, hidden) for key, each in said.items()}
        case list() | tuple():
            return [_without(each, hidden) for each in said]
        case _:
            return said
