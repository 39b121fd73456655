"""Tools that users and projects define: programs that run as commands do.

A call is one command line, which hands the arguments to the program as JSON on its standard
input. The gate, the sandbox and all rules see exactly that line.
"""

import json
import shlex
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Protocol

import msgspec
from msgspec.structs import replace

from rookery.core.blocks import ToolCall
from rookery.core.facts import Ending
from rookery.core.rulings import Ruling, ask
from rookery.engine.ports import Action, Outcome, Permit, ToolContext, ToolGroup
from rookery.errors import Denied, ToolError
from rookery.tools.command_texts import first_line
from rookery.tools.custom.definition import ToolDefinition, ToolParameter
from rookery.tools.execute_command import TOOL, ExecuteCommandArgs
from rookery.tools.threads import beside

PAYLOAD = "customTool"
CHANGED = "The tool's files have changed since the call was checked. It was not run."
_TYPES: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list[Any],
    "object": dict[str, Any],
}


class Agreement(Protocol):
    """What a person has agreed to of one tool."""

    def fingerprint(self) -> str:
        """Of the tool's files as they are now. Raises `ToolError` if it must not run."""
        ...

    def uncovered(self) -> str:
        """Why a person has to agree to every call; empty if an approval can last."""
        ...

    def missing(self, fingerprint: str) -> str:
        """Why a person has to agree first; empty if nobody has to."""
        ...

    def agree(self, fingerprint: str) -> None: ...


class UsersWord:
    """The agreement to a tool that is the user's own."""

    def fingerprint(self) -> str:
        return ""

    def uncovered(self) -> str:
        return ""

    def missing(self, fingerprint: str) -> str:
        return ""

    def agree(self, fingerprint: str) -> None:
        pass


class CustomTool:
    group: ClassVar[ToolGroup] = ToolGroup.COMMAND

    def __init__(
        self, definition: ToolDefinition, words: Sequence[str], agreement: Agreement
    ) -> None:
        self.name = definition.name
        self.description = definition.description
        self.arguments = _arguments(definition)
        self._program = shlex.join(words)
        self._agreement = agreement

    async def prepare(self, args: msgspec.Struct, ctx: ToolContext) -> Action:
        said = json.dumps(msgspec.to_builtins(args), ensure_ascii=False)
        line = f"printf %s {shlex.quote(said)} | {self._program}"
        run = await TOOL.prepare(ExecuteCommandArgs(command=line), ctx)
        seen = await beside(self._agreement.fingerprint)
        uncovered = await beside(self._agreement.uncovered)
        missing = uncovered or await beside(lambda: self._agreement.missing(seen))

        async def perform(permit: Permit) -> Outcome:
            await self._insist(seen, missing, permit)
            return _as_result(await run.perform(permit))

        return replace(
            run,
            title=f"Use the tool {self.name}: {first_line(self._program)}",
            perform=perform,
            notes=[f"tool: {self.name}", f"arguments: {said}", *run.notes],
            payload={
                "tool": PAYLOAD,
                "name": self.name,
                "missing": missing,
                "once": bool(uncovered),
            },
        )

    async def _insist(self, seen: str, missing: str, permit: Permit) -> None:
        """Raises `ToolError` unless the tool is what was looked at, and a person agreed to it."""
        if await beside(self._agreement.fingerprint) != seen:
            raise ToolError(f"{CHANGED} Call it again to have it checked.")
        if not missing:
            return
        if not permit.by_hand:
            raise Denied(f"{missing} It was not run.")
        self._agreement.agree(seen)


class CustomToolGuard:
    """A hook. It has a person asked about a tool that nobody has agreed to as it is."""

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        missing = action.payload.get("missing")
        if action.payload.get("tool") != PAYLOAD or not missing:
            return Ruling()
        covers = "this call only" if action.payload.get("once") else "the tool as it is now"
        return ask(f"{missing} Your approval covers {covers}.")

    async def after(self, call: ToolCall, action: Action, outcome: Outcome) -> None:
        pass


def _as_result(outcome: Outcome) -> Outcome:
    return replace(outcome, ending=Ending.FAILED) if outcome.exit_code else outcome


def _arguments(definition: ToolDefinition) -> type[msgspec.Struct]:
    return msgspec.defstruct(
        definition.name,
        [_field(each) for each in definition.parameters],
        forbid_unknown_fields=True,
        omit_defaults=True,
        kw_only=True,
    )


def _field(parameter: ToolParameter) -> Any:
    kind = _TYPES[parameter.type]
    meta = msgspec.Meta(description=parameter.description or None)
    if parameter.required:
        return parameter.name, Annotated[kind, meta]
    return parameter.name, Annotated[kind | None, meta], None
