"""Writes the schemas of the control stream, which are made from the tables that it goes by."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema

from rookery.compat.control_stream.stream_schema import commands_schema, events_schema

FOLDER = Path(__file__).parents[1] / "docs" / "schemas"
SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {
    "stream-json-events.schema.json": events_schema,
    "stream-json-commands.schema.json": commands_schema,
}


def closed(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema that takes no field it does not name, so that a test sees what it forgot."""
    shut = {name: _shut(value) for name, value in schema.items()}
    if "properties" in schema:
        shut["additionalProperties"] = False
    return shut


def _shut(value: Any) -> Any:
    match value:
        case dict():
            return closed(value)
        case list():
            return [_shut(each) for each in value]
        case _:
            return value


def problem_with(event: dict[str, Any]) -> str:
    """Why an event is none that the schema knows, or nothing."""
    kinds = _KINDS.get(event.get("type", ""), [])
    problems = [next(kind.iter_errors(event), None) for kind in kinds]
    if None in problems:
        return ""
    return "; ".join(problem.message for problem in problems if problem) or "there is no such type"


def _by_type() -> dict[str, list[jsonschema.Draft202012Validator]]:
    """Trying every kind on every event would take most of a test's time."""
    schema = closed(events_schema())
    kinds: dict[str, list[jsonschema.Draft202012Validator]] = {}
    for kind in schema["anyOf"]:
        name = kind["properties"]["type"]["const"]
        validator = jsonschema.Draft202012Validator({**kind, "$defs": schema["$defs"]})
        kinds.setdefault(name, []).append(validator)
    return kinds


_KINDS = _by_type()


def text(name: str) -> str:
    return json.dumps(SCHEMAS[name](), indent=2) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in SCHEMAS:
        (FOLDER / name).write_text(text(name), encoding="utf-8")
