"""Acceptance criteria: their state, and the commands that check them.

A result counts only for the revision it was obtained under; the newest one wins.

The commands come from the repository's intent file. The caller must have made sure that they may
run: a person who closes an intent has seen them, and a task runs them with its own permissions.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import pairwise
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.blocks import ToolCall
from rookery.core.facts import CriterionCheck, Ending
from rookery.engine.ports.actions import Action, GitUse, Outcome, Permit
from rookery.engine.ports.checks import CheckResult, run_check
from rookery.engine.ports.tool import ToolContext
from rookery.engine.ports.workspace import Shell
from rookery.errors import ToolError
from rookery.governance.intents.intent import (
    Criterion,
    Intent,
    IntentStatus,
    Policy,
    Verify,
    digest,
)
from rookery.governance.layout import Layout
from rookery.governance.ledger.traced import TracedRecord

CHECK_TOOL = "intent_check"
"""Tool name of criterion checks in the ledger."""

State = Literal["passed", "failed", "manual", "not_run", "not_run_again"]
_OUTCOMES: Mapping[str, State] = {"success": "passed", "failure": "failed"}


class CriterionStanding(Struct, frozen=True, kw_only=True):
    """State of a criterion. `not_run_again`: there is a result, but for an earlier revision."""

    id: str
    criterion: Criterion
    state: State
    at: str = ""


def criterion_id(number: int, criterion: Criterion) -> str:
    """The criterion's own id, or one from its position, from 1."""
    return criterion.id or f"A{number}"


def check_call_id(intent_id: str, criterion: str) -> str:
    """Call id of a criterion's check in the ledger."""
    return f"check-{intent_id}-{criterion}"


def is_check(record: TracedRecord) -> bool:
    return record.tool_name == CHECK_TOOL and record.kind == "command"


def criteria_standing(
    intent: Intent, policy: Policy, checks: Iterable[TracedRecord]
) -> tuple[CriterionStanding, ...]:
    """The state of each criterion. `checks` are recorded runs, of any intent, oldest first."""
    known = {each.id: each for each in checks if each.intent_id == intent.id}
    # checks ran while the intent was in progress, so compare with that digest
    worded = digest(replace(intent, status=IntentStatus.IN_PROGRESS), policy)
    runs = {
        each.tool_use_id: each
        for each in known.values()
        if each.outcome in _OUTCOMES
        and each.intent_rev in (None, intent.revision)
        and each.intent_digest in ("", worded)
    }
    earlier = {
        each.tool_use_id
        for each in known.values()
        if each.outcome in _OUTCOMES and (each.intent_rev or intent.revision) < intent.revision
    }
    closing = _last_closing(intent, known)
    return tuple(
        _standing(intent, criterion_id(number, each), each, closing, runs, earlier)
        for number, each in enumerate(intent.acceptance_criteria, start=1)
    )


def cut_to_seconds(time: str) -> str:
    """Cut a time to seconds, the precision that the intent file and the ledger share."""
    return time[:19]


def _standing(
    intent: Intent,
    name: str,
    criterion: Criterion,
    closing: Mapping[str, State] | None,
    runs: Mapping[str, TracedRecord],
    earlier: set[str],
) -> CriterionStanding:
    last, call = intent.last_verification, check_call_id(intent.id, name)
    found: list[tuple[str, int, State, str]] = []
    if last and closing is not None and (state := _closing_state(name, criterion, closing)):
        found.append((cut_to_seconds(last.at), 0, state, last.at))
    if criterion.verify and (run := runs.get(call)):
        found.append((cut_to_seconds(run.time), 1, _OUTCOMES[run.outcome], run.time))
    if found:
        _, _, state, at = max(found)
        return CriterionStanding(id=name, criterion=criterion, state=state, at=at)
    if criterion.verify is None:
        return CriterionStanding(id=name, criterion=criterion, state="manual")
    proved = call in earlier or (last is not None and closing is None and name in last.criteria)
    state = "not_run_again" if proved and intent.revision > 1 else "not_run"
    return CriterionStanding(id=name, criterion=criterion, state=state)


def _closing_state(name: str, criterion: Criterion, closing: Mapping[str, State]) -> State | None:
    if name in closing:
        return closing[name]
    return closing.get("") if criterion.verify else None


def _last_closing(intent: Intent, known: Mapping[str, TracedRecord]) -> Mapping[str, State] | None:
    """Results of the last closing by criterion id, and under "" for checks it does not name;
    None if it was for an earlier revision, or there was none."""
    last = intent.last_verification
    if last is None:
        return None
    run = known.get(last.trace_id)
    if run and run.intent_rev is not None:
        current = run.intent_rev == intent.revision
    else:
        current = not any(at >= cut_to_seconds(last.at) for at in _reopen_times(intent))
    if not current:
        return None
    results: dict[str, State] = dict.fromkeys(last.criteria, "passed")
    return results if last.ok else {**results, "": "failed"}


def _reopen_times(intent: Intent) -> list[str]:
    """The times when the intent was reopened after completion; each raised the revision."""
    changes = intent.status_history
    return [
        cut_to_seconds(after.at)
        for before, after in pairwise(changes)
        if before.status == IntentStatus.COMPLETED and after.status == IntentStatus.IN_PROGRESS
    ]


Act = Callable[[ToolCall, Action], Awaitable[Outcome]]
_MARKS = {"passed": "✓", "failed": "✗", "not_run": "?", "manual": "?"}
LONGEST_OUTPUT = 2_000
LONGEST_LINE = 200


