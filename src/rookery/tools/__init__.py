"""The tools, found by their modules: whatever module of this folder has a `TOOL`."""

import pkgutil
from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

import msgspec

from rookery.engine.ports import Tool, ToolSpec

_NULL = {"type": "null"}


def all_tools() -> dict[str, Tool[Any]]:
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = [import_module(f"{__name__}.{name}") for name in names]
    tools = [cast(Tool[Any], module.TOOL) for module in modules if hasattr(module, "TOOL")]
    return {tool.name: tool for tool in tools}


def spec_of(tool: Tool[Any]) -> ToolSpec:
    (schema,), parts = msgspec.json.schema_components([tool.arguments], ref_template="{name}")
    return ToolSpec(tool.name, tool.description, _plain(schema, parts))


def _plain(schema: Any, parts: Mapping[str, Any]) -> Any:
    """The schema with nothing in it that a model does not need to be told."""
    if isinstance(schema, list):
        return [_plain(item, parts) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        named = {key: value for key, value in schema.items() if key != "$ref"}
        return _plain(parts[schema["$ref"]], parts) | named
    if "anyOf" in schema:
        choices = [choice for choice in schema["anyOf"] if choice != _NULL]
        if len(choices) == 1:
            rest = {key: value for key, value in schema.items() if key != "anyOf"}
            return _plain(choices[0] | rest, parts)
    fields = {key: value for key, value in schema.items() if key not in ("title", "default")}
    properties = fields.pop("properties", None)
    plain = {key: _plain(value, parts) for key, value in fields.items()}
    if properties is None:
        return plain
    named = {name: _plain(value, parts) for name, value in properties.items()}
    return plain | {"properties": named}
