"""A tool that a user or a project defines: a program, and the arguments that it takes."""

import re
from typing import Any

from msgspec import Struct

from rookery.core.text.hidden_characters import marked

TYPES = ("string", "integer", "number", "boolean", "array", "object")
LONGEST_DESCRIPTION = 2_000
MOST_PARAMETERS = 30

_NAME = re.compile(r"[a-z][a-z0-9_]{1,40}")
_PARAMETER = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,40}")


class ToolParameter(Struct, frozen=True):
    name: str
    type: str
    description: str
    required: bool


class ToolDefinition(Struct, frozen=True):
    """`command` are the words of the program line, as they stand in the file."""

    name: str
    description: str
    parameters: tuple[ToolParameter, ...]
    command: tuple[str, ...]


def reserved() -> frozenset[str]:
    """Names that no tool of a file can have. Looked up only where there is such a file."""
    from rookery.governance.scope.permission_rules import COMMAND_TOOLS, OTHER_TOOLS, PATH_TOOLS

    return PATH_TOOLS | COMMAND_TOOLS | OTHER_TOOLS | {"list_code_definition_names"}


def tool_definition(name: str, text: str) -> ToolDefinition:
    """The tool that a file of this name defines. Raises `ValueError` that says what is wrong."""
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
    _insist_on_known(said, {"description", "parameters", "command"}, "")
    described = _description(said, "")
    if not described:
        raise ValueError("description is missing")
    return ToolDefinition(name, described, _parameters(said), _command(said))


def _insist_on_known(table: dict[str, Any], known: set[str], where: str) -> None:
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
    _insist_on_known(table, {"type", "description", "required"}, where)
    if (kind := table.get("type", "string")) not in TYPES:
        raise ValueError(f"{where}type must be one of {', '.join(TYPES)}")
    if not isinstance(required := table.get("required", False), bool):
        raise ValueError(f"{where}required must be true or false")
    return ToolParameter(name, kind, _description(table, where), required)
