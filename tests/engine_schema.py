"""Writes the schema of `--json-io`, which is made from the tables that it goes by."""

import json
from typing import Any

import jsonschema

from rookery.compat.json_io.messages_schema import engine_messages_schema
from stream_schemas import FOLDER, closed

FILE = FOLDER / "engine-messages.schema.json"


def problem_with(line: dict[str, Any], defined: str = "told") -> str:
    """Why a line is none that the schema knows, or nothing."""
    key = "event" if "event" in line else "type"
    kinds = _KINDS[defined].get((key, str(line.get(key))), [])
    problems = [next(kind.iter_errors(line), None) for kind in kinds]
    if None in problems:
        return ""
    return "; ".join(problem.message for problem in problems if problem) or "there is no such line"


def _by_name(defined: str) -> dict[tuple[str, str], list[jsonschema.Draft202012Validator]]:
    """Trying every kind on every line would take most of a test's time."""
    schema = closed(engine_messages_schema())
    kinds: dict[tuple[str, str], list[jsonschema.Draft202012Validator]] = {}
    for kind in schema["$defs"][defined]["anyOf"]:
        key = "event" if "event" in kind["properties"] else "type"
        validator = jsonschema.Draft202012Validator({**kind, "$defs": schema["$defs"]})
        kinds.setdefault((key, kind["properties"][key]["const"]), []).append(validator)
    return kinds


_KINDS = {defined: _by_name(defined) for defined in ("told", "written")}


def text() -> str:
    return json.dumps(engine_messages_schema(), indent=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
