"""Parsing the lines a driver of `--json-io` writes."""

import json
import re
from contextlib import suppress
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.compat.json_io.message_reader import KINDS, BadMessage, DriverMessage, read_request
from support.each_row import each_row
from support.json_io_schema import EVENTS, FILE, TYPES, engine_messages_schema, problem_with

ID = "3f0c3a5e-6c5e-4d2a-9d0b-0c7a1d6f2b11"


def read(given: Any) -> DriverMessage:
    return read_request(json.dumps(given).encode(), 1)


ROW = {"ts": 3, "commitHash": "x", "mode": "restore"}
EDITED = {"value": 7, "editedMessageContent": "x", "images": ["a.png"]}
ACCEPTED: list[dict[str, Any]] = [
    {"type": "newTask", "text": "go", "taskId": ID, "taskConfiguration": {"mode": "debug"}},
    {"type": "askResponse", "askResponse": "yesButtonClicked", "always": True},
    {"type": "askResponse", "askResponse": "noButtonClicked", "messageTs": 7.5, "text": "no"},
    {"type": "askResponse", "askResponse": "messageResponse", "text": "x", "taskId": "t"},
    {"type": "deleteMessage", "value": 7},
    {"type": "editMessage", **EDITED},
    {"type": "submitEditedMessage", **EDITED},
    {"type": "deleteMessageConfirm", "messageTs": 7},
    {"type": "editMessageConfirm", "messageTs": 7, "text": "x", "restoreCheckpoint": True},
    {"type": "terminalOperation", "terminalOperation": "continue"},
    {"type": "queueMessage", "text": "x"},
    {"type": "editQueuedMessage", "payload": {"id": "q1", "text": "y"}},
    *({"type": type, "text": "x"} for type in ("removeQueuedMessage", "mode", "switchMode")),
    *({"type": type, "text": " t "} for type in ("showTaskWithId", "deleteTaskWithId")),
    {"type": "updateSettings", "updatedSettings": {"apiModelId": "m", "language": "de"}},
    {"type": "autoApprovalEnabled", "bool": True},
    {"type": "searchFiles", "query": "a", "requestId": "r"},
    {"type": "condenseTaskContextRequest", "text": "t"},
    {"type": "checkpointDiff", "payload": {"ts": 3, "mode": "to-current"}},
    {"type": "checkpointRestore", "payload": ROW},
    *({"type": type} for type, fields in KINDS.items() if not fields),
]


@pytest.mark.parametrize("message", ACCEPTED, ids=lambda each: each["type"])
def test_a_message_is_read_with_the_fields_of_its_type(message: dict[str, Any]):
    fields = {name: value for name, value in message.items() if name != "type"}
    assert read({**message, "other": 1, "images": None} | fields) == DriverMessage(
        message["type"], fields
    )
    assert jsonschema.Draft202012Validator(engine_messages_schema()).is_valid(message)


def test_the_table_covers_every_type():
    assert {message["type"] for message in ACCEPTED} == KINDS.keys()


@each_row(
    ("line", "reason"),
    [
        (b"no", "it is not JSON"),
        (b"\xff", "it is not UTF-8"),
        (b"[]", "not a JSON object"),
        (b"{}", '"type" is missing or not a string'),
        (b'{"type": 1}', '"type" is missing or not a string'),
        (b'{"type":"askResponse"}', '"askResponse" must be "yesButtonClicked" or'),
        (b'{"type":"askResponse","askResponse":"yes"}', '"askResponse" must be'),
        (
            b'{"type":"askResponse","askResponse":"noButtonClicked","messageTs":"7"}',
            "must be the ts",
        ),
        (b'{"type":"queueMessage","text":7}', '"text" must be a string'),
        (b'{"type":"newTask","taskId":"7"}', '"taskId" must be a UUID'),
        (b'{"type":"newTask","images":[1]}', '"images" must be a list of strings'),
        (b'{"type":"mode"}', '"text" must be a non-blank string'),
        (b'{"type":"updateSettings"}', '"updatedSettings" must be an object'),
        (b'{"type":"editQueuedMessage","payload":{"id":"x"}}', '"payload" "text" must be a string'),
        (b'{"type":"checkpointDiff","payload":{"mode":"x"}}', '"payload" "mode" must be'),
        (b'{"type":"checkpointDiff","payload":{"ts":1e999}}', "1e999 is not a finite number"),
        (b'{"type":"checkpointRestore","payload":{"ts":-1e999}}', "-1e999 is not a finite number"),
        (b'{"type":"checkpointRestore","payload":{"ts":NaN}}', "NaN is not a finite number"),
        (b'{"type":"askResponse","messageTs":-Infinity}', "-Infinity is not a finite number"),
        (b'{"type":"newTask","taskConfiguration":{"x":[NaN]}}', "NaN is not a finite number"),
        (b'{"type":"autoApprovalEnabled","bool":1}', '"bool" must be true or false'),
    ],
)
def test_invalid_messages_are_refused_with_a_reason(line: bytes, reason: str):
    with pytest.raises(BadMessage, match=re.escape(reason)) as raised:
        read_request(line, 7)
    assert str(raised.value).startswith("Line 7 ")


@given(
    st.binary(max_size=60)
    | st.dictionaries(st.text(), st.integers() | st.text()).map(
        lambda given: json.dumps(given).encode()
    )
)
def test_no_input_breaks_the_reader(line: bytes):
    with suppress(BadMessage):
        read_request(line, 1)


ANY_FIELD = st.none() | st.booleans() | st.integers() | st.text() | st.just({}) | st.just([])


@given(
    type=st.sampled_from(list(KINDS)),
    fields=st.dictionaries(
        st.sampled_from(
            ["text", "images", "payload", "bool", "query", "askResponse", "messageTs", "taskId"]
        ),
        ANY_FIELD | st.just({"id": "x", "text": "y", "ts": 1, "mode": "full"}),
    ),
)
def test_the_reader_accepts_what_the_schema_allows(type: str, fields: dict[str, Any]):
    message = {"type": type, **fields}
    try:
        read(message)
        accepted = True
    except BadMessage:
        accepted = False
    published = jsonschema.Draft202012Validator(engine_messages_schema())
    assert published.is_valid(message) or not accepted


PAGE = FILE.parents[1] / "json-io.md"
EXAMPLES = re.findall(r"```json\n(.*?)\n```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@each_row("line", [line for one in EXAMPLES for line in one.splitlines()])
def test_every_example_in_the_page_is_a_line(line: str):
    given = json.loads(line)
    assert "" in (problem_with(given), problem_with(given, "written"))


def test_every_type_and_every_event_is_in_the_page():
    page = PAGE.read_text(encoding="utf-8")
    named = {*KINDS, *EVENTS, *TYPES} - {"say", "ask"}
    assert [
        name for name in sorted(named) if f"`{name}`" not in page and f'"{name}"' not in page
    ] == []
