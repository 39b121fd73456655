"""How each criterion of an intent stands, and the commands that prove it.

A proof counts for the revision it was made under, and no other. Of several, the newest counts.

The commands stand in the repository's intent file. The caller has seen to it that they may run: a
person who closes an intent saw them, and a task runs them with the permission it has.
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.blocks import ToolCall
from rookery.core.command_lines import GitUse
from rookery.core.facts import CriterionCheck, Ending
from rookery.core.limits import KIB
from rookery.engine.ports.actions import Action, Outcome, Permit
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
from rookery.governance.ledger.statistics import CountedRecord
from rookery.governance.ledger.traced import TracedRecord

CHECK_TOOL = "intent_check"
"""How the ledger calls the run of a criterion's command."""

State = Literal["passed", "failed", "manual", "not_run", "not_run_again"]
_OUTCOMES: Mapping[str, State] = {"success": "passed", "failure": "failed"}


class CriterionStanding(Struct, frozen=True, kw_only=True):
    """`not_run_again`: there is a proof, but of an earlier revision."""

    id: str
    criterion: Criterion
    state: State
    at: str = ""


def criterion_id(number: int, criterion: Criterion) -> str:
    """How a criterion is called: as its author did, or by its place, from 1."""
    return criterion.id or f"A{number}"


def check_call_id(intent_id: str, criterion: str) -> str:
    """How the ledger names the run of one criterion's command."""
    return f"check-{intent_id}-{criterion}"


def is_check(record: CountedRecord) -> bool:
    return record.tool_name == CHECK_TOOL and record.kind == "command"


def criteria_standing(
    intent: Intent, policy: Policy, checks: Iterable[TracedRecord]
) -> tuple[CriterionStanding, ...]:
    """`checks` are the runs that the ledger knows of, of this intent or of any, oldest first."""
    known = {each.id: each for each in checks if each.intent_id == intent.id}
    # a task works only under what is in progress, so it is compared as if it still were
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


def to_the_second(time: str) -> str:
    """In which the intent file and the ledger can be compared."""
    return time[:19]


def _standing(
    intent: Intent,
    its_id: str,
    criterion: Criterion,
    closing: Mapping[str, State] | None,
    runs: Mapping[str, TracedRecord],
    earlier: set[str],
) -> CriterionStanding:
    last, call = intent.last_verification, check_call_id(intent.id, its_id)
    found: list[tuple[str, int, State, str]] = []
    if last and closing is not None and (state := _closed_as(its_id, criterion, closing)):
        found.append((to_the_second(last.at), 0, state, last.at))
    if criterion.verify and (run := runs.get(call)):
        found.append((to_the_second(run.time), 1, _OUTCOMES[run.outcome], run.time))
    if found:
        _, _, state, at = max(found)
        return CriterionStanding(id=its_id, criterion=criterion, state=state, at=at)
    if criterion.verify is None:
        return CriterionStanding(id=its_id, criterion=criterion, state="manual")
    proved = call in earlier or (last is not None and closing is None and its_id in last.criteria)
    state = "not_run_again" if proved and intent.revision > 1 else "not_run"
    return CriterionStanding(id=its_id, criterion=criterion, state=state)


def _closed_as(its_id: str, criterion: Criterion, closing: Mapping[str, State]) -> State | None:
    if its_id in closing:
        return closing[its_id]
    return closing.get("") if criterion.verify else None


def _last_closing(intent: Intent, known: Mapping[str, TracedRecord]) -> Mapping[str, State] | None:
    """What the last closing found, by criterion, and under "" of the checks it does not name; None
    if it was of an earlier revision, or there was none."""
    last = intent.last_verification
    if last is None:
        return None
    run = known.get(last.trace_id)
    if run and run.intent_rev is not None:
        current = run.intent_rev == intent.revision
    else:
        current = not any(at >= to_the_second(last.at) for at in _reopened(intent))
    if not current:
        return None
    held: dict[str, State] = dict.fromkeys(last.criteria, "passed")
    return held if last.ok else {**held, "": "failed"}


