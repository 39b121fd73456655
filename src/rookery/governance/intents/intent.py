"""Intents: why something may be changed, and where. The file they come from, as values.

What is here has been read already: texts are texts, numbers are numbers, and whatever was wrong
stands among the problems. Only people move an intent from one status to another; an agent can ask.
"""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from typing import Any, Literal

from msgspec import Struct

from rookery.core.refusals import Problem, Severity

DEFAULT_VERIFY_SECONDS = 300


class IntentStatus(StrEnum):
    PENDING = "PENDING"
    IN_PROGRESS = "IN_PROGRESS"
    PAUSED = "PAUSED"
    COMPLETED = "COMPLETED"
    ABANDONED = "ABANDONED"


OPEN = (IntentStatus.PENDING, IntentStatus.IN_PROGRESS, IntentStatus.PAUSED)


class Verify(Struct, frozen=True, kw_only=True):
    """A command whose success proves a criterion."""

    command: str
    timeout_s: int = DEFAULT_VERIFY_SECONDS
    cwd: str = ""


class Criterion(Struct, frozen=True, kw_only=True):
    text: str
    id: str = ""
    verify: Verify | None = None


class Constraint(Struct, frozen=True, kw_only=True):
    text: str
    id: str = ""


class IntentPermissions(Struct, frozen=True, kw_only=True):
    """Rules as they were written; `permission_rules` understands them."""

    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class IntentBudget(Struct, frozen=True, kw_only=True):
    """None where nothing was said: no limit."""

    max_files: int | None = None
    max_changed_lines: int | None = None
    max_tool_calls: int | None = None
    expires_at: datetime | None = None


class Related(Struct, frozen=True, kw_only=True):
    type: str
    url: str


class StatusChange(Struct, frozen=True, kw_only=True):
    status: str
    at: str = ""
    by: str = ""
    reason: str = ""


class LastVerification(Struct, frozen=True, kw_only=True):
    at: str = ""
    ok: bool = False
    criteria: tuple[str, ...] = ()
    trace_id: str = ""


