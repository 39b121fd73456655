"""Tools in fewer words, for small models: what they are called and take, and little else."""

import re
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from rookery.engine.ports import ToolSpec

NEEDED = {"diff", "patch", "todos"}
"""Arguments with a format of their own, which no model can guess."""
LEFT_OUT = {
    "ask_followup_question": {"mode"},
    "execute_command": {"terminal"},
    "read_file": {"files", "indentation", "mode"},
}
"""Arguments that a small model does better without. They work all the same."""

_FIRST_SENTENCE = re.compile(r".*?\.(?=\s|\Z)", re.DOTALL)


def compact_spec(spec: ToolSpec) -> ToolSpec:
    said = _FIRST_SENTENCE.match(spec.description)
    left_out = LEFT_OUT.get(spec.name, set())
    return replace(
        spec,
        description=said[0] if said else spec.description,
        schema=_bare(spec.schema, left_out),
    )


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
