"""The published schemas match the tables, the events and the documentation."""

import json
import re
from typing import Any

import jsonschema
import pytest

from rookery.compat.control_stream.stream_commands import COMMANDS as COMMAND_TABLE
from rookery.compat.control_stream.stream_commands import REPLY_CONTENTS
from support.control_stream_schemas import (
    DONE_CODES,
    ERROR_CODES,
    FOLDER,
    SCHEMAS,
    closed,
    commands_schema,
    events_schema,
    problem_with,
    text,
)
from support.each_row import each_row

EVENTS = jsonschema.Draft202012Validator(closed(events_schema()))


@each_row("name", SCHEMAS)
def test_the_committed_schema_is_the_generated_one(name: str):
    assert (FOLDER / name).read_text(encoding="utf-8") == text(name)
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name]())


def test_every_reply_code_has_a_text():
    assert set(REPLY_CONTENTS) == {"accepted", *DONE_CODES, *ERROR_CODES}


@each_row(
    "event",
    [
        {"type": "user", "id": 1, "content": "x"},
        {"type": "control", "subtype": "ack", "requestId": "r", "content": "x", "success": True},
        {"type": "system", "subtype": "waiting", "id": 1, "code": "tool", "content": "please"},
        {"type": "assistant", "id": 1, "subtype": "other", "content": "x", "done": True},
        {"type": "thinking", "id": "1", "content": "x"},
        {"type": "result", "done": True, "taskId": "t"},
        {"type": "result", "done": True, "success": True, "taskId": "t", "more": 1},
        {"type": "other"},
    ],
)
def test_invalid_events_are_rejected(event: dict[str, Any]):
    assert not EVENTS.is_valid(event)
    assert problem_with(event)


def test_the_published_schema_allows_unknown_fields():
    published = jsonschema.Draft202012Validator(json.loads(text("stream-json-events.schema.json")))
    event = {"type": "user", "id": 1, "content": "x", "done": True, "more": 1}
    assert published.is_valid(event)
    assert not EVENTS.is_valid(event)


PAGE = FOLDER.parent / "control-stream.md"
EXAMPLES = re.findall(r"```json\n(.*?)\n```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
COMMANDS = jsonschema.Draft202012Validator(closed(commands_schema()))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: text[:60])
def test_every_example_in_the_page_is_an_event_or_a_command(example: str):
    given = json.loads(example)
    (EVENTS if "type" in given else COMMANDS).validate(given)


def test_every_command_and_every_code_is_in_the_page():
    page = PAGE.read_text(encoding="utf-8")
    named = {*COMMAND_TABLE, *DONE_CODES, *ERROR_CODES}
    assert [name for name in named if f"`{name}`" not in page and f'"{name}"' not in page] == []
    assert len(EXAMPLES) >= 8