class Intent(Struct, frozen=True, kw_only=True):
    id: str
    name: str = ""
    status: IntentStatus = IntentStatus.PENDING
    description: str = ""
    owned_scope: tuple[str, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    acceptance_criteria: tuple[Criterion, ...] = ()
    permissions: IntentPermissions = IntentPermissions()
    budget: IntentBudget = IntentBudget()
    depends_on: tuple[str, ...] = ()
    parent: str = ""
    related: tuple[Related, ...] = ()
    revision: int = 1
    owner: str = ""
    reviewers: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    priority: int | None = None
    created_at: str = ""
    updated_at: str = ""
    status_history: tuple[StatusChange, ...] = ()
    last_verification: LastVerification | None = None


class Policy(Struct, frozen=True, kw_only=True):
    """What a project asks of everybody who works in it. The first value of each is the default."""

    unknown_targets: Literal["ask", "deny"] = "ask"
    out_of_scope: Literal["ask", "deny"] = "ask"
    deletes: Literal["ask", "allow", "deny"] = "ask"
    same_turn_writes: Literal["deny", "allow"] = "deny"
    sandbox: Literal["off", "auto", "required"] = "off"
    on_out_of_scope_write: Literal["ask_revert", "report"] = "ask_revert"
    overlap: Literal["warn", "block"] = "warn"
    dependencies: Literal["warn", "block"] = "warn"
    stale: Literal["context", "strict"] = "context"
    protect: tuple[str, ...] = ()
    max_in_progress: int = 20


class IntentFile(Struct, frozen=True, kw_only=True):
    """What was read. An intent with an error of its own is listed and cannot be selected; if the
    file as a whole has one, no intent can."""

    intents: tuple[Intent, ...] = ()
    policy: Policy = Policy()
    problems: tuple[Problem, ...] = ()

    @property
    def usable(self) -> bool:
        return not any(problem.of_whole_file for problem in self.problems)

    @property
    def errors(self) -> tuple[Problem, ...]:
        return tuple(each for each in self.problems if each.severity is Severity.ERROR)

    @property
    def broken(self) -> frozenset[str]:
        """The ids of intents that cannot be selected because of what is wrong with them."""
        return frozenset(each.intent_id for each in self.errors if each.intent_id)

    def find(self, wanted: str) -> Intent | None:
        """The intent of that id: exactly, else without regard to case."""
        exact = (intent for intent in self.intents if intent.id == wanted)
        loose = (intent for intent in self.intents if intent.id.lower() == wanted.lower())
        return next(exact, None) or next(loose, None)

    def selectable(self, now: datetime) -> tuple[Intent, ...]:
        if not self.usable:
            return ()
        broken = self.broken
        return tuple(
            intent for intent in self.intents if intent.id not in broken and selectable(intent, now)
        )

    def unmet(self, intent: Intent) -> tuple[str, ...]:
        """What the intent depends on and is not completed."""
        found = {each: self.find(each) for each in intent.depends_on}
        done = IntentStatus.COMPLETED
        return tuple(each for each, its in found.items() if its is None or its.status is not done)


class Move(Struct, frozen=True):
    """One way from a status to another. None among `before` is an intent that is not there yet."""

    command: str
    before: tuple[IntentStatus | None, ...]
    after: IntentStatus
    needs_scope: bool = False
    needs_dependencies: bool = False
    needs_checks: bool = False
    needs_reason_to_skip: bool = False
    raises_revision: bool = False
    agent_may_ask: bool = False


LIFECYCLE: tuple[Move, ...] = (
    Move("new", (None,), IntentStatus.PENDING),
    Move(
        "start",
        (IntentStatus.PENDING, IntentStatus.PAUSED),
        IntentStatus.IN_PROGRESS,
        needs_scope=True,
        needs_dependencies=True,
        agent_may_ask=True,
    ),
    Move("pause", (IntentStatus.IN_PROGRESS,), IntentStatus.PAUSED),
    Move(
        "close",
        (IntentStatus.IN_PROGRESS,),
        IntentStatus.COMPLETED,
        needs_checks=True,
        needs_reason_to_skip=True,
        agent_may_ask=True,
    ),
    Move("abandon", OPEN, IntentStatus.ABANDONED),
    Move("reopen", (IntentStatus.COMPLETED,), IntentStatus.IN_PROGRESS, raises_revision=True),
    Move("reopen", (IntentStatus.ABANDONED,), IntentStatus.PENDING),
)
ORDER = (
    IntentStatus.IN_PROGRESS,
    IntentStatus.PAUSED,
    IntentStatus.PENDING,
    IntentStatus.COMPLETED,
    IntentStatus.ABANDONED,
)


def expired(intent: Intent, now: datetime) -> bool:
    end = intent.budget.expires_at
    return end is not None and end <= now


def selectable(intent: Intent, now: datetime) -> bool:
    return intent.status is IntentStatus.IN_PROGRESS and not expired(intent, now)


@lru_cache(maxsize=256)
def digest(intent: Intent, policy: Policy) -> str:
    """What tells one wording of an intent, under one policy, from any other. Hexadecimal."""
    from rookery.governance.ledger.verify_ledger import canonical

    return sha256(canonical(_definition(intent, policy))).hexdigest()


def move(command: str, status: IntentStatus | None) -> Move | None:
    """What the command does to an intent in that status; None if it cannot."""
    fitting = (each for each in LIFECYCLE if each.command == command and status in each.before)
    return next(fitting, None)


def possible_moves(status: IntentStatus) -> tuple[str, ...]:
    """The commands that an intent in this status can take."""
    return tuple(each.command for each in LIFECYCLE if status in each.before)


def first_step(command: str, status: IntentStatus) -> Move | None:
    """What must be done first so that the command can be given. None if there is no way, or it has
    come already to where the command would lead."""
    wanted = [each for each in LIFECYCLE if each.command == command]
    if any(each.after is status for each in wanted):
        return None
    others = (each for each in possible_moves(status) if each != "abandon")
    steps = [step for each in others if (step := move(each, status))]
    good = {start for each in wanted for start in each.before}
    ends = {each.after for each in wanted}
    for reached in (good, ends):
        if found := next((each for each in steps if each.after in reached), None):
            return found
    return steps[0] if steps else None


def in_order(intents: Iterable[Intent]) -> list[Intent]:
    """Those in progress first, closed ones last."""
    return sorted(intents, key=lambda each: (ORDER.index(each.status), each.id))


def _definition(intent: Intent, policy: Policy) -> dict[str, Any]:
    return {
        "id": intent.id,
        "status": str(intent.status),
        "owned_scope": sorted(intent.owned_scope),
        "constraints": [{"id": each.id, "text": each.text} for each in intent.constraints],
        "acceptance_criteria": [_criterion(each) for each in intent.acceptance_criteria],
        "permissions": {
            "allow": list(intent.permissions.allow),
            "ask": list(intent.permissions.ask),
            "deny": list(intent.permissions.deny),
        },
        "budget": _budget(intent.budget),
        "parent": intent.parent,
        "policy": _policy(policy),
    }


def _criterion(criterion: Criterion) -> dict[str, Any]:
    verify = criterion.verify
    check = verify and {
        "command": verify.command,
        "timeout_s": verify.timeout_s,
        "cwd": verify.cwd,
    }
    return {"id": criterion.id, "text": criterion.text, "verify": check}


def _budget(budget: IntentBudget) -> dict[str, Any]:
    return {
        "max_files": budget.max_files,
        "max_changed_lines": budget.max_changed_lines,
        "max_tool_calls": budget.max_tool_calls,
        "expires_at": budget.expires_at and budget.expires_at.isoformat(),
    }


def _policy(policy: Policy) -> dict[str, Any]:
    return {
        "unknown_targets": policy.unknown_targets,
        "out_of_scope": policy.out_of_scope,
        "deletes": policy.deletes,
        "same_turn_writes": policy.same_turn_writes,
        "commands": {
            "sandbox": policy.sandbox,
            "on_out_of_scope_write": policy.on_out_of_scope_write,
        },
        "overlap": policy.overlap,
        "dependencies": policy.dependencies,
        "stale": policy.stale,
        "protect": sorted(policy.protect),
        "max_in_progress": policy.max_in_progress,
    }
