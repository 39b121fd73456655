"""Intents and the policy of a project, as parsed values.

Invalid input is reported in `IntentFile.problems`; the values here are always usable. `LIFECYCLE`
lists the changes of status; only the user makes them, an agent can only suggest one.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from typing import Any, Literal

from msgspec import Struct, to_builtins

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
    """The shell command that checks a criterion."""

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
    """Rules as written; parsed by `permission_rules`."""

    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class IntentBudget(Struct, frozen=True, kw_only=True):
    """Limits of an intent; None means no limit."""

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
    """Rules of the project for all intents. The first value of each field is the default."""

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
    """The parsed file. An intent with errors is listed but cannot be selected; with an error in
    the file as a whole, none can."""

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
        """Ids of the intents that have errors."""
        return frozenset(each.intent_id for each in self.errors if each.intent_id)

    def find(self, wanted: str) -> Intent | None:
        """Find an intent by id, exactly or else ignoring case."""
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
        """Dependencies of the intent that are not completed."""
        found = {each: self.find(each) for each in intent.depends_on}
        done = IntentStatus.COMPLETED
        return tuple(each for each, its in found.items() if its is None or its.status is not done)


class Move(Struct, frozen=True):
    """A change of status. None in `before` means the intent does not exist yet."""

    command: str
    before: tuple[IntentStatus | None, ...]
    after: IntentStatus
    needs_scope: bool = False
    needs_dependencies: bool = False
    raises_revision: bool = False


LIFECYCLE: tuple[Move, ...] = (
    Move("new", (None,), IntentStatus.PENDING),
    Move(
        "start",
        (IntentStatus.PENDING, IntentStatus.PAUSED),
        IntentStatus.IN_PROGRESS,
        needs_scope=True,
        needs_dependencies=True,
    ),
    Move("pause", (IntentStatus.IN_PROGRESS,), IntentStatus.PAUSED),
    Move("close", (IntentStatus.IN_PROGRESS,), IntentStatus.COMPLETED),
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


def timestamp(at: datetime) -> str:
    """A time as the intent file spells it."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def expired(intent: Intent, now: datetime) -> bool:
    end = intent.budget.expires_at
    return end is not None and end <= now


def selectable(intent: Intent, now: datetime) -> bool:
    return intent.status is IntentStatus.IN_PROGRESS and not expired(intent, now)


@lru_cache(maxsize=256)
def digest(intent: Intent, policy: Policy) -> str:
    """Hash of the intent's definition and the policy, to detect changes. Hexadecimal."""
    from rookery.governance.ledger.verify_ledger import canonical

    return sha256(canonical(_definition(intent, policy))).hexdigest()


def move(command: str, status: IntentStatus | None) -> Move | None:
    """The move a command makes from a status, or None if it is not possible."""
    fitting = (each for each in LIFECYCLE if each.command == command and status in each.before)
    return next(fitting, None)


def possible_moves(status: IntentStatus) -> tuple[str, ...]:
    """The commands that are possible in a status."""
    return tuple(each.command for each in LIFECYCLE if status in each.before)


def first_step(command: str, status: IntentStatus) -> Move | None:
    """The move to make before the command is possible. None if there is none, or the intent
    already has the status the command leads to."""
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


def sort_intents(intents: Iterable[Intent]) -> list[Intent]:
    """Sort by status, in progress first and closed last, then by id."""
    return sorted(intents, key=lambda each: (ORDER.index(each.status), each.id))


def _definition(intent: Intent, policy: Policy) -> dict[str, Any]:
    return {
        "id": intent.id,
        "status": str(intent.status),
        "owned_scope": sorted(intent.owned_scope),
        "constraints": to_builtins(intent.constraints),
        "acceptance_criteria": to_builtins(intent.acceptance_criteria),
        "permissions": to_builtins(intent.permissions),
        "budget": {
            **to_builtins(intent.budget),
            "expires_at": intent.budget.expires_at and intent.budget.expires_at.isoformat(),
        },
        "parent": intent.parent,
        "policy": _policy(policy),
    }


def _policy(policy: Policy) -> dict[str, Any]:
    fields = to_builtins(policy)
    commands = {name: fields.pop(name) for name in ("sandbox", "on_out_of_scope_write")}
    return {**fields, "commands": commands, "protect": sorted(policy.protect)}