def _reopened(intent: Intent) -> list[str]:
    """When it was taken up again after it had been completed: each time the revision rose."""
    changes = intent.status_history
    return [
        to_the_second(after.at)
        for before, after in pairwise(changes)
        if before.status == IntentStatus.COMPLETED and after.status == IntentStatus.IN_PROGRESS
    ]


Act = Callable[[ToolCall, Action], Awaitable[Outcome]]
_MARKS = {"passed": "✓", "failed": "✗", "not_run": "?", "manual": "?"}
LONGEST_OUTPUT = 2_000
LONGEST_LINE = 200
LARGEST_TAIL = 64 * KIB
LAST_LINES = 20


class CheckResult(Struct, frozen=True, kw_only=True):
    """`exit_code` is None if the command never ran; then `tail` says why."""

    ok: bool
    exit_code: int | None
    seconds: float
    tail: tuple[str, ...] = ()
    timed_out: bool = False


class _LastOutput:
    """Takes a command's output, and remembers only the end of it."""

    id = ""

    def __init__(self) -> None:
        self.size = 0
        self._data = b""

    def write(self, data: bytes) -> None:
        self.size += len(data)
        self._data = (self._data + data)[-LARGEST_TAIL:]

    def close(self) -> None:
        pass

    def last_lines(self) -> tuple[str, ...]:
        lines = self._data.decode("utf-8", "replace").splitlines()
        return tuple(lines[-LAST_LINES:])


async def checked(
    intent: Intent,
    layout: Layout,
    act: Act,
    context: Callable[[ToolCall], ToolContext],
    tell: Callable[[str], object],
) -> tuple[CriterionCheck, ...]:
    """Each criterion with what is known of it. What may not be run is not taken for true."""
    checks: list[CriterionCheck] = []
    for number, criterion in enumerate(intent.acceptance_criteria, start=1):
        name = criterion_id(number, criterion)
        if criterion.verify is None:
            checks.append(CriterionCheck(id=name, text=criterion.text, state="manual"))
            continue
        tell(f"Checking {name}: {criterion.verify.command}")
        checks.append(await _check(intent, name, criterion, criterion.verify, layout, act, context))
    return tuple(checks)


def told(intent_id: str, checks: Sequence[CriterionCheck]) -> str:
    """For whoever has to believe it or not."""
    return "\n".join([f"Acceptance criteria of {intent_id}:", *map(_line, checks)])


def failures_told(checks: Sequence[CriterionCheck]) -> str:
    """For the model, which said that it was done."""
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
    """For a person who has seen the command. `shell` is that of the layout's workspace."""
    try:
        permit = _permit(verify, layout, confined=confined)
    except ToolError as error:
        return CheckResult(ok=False, exit_code=None, seconds=0.0, tail=(str(error),))
    return await run_check(permit, shell, seconds=verify.timeout_s)


async def run_check(permit: Permit, shell: Shell, *, seconds: float) -> CheckResult:
    """The permitted command is stopped with all it started when its time is over, and when whoever
    waits for it is cancelled."""
    kept = _LastOutput()
    began = time.monotonic()
    try:
        async with shell.run(permit, seconds=seconds, keep=kept) as running:
            end = await running.end()
    except ToolError as error:
        return CheckResult(
            ok=False, exit_code=None, seconds=time.monotonic() - began, tail=(str(error),)
        )
    return CheckResult(
        ok=end.exit_code == 0 and not (end.timed_out or end.flooded or end.stopped),
        exit_code=end.exit_code,
        seconds=time.monotonic() - began,
        tail=kept.last_lines(),
        timed_out=end.timed_out,
    )


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
    """Where it runs, as permits name it. One that leads elsewhere is asked about like any other."""
    at = (layout.root / verify.cwd).resolve()
    if not at.is_relative_to(layout.workspace):
        return str(at)
    relative = at.relative_to(layout.workspace).as_posix()
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
        cwd=_below(folder, layout.workspace),
        confined=confined,
        git=GitUse.NONE,
    )


def _below(folder: Path, workspace: Path) -> str:
    relative = folder.relative_to(workspace.resolve()).as_posix()
    return "" if relative == "." else relative
