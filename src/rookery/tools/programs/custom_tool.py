"""Tools that users and projects define: programs that run as commands.

A definition names the program and its arguments. A call is one command line that passes the
arguments to the program as JSON on standard input. The gate, the sandbox and all rules see exactly
that line.
"""

import json
import re
import shlex
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rookery.core.asks import Ruling, ask
from rookery.core.blocks import ToolCall
from rookery.core.facts import Ending
from rookery.core.text.characters import marked
from rookery.core.tool_traits import ToolGroup, known_tools
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.hooks import Hook
from rookery.engine.ports.tool import ToolContext
from rookery.errors import Denied, ToolError
from rookery.tools.commands import ExecuteCommand, ExecuteCommandArgs, first_line
from rookery.tools.file_changes import in_thread

LONGEST_DESCRIPTION = 2_000
MOST_PARAMETERS = 30

_NAME = re.compile(r"[a-z][a-z0-9_]{1,40}")
_PARAMETER = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,40}")
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


class ToolParameter(Struct, frozen=True):
    name: str
    type: str
    description: str
    required: bool


class ToolDefinition(Struct, frozen=True):
    """`command` are the words of the program line, as in the file."""

    name: str
    description: str
    parameters: tuple[ToolParameter, ...]
    command: tuple[str, ...]


class Agreement(Protocol):
    """A person's agreement to one tool."""

    def fingerprint(self) -> str:
        """Hash of the tool's current files. Raises `ToolError` if it must not run."""
        ...

    def uncovered(self) -> str:
        """Why every call needs approval; empty if an agreement can last."""
        ...

    def missing(self, fingerprint: str) -> str:
        """Why a person must agree first; empty if not."""
        ...

    def agree(self, fingerprint: str) -> None: ...


class OwnToolAgreement:
    """The agreement to one of the user's own tools, which need none."""

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
        run = await ExecuteCommand().prepare(ExecuteCommandArgs(command=line), ctx)
        seen = await in_thread(self._agreement.fingerprint)
        uncovered = await in_thread(self._agreement.uncovered)
        missing = uncovered or await in_thread(lambda: self._agreement.missing(seen))

        async def perform(permit: Permit) -> Outcome:
            await self._check_agreed(seen, missing, permit)
            outcome = await run.perform(permit)
            return replace(outcome, ending=Ending.FAILED) if outcome.exit_code else outcome

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

    async def _check_agreed(self, seen: str, missing: str, permit: Permit) -> None:
        """Raises `ToolError` unless the tool is unchanged since it was checked, and agreed to."""
        if await in_thread(self._agreement.fingerprint) != seen:
            raise ToolError(f"{CHANGED} Call it again to have it checked.")
        if not missing:
            return
        if not permit.by_hand:
            raise Denied(f"{missing} It was not run.")
        self._agreement.agree(seen)


class CustomToolGuard(Hook):
    """A hook that asks about a tool whose current content no person has agreed to."""

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        missing = action.payload.get("missing")
        if action.payload.get("tool") != PAYLOAD or not missing:
            return Ruling()
        covers = "this call only" if action.payload.get("once") else "the tool as it is now"
        return ask(f"{missing} Your approval covers {covers}.")


def reserved() -> frozenset[str]:
    """Names that a custom tool cannot have. Looked up only if there is one."""
    return frozenset(known_tools())


def tool_definition(name: str, text: str) -> ToolDefinition:
    """Parse a definition file. Raises `ValueError` with the problem."""
    import tomllib

    if not _NAME.fullmatch(name):
        raise ValueError("its name must be 2 to 41 of a-z, 0-9 and _, and begin with a letter")
    if name in reserved():
        raise ValueError(f"{name} is the name of a built-in tool")
    if name.startswith("mcp_"):
        raise ValueError("names that begin with mcp_ are for the tools of MCP servers")
    try:
        said = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ValueError(f"it is not valid TOML ({error})") from error
    _check_known(said, {"description", "parameters", "command"}, "")
    described = _description(said, "")
    if not described:
        raise ValueError("description is missing")
    return ToolDefinition(name, described, _parameters(said), _command(said))


def _check_known(table: dict[str, Any], known: set[str], where: str) -> None:
    if unknown := sorted(set(table) - known):
        raise ValueError(
            f"{where}{unknown[0]} is not a known field; use {', '.join(sorted(known))}"
        )


def _description(table: dict[str, Any], where: str) -> str:
    said = table.get("description", "")
    if not isinstance(said, str) or len(said) > LONGEST_DESCRIPTION:
        raise ValueError(f"{where}description must be a text of {LONGEST_DESCRIPTION} characters")
    return marked(said.strip())


def _command(said: dict[str, Any]) -> tuple[str, ...]:
    words = said.get("command")
    if not isinstance(words, list) or not words or not all(map(_is_word, words)):
        raise ValueError('command must be a list of words, such as ["python3", "count.py"]')
    return tuple(words)


def _is_word(word: object) -> bool:
    return isinstance(word, str) and bool(word) and word.isprintable()


def _parameters(said: dict[str, Any]) -> tuple[ToolParameter, ...]:
    tables = said.get("parameters", {})
    if not isinstance(tables, dict) or len(tables) > MOST_PARAMETERS:
        raise ValueError(f"parameters must be a table of at most {MOST_PARAMETERS}")
    return tuple(_parameter(name, table) for name, table in tables.items())


def _parameter(name: str, table: object) -> ToolParameter:
    if not _PARAMETER.fullmatch(name):
        raise ValueError(f"the parameter {name[:60]!r} may contain only letters, digits and _")
    where = f"parameters.{name}."
    if not isinstance(table, dict):
        raise ValueError(f'{where[:-1]} must be a table, such as {{type = "string"}}')
    _check_known(table, {"type", "description", "required"}, where)
    if (kind := table.get("type", "string")) not in list(_TYPES):  # it may be a list itself
        raise ValueError(f"{where}type must be one of {', '.join(_TYPES)}")
    if not isinstance(required := table.get("required", False), bool):
        raise ValueError(f"{where}required must be true or false")
    return ToolParameter(name, kind, _description(table, where), required)


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
