"""The tools, found by their modules, and what a model is told of each.

Whatever module of this folder has a `TOOL` is a tool: there is no list to add it to. Small models
get the same tools in fewer words (`compact_spec`).
"""

import pkgutil
import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from rookery import tools
from rookery.engine.ports.model import ToolSpec
from rookery.engine.ports.tool import Tool

SYNONYMS = {"edit_file", "search_replace"}
"""What `edit` does, under names that some models were taught. They work when they are called;
offering them to everybody would only cost words."""

_NULL = {"type": "null"}
_NOISE = ("title", "default")

NEEDED = {"diff", "patch", "todos"}
"""Arguments with a format of their own, which no model can guess."""
LEFT_OUT = {
    "ask_followup_question": {"mode"},
    "execute_command": {"terminal"},
    "read_file": {"files", "indentation", "mode"},
}
"""Arguments that a small model does better without. They work all the same."""

_FIRST_SENTENCE = re.compile(r".*?\.(?=\s|\Z)", re.DOTALL)


def all_tools() -> dict[str, Tool[Any]]:
    names = sorted(module.name for module in pkgutil.iter_modules(tools.__path__))
    modules = [import_module(f"{tools.__name__}.{name}") for name in names]
    found = [cast(Tool[Any], module.TOOL) for module in modules if hasattr(module, "TOOL")]
    return {tool.name: tool for tool in found}


def offered(tools: Mapping[str, Tool[Any]]) -> list[ToolSpec]:
    """The tools as the model is told of them."""
    return [spec_of(tool) for name, tool in tools.items() if name not in SYNONYMS]


def spec_of(tool: Tool[Any]) -> ToolSpec:
    (schema,), parts = msgspec.json.schema_components([tool.arguments], ref_template="{name}")
    return ToolSpec(tool.name, tool.description, _plain(schema, parts))


def compact_spec(spec: ToolSpec) -> ToolSpec:
    said = _FIRST_SENTENCE.match(spec.description)
    left_out = LEFT_OUT.get(spec.name, set())
    return replace(
        spec,
        description=said[0] if said else spec.description,
        schema=_bare(spec.schema, left_out),
    )


def _plain(schema: Mapping[str, Any], parts: Mapping[str, Any]) -> dict[str, Any]:
    """The schema without what a model need not be told, and with what it refers to in place."""
    fields = {key: value for key, value in schema.items() if key not in _NOISE}
    if reference := fields.pop("$ref", None):
        return _plain(parts[reference], parts) | fields
    choices = [choice for choice in fields.pop("anyOf", ()) if choice != _NULL]
    if len(choices) == 1:
        return _plain(choices[0], parts) | fields
    if choices:
        fields["anyOf"] = [_plain(choice, parts) for choice in choices]
    if "properties" in fields:
        named = {name: _plain(value, parts) for name, value in fields["properties"].items()}
        fields["properties"] = named
    if isinstance(fields.get("items"), dict):
        fields["items"] = _plain(fields["items"], parts)
    if fields.get("required") == []:
        del fields["required"]
    return {"type": "string", **fields} if "enum" in fields else fields


def _bare(schema: Mapping[str, Any], left_out: set[str]) -> dict[str, Any]:
    """The schema without descriptions, but for those that are needed."""
    fields = {name: value for name, value in schema.items() if name != "description"}
    if "properties" in fields:
        fields["properties"] = {
            name: _argument(name, value, left_out)
            for name, value in fields["properties"].items()
            if name not in left_out
        }
    if isinstance(fields.get("items"), Mapping):
        fields["items"] = _bare(fields["items"], left_out)
    return fields


def _argument(name: str, schema: Mapping[str, Any], left_out: set[str]) -> dict[str, Any]:
    described = {"description": schema["description"]} if "description" in schema else {}
    return {**(described if name in NEEDED else {}), **_bare(schema, left_out)}
