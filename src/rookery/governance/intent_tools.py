"""The tools with which a model selects an intent and requests more scope.

The tools only describe the request; the functions below decide and record refusals.
"""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import msgspec

from rookery.core.blocks import ToolCall
from rookery.core.modes import EXPAND, SELECT
from rookery.core.refusals import Refusal
from rookery.core.tool_traits import ToolGroup
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.tool import Tool, ToolContext
from rookery.errors import BadArguments, RookeryError, ToolError
from rookery.governance.hook import GovernanceHook
from rookery.governance.intents.selection import choose, wanted_id
from rookery.governance.scope.locations import find_location
from rookery.governance.scope.scope_verdict import (
    Op,
    Outside,
    PathFinding,
    always_protected,
    smallest_pattern,
)


class RequestScopeExpansionArgs(msgspec.Struct, forbid_unknown_fields=True):
    paths: Annotated[
        tuple[str, ...], msgspec.Meta(description="The files that must be changed, and no more.")
    ]
    reason: Annotated[str, msgspec.Meta(description="Why the intent cannot be met without them.")]


class RequestScopeExpansion:
    name: ClassVar[str] = EXPAND
    description: ClassVar[str] = (
        "Ask the user to add files to the scope of the selected intent, without changing them yet."
    )
    arguments: ClassVar[type[msgspec.Struct]] = RequestScopeExpansionArgs
    group: ClassVar[ToolGroup] = ToolGroup.ALWAYS

    def __init__(self, task: GovernanceHook) -> None:
        self._task = task

    async def prepare(self, args: RequestScopeExpansionArgs, ctx: ToolContext) -> Action:
        if not args.paths or not args.reason.strip():
            raise BadArguments("request_scope_expansion needs paths and a reason.")
        pattern = pattern_for(self._task, args.paths)

        async def perform(permit: Permit) -> Outcome:
            active = self._task.active.definition
            if active is None:
                raise ToolError("There is no active intent to extend.")
            try:
                await self._task.active.expand(active.intent.id, pattern, ctx.call_id)
            except RookeryError as error:
                raise ToolError(str(error)) from error
            return Outcome(text=f"The user agreed: {active.intent.id} owns {pattern} now.")

        return Action(
            title=f"Add {pattern} to the scope",
            perform=perform,
            notes=(f"reason: {args.reason.strip()}",),
            payload={
                "tool": "requestScopeExpansion",
                "paths": list(args.paths),
                "pattern": pattern,
                "reason": args.reason,
            },
        )


class SelectActiveIntentArgs(msgspec.Struct, forbid_unknown_fields=True):
    intent_id: Annotated[
        str, msgspec.Meta(description="One of the ids that you are given, never an invented one.")
    ] = ""


class SelectActiveIntent:
    name: ClassVar[str] = SELECT
    description: ClassVar[str] = (
        "Select the intent that you work for. Nothing can be changed and no command be run before; "
        "reading is free. Call it alone, read the context it returns, and act in your next answer. "
        "If no intent fits, ask the user."
    )
    arguments: ClassVar[type[msgspec.Struct]] = SelectActiveIntentArgs
    group: ClassVar[ToolGroup] = ToolGroup.ALWAYS

    def __init__(self, task: GovernanceHook) -> None:
        self._task = task

    async def prepare(self, args: SelectActiveIntentArgs, ctx: ToolContext) -> Action:
        async def perform(permit: Permit) -> Outcome:
            return Outcome(text=await select(self._task, args.intent_id, ctx.call_id))

        return Action(
            title=f"Work for intent {args.intent_id}",
            perform=perform,
            payload={"tool": "selectActiveIntent", "intentId": args.intent_id},
        )


def intent_tools(task: GovernanceHook) -> dict[str, Tool[Any]]:
    """The tools of one task, by name."""
    return {SELECT: SelectActiveIntent(task), EXPAND: RequestScopeExpansion(task)}


async def select(task: GovernanceHook, intent_id: str, call_id: str) -> str:
    """Select an intent and return its context. Raises `Denied`; the previous one stays active."""
    wanted = wanted_id({"intent_id": intent_id})
    call = ToolCall(id=call_id, name=SELECT)
    found = await choose(task.project, task.task_id, wanted, by="model")
    if isinstance(found, Refusal):
        await task.deny(call, found)
    if task.active.reviewed_digest not in ("", found.fact.digest):
        changed = Refusal(
            code="REQ-012",
            message=f"{found.fact.intent_id} changed after the user reviewed it. Select it again.",
            intent_id=found.fact.intent_id,
        )
        await task.deny(call, changed)
    await task.adopt(found, call_id)
    notes = "".join(f"{note}\n" for note in found.notes)
    return f"{notes}{found.context}"


def pattern_for(task: GovernanceHook, paths: Sequence[str]) -> str:
    """The smallest pattern for the paths. Raises `ToolError` for a path no intent can own."""
    layout = task.project.layout
    named: list[str] = []
    for path in paths:
        found = find_location(layout, path, Op.MODIFY)
        if isinstance(found, PathFinding) or found.outside is not Outside.NO or not found.governed:
            raise ToolError(f"{path!r} is outside what an intent of this workspace can cover.")
        if why := always_protected(found.named) or always_protected(found.real):
            raise ToolError(f"{path!r} can never be part of a scope: {why}.")
        if found.named != found.real:
            raise ToolError(f"{path!r} is a link. Name {found.real!r} instead.")
        named.append(found.named)
    return smallest_pattern(named)
