"""Finds the tools in their modules and describes them to models.

A tool is a class with a name, a group and arguments that its module lists in `TOOLS`. It declares
anything else in `traits`. Small models get shorter descriptions of the same tools (`compact_spec`).
"""

import pkgutil
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from operator import attrgetter
from types import ModuleType
from typing import Any, TypeGuard

import msgspec
from msgspec.structs import replace

from rookery import tools
from rookery.core.tool_traits import ToolGroup, ToolTraits, known_tools, traits_of
from rookery.engine.ports.model import ToolSpec
from rookery.engine.ports.tool import Tool
from rookery.first_use import lazy_pattern

TOOLS_OF_OTHERS = (
    ToolTraits(name="custom_tool", group=ToolGroup.COMMAND),
    ToolTraits(name="generate_image", arguments=("path",), hook_name="Write"),
    ToolTraits(name="search_and_replace", arguments=("path",), hook_name="Edit"),
    ToolTraits(name="run_slash_command"),
    ToolTraits(name="record_lesson"),
)
"""Names that rules may use without a tool here: one for all custom tools, the others from other
agents."""

_NULL = {"type": "null"}
_NOISE = ("title", "default")

_FIRST_SENTENCE = lazy_pattern(r".*?\.(?=\s|\Z)", re.DOTALL)


def all_tools() -> dict[str, Tool[Any]]:
    """The tools that need only a `ToolContext`."""
    found = [tool for module in _modules() for tool in getattr(module, "TOOLS", ())]
    return {tool.name: tool for tool in sorted(found, key=attrgetter("name"))}


def declared_tools() -> Iterator[ToolTraits]:
    """The traits of every tool in this folder, and the names of other agents' tools."""
    found = (
        declared_by(each)
        for module in _modules()
        for each in vars(module).values()
        if getattr(each, "__module__", "") == module.__name__ and _is_tool(each)
    )
    yield from sorted(found, key=attrgetter("name"))
    yield from TOOLS_OF_OTHERS


def declared_by(tool: Tool[Any] | type[Tool[Any]]) -> ToolTraits:
    traits = getattr(tool, "traits", ToolTraits())
    arguments = tool.arguments.__struct_fields__
    return replace(traits, name=tool.name, group=tool.group, arguments=arguments)


def _modules() -> Iterator[ModuleType]:
    for module in pkgutil.iter_modules(tools.__path__):
        if not module.ispkg:
            yield import_module(f"{tools.__name__}.{module.name}")


def _is_tool(found: object) -> TypeGuard[type[Tool[Any]]]:
    return isinstance(found, type) and hasattr(found, "name") and hasattr(found, "group")


def offered(tools: Mapping[str, Tool[Any]]) -> list[ToolSpec]:
    """The tools as described to the model."""
    return [spec_of(tool) for tool in tools.values() if not declared_by(tool).is_synonym]


def spec_of(tool: Tool[Any]) -> ToolSpec:
    return ToolSpec(tool.name, tool.description, schema_of(tool.arguments))


@lru_cache
def schema_of(arguments: type[msgspec.Struct]) -> dict[str, Any]:
    """The schema of a tool's arguments. Nothing may change it, as all hosts share it."""
    (schema,), parts = msgspec.json.schema_components([arguments], ref_template="{name}")
    return _plain(schema, parts)


def essential_specs(specs: Sequence[ToolSpec], also: str) -> list[ToolSpec]:
    """The tools for small models: essential ones, those that are not built in, and `also`.
    All tools if the mode has no essential one."""
    few = [spec for spec in specs if traits_of(spec.name).essential]
    others = [spec for spec in specs if spec.name == also or spec.name not in known_tools()]
    kept = {spec.name for spec in (*few, *others)}
    return [compact_spec(spec) for spec in specs if spec.name in kept or not few]


def compact_spec(spec: ToolSpec) -> ToolSpec:
    said = _FIRST_SENTENCE.match(spec.description)
    return replace(
        spec,
        description=said[0] if said else spec.description,
        schema=_bare(spec.schema, traits_of(spec.name)),
    )


def _plain(schema: Mapping[str, Any], parts: Mapping[str, Any]) -> dict[str, Any]:
    """The schema without what a model does not need, and with references inlined."""
    fields = {key: value for key, value in schema.items() if key not in _NOISE}
    if reference := fields.pop("$ref", None):
        return _plain(parts[reference], parts) | fields
    choices = [choice for choice in fields.pop("anyOf", ()) if choice != _NULL]
    if len(choices) == 1:
        return _plain(choices[0], parts) | fields
    if choices:
        fields["anyOf"] = [_plain(choice, parts) for choice in choices]
    if "properties" in fields:
        named = {name: _inner(value, parts) for name, value in fields["properties"].items()}
        fields["properties"] = named
    if isinstance(fields.get("items"), dict):
        fields["items"] = _inner(fields["items"], parts)
    if fields.get("required") == []:
        del fields["required"]
    return {"type": "string", **fields} if "enum" in fields else fields


def _inner(schema: Mapping[str, Any], parts: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an argument. That it takes no others need not be said twice."""
    plain = _plain(schema, parts)
    return {key: value for key, value in plain.items() if key != "additionalProperties"}


def _bare(schema: Mapping[str, Any], traits: ToolTraits) -> dict[str, Any]:
    """The schema without descriptions, except necessary ones."""
    fields = {name: value for name, value in schema.items() if name != "description"}
    if "properties" in fields:
        fields["properties"] = {
            name: _argument(name, value, traits)
            for name, value in fields["properties"].items()
            if name not in traits.skipped
        }
    if isinstance(fields.get("items"), Mapping):
        fields["items"] = _bare(fields["items"], traits)
    return fields


def _argument(name: str, schema: Mapping[str, Any], traits: ToolTraits) -> dict[str, Any]:
    described = {"description": schema["description"]} if "description" in schema else {}
    return {**(described if name in traits.explained else {}), **_bare(schema, traits)}
