"""Work that is said to be done: the acceptance criteria are run, not believed."""

from collections.abc import Awaitable, Callable, Sequence

from rookery.core.blocks import ToolCall
from rookery.core.facts import CriterionCheck, Ending
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.tool import ToolContext
from rookery.errors import ToolError
from rookery.governance.criteria.criteria_checks import CheckResult, run_check
from rookery.governance.criteria.criteria_standing import CHECK_TOOL, check_call_id, criterion_id
from rookery.governance.intents.intent import Criterion, Intent, Verify
from rookery.governance.layout import Layout

Act = Callable[[ToolCall, Action], Awaitable[Outcome]]

_MARKS = {"passed": "✓", "failed": "✗", "not_run": "?", "manual": "?"}
LONGEST_OUTPUT = 2_000
LONGEST_LINE = 200


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
        else (f"{intent.id} says that this proves: {criterion.text}",),
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


def told(intent_id: str, checks: Sequence[CriterionCheck]) -> str:
    """For whoever has to believe it or not."""
    return "\n".join([f"Acceptance criteria of {intent_id}:", *map(_line, checks)])


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