async def check_criteria(
    intent: Intent,
    layout: Layout,
    act: Act,
    context: Callable[[ToolCall], ToolContext],
    report: Callable[[str], object],
) -> tuple[CriterionCheck, ...]:
    """Check each criterion. One whose command may not run does not count as passed."""
    checks: list[CriterionCheck] = []
    for number, criterion in enumerate(intent.acceptance_criteria, start=1):
        name = criterion_id(number, criterion)
        if criterion.verify is None:
            checks.append(CriterionCheck(id=name, text=criterion.text, state="manual"))
            continue
        report(f"Checking {name}: {criterion.verify.command}")
        checks.append(await _check(intent, name, criterion, criterion.verify, layout, act, context))
    return tuple(checks)


def format_results(intent_id: str, checks: Sequence[CriterionCheck]) -> str:
    """Format the results for the user."""
    return "\n".join([f"Acceptance criteria of {intent_id}:", *map(_line, checks)])


def format_failures(checks: Sequence[CriterionCheck]) -> str:
    """Format the failed criteria for the model."""
    parts = [
        f"{check.id} ({check.command}) failed:\n{check.output}"
        for check in checks
        if check.state == "failed"
    ]
    return (
        "[automatic] The task was not offered as complete, because these acceptance criteria "
        "failed. Fix that, then say again that it is done.\n" + "\n".join(parts)
    )


async def check_criterion(
    verify: Verify, layout: Layout, shell: Shell, *, confined: bool = True
) -> CheckResult:
    """Run a check for a person who has seen the command, in the shell of the layout's workspace."""
    try:
        permit = _permit(verify, layout, confined=confined)
    except ToolError as error:
        return CheckResult(ok=False, exit_code=None, seconds=0.0, tail=(str(error),))
    return await run_check(permit, shell, seconds=verify.timeout_s)


async def _check(
    intent: Intent,
    name: str,
    criterion: Criterion,
    verify: Verify,
    layout: Layout,
    act: Act,
    context: Callable[[ToolCall], ToolContext],
) -> CriterionCheck:
    call = ToolCall(id=check_call_id(intent.id, name), name=CHECK_TOOL)
    ctx = context(call)
    found: list[CheckResult] = []

    async def perform(permit: Permit) -> Outcome:
        result = await run_check(permit, ctx.shell, seconds=verify.timeout_s)
        found.append(result)
        text = "\n".join(result.tail)
        ending = Ending.DONE if result.ok else Ending.FAILED
        return Outcome(text=text, ending=ending, exit_code=result.exit_code)

    folder = _folder(verify, layout)
    action = Action(
        title=f"Check criterion {name} of {intent.id}",
        perform=perform,
        command=verify.command,
        cwd=folder,
        where=ctx.shell.describe(confined=True),
        judgement=ctx.judge(verify.command, folder),
        notes=()
        if criterion.text == verify.command
        else (f"{intent.id} uses this to check: {criterion.text}",),
    )
    try:
        await act(call, action)
    except ToolError as error:
        why = str(error)[:LONGEST_OUTPUT]
        return _not_run(name, criterion, verify, why)
    result = found[0]
    if result.exit_code is None:
        return _not_run(name, criterion, verify, "\n".join(result.tail))
    late = [f"It was stopped after {verify.timeout_s} s."] if result.timed_out else []
    return CriterionCheck(
        id=name,
        text=criterion.text,
        state="passed" if result.ok else "failed",
        command=verify.command,
        seconds=round(result.seconds, 3),
        output="" if result.ok else "\n".join([*result.tail, *late])[-LONGEST_OUTPUT:],
    )


def _folder(verify: Verify, layout: Layout) -> str:
    """Folder for the permit. One outside the workspace stays absolute, so that the user is
    asked."""
    at, workspace = (layout.root / verify.cwd).resolve(), layout.workspace.resolve()
    if not at.is_relative_to(workspace):
        return str(at)
    relative = at.relative_to(workspace).as_posix()
    return "" if relative == "." else relative


def _not_run(name: str, criterion: Criterion, verify: Verify, why: str) -> CriterionCheck:
    return CriterionCheck(
        id=name, text=criterion.text, state="not_run", command=verify.command, output=why
    )


def _line(check: CriterionCheck) -> str:
    mark = _MARKS[check.state]
    match check.state:
        case "passed":
            return f"  {mark} {check.id} passed ({check.seconds:.1f} s): {check.text}"
        case "failed":
            how = "" if check.command == check.text else f" ({check.command})"
            lines = check.output.strip().splitlines()
            last = f"\n      {lines[-1].strip()[:LONGEST_LINE]}" if lines else ""
            return f"  {mark} {check.id} FAILED{how}: {check.text}{last}"
        case _:
            return f"  {mark} {check.id} claimed, not checked: {check.text}"


def _permit(verify: Verify, layout: Layout, *, confined: bool) -> Permit:
    folder = (layout.root / verify.cwd).resolve()
    if not folder.is_relative_to(layout.root.resolve()):
        raise ToolError(f"{verify.cwd} is outside the folder that the intents govern.")
    return Permit(
        sha256(f"{verify.command}\n{folder}".encode()).hexdigest(),
        command=verify.command,
        cwd=_folder(verify, layout),
        confined=confined,
        git=GitUse.NONE,
    )
