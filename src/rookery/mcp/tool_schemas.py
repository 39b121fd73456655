"""Schemas of a server's tools: as models take them, and as calls are checked against them.

A server writes them, so nothing in them is followed: no reference is looked up, and no pattern
is matched.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from rookery.core.limits import KIB

LARGEST = 64 * KIB
DEEPEST = 32
"""Of JSON; a schema nests twice for each level of what it describes."""
ANYTHING: Mapping[str, Any] = {"type": "object"}

_FORMATS = (
    *("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"),
)
_CHOICES = ("anyOf", "oneOf", "allOf")
_SCHEMAS_BY_NAME = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS_OF_SCHEMAS = (*_CHOICES, "prefixItems")
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "number": (int, float),
    "integer": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


def normalised(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema in the dialect that all providers understand; of one that is too large or too
    deep only that arguments are an object."""
    if _depth(schema, DEEPEST) > DEEPEST or len(msgspec.json.encode(schema)) > LARGEST:
        return ANYTHING
    top = dict(schema)
    for key in _CHOICES:
        variants = top.pop(key, None)
        if isinstance(variants, list):
            top = {**next(filter(_is_object, variants), {}), **top}
    return {"type": "object", **_plain({**top, "type": "object"})}


def problems(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str]:
    """What is plainly wrong with arguments. The server judges the rest."""
    return list(_problems(arguments, schema))


def _problems(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[str]:
    properties = schema.get("properties")
    fields = properties if isinstance(properties, dict) else {}
    required = schema.get("required")
    for name in required if isinstance(required, list) else ():
        if isinstance(name, str) and name not in arguments:
            yield f"{name} is missing."
    for name, given in arguments.items():
        if name not in fields:
            if schema.get("additionalProperties") is False:
                yield f"There is no argument {name[:100]!r}."
            continue
        kind = fields[name].get("type") if isinstance(fields[name], dict) else None
        if isinstance(kind, str) and kind in _TYPES and not _is(given, kind):
            yield f"{name} must be of type {kind}."


def _is(given: Any, kind: str) -> bool:
    if isinstance(given, bool):
        return kind == "boolean"
    if kind == "integer":
        return isinstance(given, int) or (isinstance(given, float) and given.is_integer())
    return isinstance(given, _TYPES[kind])


def _plain(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    fields = {key: value for key, value in schema.items() if key != "$schema"}
    if fields.get("format") not in _FORMATS:
        fields.pop("format", None)
    if isinstance(kinds := fields.get("type"), list):
        del fields["type"]
        fields["anyOf"] = [{"type": kind} for kind in kinds]
    for key in _SCHEMAS_BY_NAME:
        if isinstance(named := fields.get(key), dict):
            fields[key] = {name: _plain(each) for name, each in named.items()}
    for key in _LISTS_OF_SCHEMAS:
        if isinstance(listed := fields.get(key), list):
            fields[key] = [_plain(each) for each in listed]
    if "items" in fields:
        fields["items"] = _plain(fields["items"])
    if fields.get("type") == "object" and "additionalProperties" not in fields:
        fields["additionalProperties"] = False
    return fields


def _is_object(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type", "object") == "object"


def _depth(value: Any, left: int) -> int:
    """How deep a value is nested, or one more than `left` if it is deeper."""
    if left < 0:
        return 1
    if isinstance(value, dict):
        return 1 + max((_depth(each, left - 1) for each in value.values()), default=0)
    if isinstance(value, list):
        return 1 + max((_depth(each, left - 1) for each in value), default=0)
    return 0
