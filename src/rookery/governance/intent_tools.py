"""The tools by which a model selects an intent and asks for more scope.

The tools only say what is wanted; the functions beside them decide, and put refusals on record.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec.structs import replace

from rookery.core.blocks import ToolCall
from rookery.core.modes import EXPAND, SELECT
from rookery.core.refusals import Refusal
from rookery.core.tool_traits import ToolGroup
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.tool import Tool, ToolContext
from rookery.errors import BadArguments, Denied, RookeryError, ToolError
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

    def __init__(
        self,
        pattern: Callable[[Sequence[str]], str],
        expand: Callable[[str, str], Awaitable[str]],
    ) -> None:
        """`pattern` covers the paths, and raises `ToolError` if none may; `expand` adds it."""
        self._pattern = pattern
        self._expand = expand

    async def prepare(self, args: RequestScopeExpansionArgs, ctx: ToolContext) -> Action:
        if not args.paths or not args.reason.strip():
            raise BadArguments("request_scope_expansion needs paths and a reason.")
        pattern = self._pattern(args.paths)

        async def perform(permit: Permit) -> Outcome:
            return Outcome(text=await self._expand(pattern, ctx.call_id))

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

    def __init__(self, select: Callable[[str, str], Awaitable[str]]) -> None:
        """`select` is given the id and the call's own id, and answers with the context; it raises
        `Denied`."""
        self._select = select

    async def prepare(self, args: SelectActiveIntentArgs, ctx: ToolContext) -> Action:
        async def perform(permit: Permit) -> Outcome:
            return Outcome(text=await self._select(args.intent_id, ctx.call_id))

        return Action(
            title=f"Work for intent {args.intent_id}",
            perform=perform,
            payload={"tool": "selectActiveIntent", "intentId": args.intent_id},
        )


def intent_tools(task: GovernanceHook) -> dict[str, Tool[Any]]:
    """For one task, by name."""
    made = (
        SelectActiveIntent(partial(select, task)),
        RequestScopeExpansion(partial(pattern_for, task), partial(widen, task)),
    )
    return {tool.name: tool for tool in made}


async def select(task: GovernanceHook, intent_id: str, call_id: str) -> str:
    """The context of the intent. Raises `Denied`; then the one before still holds."""
    wanted = wanted_id({"intent_id": intent_id})
    found = await choose(task.project, task.task_id, wanted, by="model")
    if isinstance(found, Refusal):
        await task.note_refusal(ToolCall(id=call_id, name=SELECT), found)
        raise denial(found, SELECT, call_id)
    if task.in_force.shown not in ("", found.fact.digest):
        changed = Refusal(
            code="REQ-012",
            message=f"{found.fact.intent_id} changed after the user reviewed it. Select it again.",
            intent_id=found.fact.intent_id,
        )
        await task.note_refusal(ToolCall(id=call_id, name=SELECT), changed)
        raise denial(changed, SELECT, call_id)
    await task.adopt(found, call_id)
    notes = "".join(f"{note}\n" for note in found.notes)
    return f"{notes}{found.context}"


def pattern_for(task: GovernanceHook, paths: Sequence[str]) -> str:
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


async def widen(task: GovernanceHook, pattern: str, call_id: str) -> str:
    active = task.in_force.definition
    if active is None:
        raise ToolError("There is no active intent to extend.")
    try:
        await task.in_force.expand(active.intent.id, pattern, call_id)
    except RookeryError as error:
        raise ToolError(str(error)) from error
    return f"The user agreed: {active.intent.id} owns {pattern} now."


def denial(refusal: Refusal, tool: str, call_id: str) -> Denied:
    said = replace(refusal, tool=tool, tool_use_id=call_id)
    text = json.dumps(said.to_json(), ensure_ascii=False)
    return Denied(text, code=refusal.code, retryable=refusal.retryable)
