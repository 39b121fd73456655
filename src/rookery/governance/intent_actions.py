"""What a model can do about its intent: select one, ask for more scope."""

import json
from collections.abc import Sequence

from msgspec.structs import replace

from rookery.core.blocks import ToolCall
from rookery.core.refusals import Refusal
from rookery.errors import Denied, RookeryError, ToolError
from rookery.governance.governed_task import GovernedTask
from rookery.governance.intents.intent_choice import choose
from rookery.governance.intents.scope_expansion import expand
from rookery.governance.intents.selection import wanted_id
from rookery.governance.scope.locations import find_location
from rookery.governance.scope.scope_suggestions import smallest_pattern
from rookery.governance.scope.scope_verdict import Op, Outside, PathFinding, always_protected
from rookery.governance.scope.touched_paths import SELECT


async def select(task: GovernedTask, intent_id: str, call_id: str) -> str:
    """The context of the intent. Raises `Denied`; then the one before still holds."""
    wanted = wanted_id({"intent_id": intent_id})
    found = await choose(task.project, task.task_id, wanted, by="model")
    if isinstance(found, Refusal):
        await task.note_refusal(ToolCall(id=call_id, name=SELECT), found)
        raise denial(found, SELECT, call_id)
    if task.in_force.shown not in ("", found.fact.digest):
        changed = Refusal(
            code="REQ-012",
            message=f"{found.fact.intent_id} was changed after the user had looked at it. Select "
            "it again.",
            intent_id=found.fact.intent_id,
        )
        await task.note_refusal(ToolCall(id=call_id, name=SELECT), changed)
        raise denial(changed, SELECT, call_id)
    await task.adopt(found, call_id)
    notes = "".join(f"{note}\n" for note in found.notes)
    return f"{notes}{found.context}"


def pattern_for(task: GovernedTask, paths: Sequence[str]) -> str:
    """The smallest pattern for some paths. Raises `ToolError` for what no intent can own."""
    layout = task.project.layout
    named: list[str] = []
    for path in paths:
        found = find_location(layout, path, Op.MODIFY)
        if isinstance(found, PathFinding) or found.outside is not Outside.NO or not found.governed:
            raise ToolError(f"{path!r} lies where no intent of this workspace can reach.")
        if why := always_protected(found.named) or always_protected(found.real):
            raise ToolError(f"{path!r} can never be part of a scope: {why}.")
        if found.named != found.real:
            raise ToolError(f"{path!r} is a link. Name {found.real!r} instead.")
        named.append(found.named)
    return smallest_pattern(named)


async def widen(task: GovernedTask, pattern: str, call_id: str) -> str:
    active = task.in_force.definition
    if active is None:
        raise ToolError("There is no active intent to extend.")
    try:
        await expand(task.in_force, active.intent.id, pattern, call_id)
    except RookeryError as error:
        raise ToolError(str(error)) from error
    return f"The user agreed: {active.intent.id} owns {pattern} now."


def denial(refusal: Refusal, tool: str, call_id: str) -> Denied:
    said = replace(refusal, tool=tool, tool_use_id=call_id)
    text = json.dumps(said.to_json(), ensure_ascii=False)
    return Denied(text, code=refusal.code, retryable=refusal.retryable)
