"""What a driver of `--json-io` may write, and what is made of it."""

import json
import re
from contextlib import suppress
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.compat.driver import StartSettings
from rookery.compat.json_io import request_types as wants
from rookery.compat.json_io.message_reader import KINDS, BadMessage, read_request
from support.json_io_schema import EVENTS, FILE, TYPES, engine_messages_schema, problem_with

ID = "3f0c3a5e-6c5e-4d2a-9d0b-0c7a1d6f2b11"


def read(given: Any) -> wants.Request:
    return read_request(json.dumps(given).encode(), 1)


READ: list[tuple[dict[str, Any], wants.Request]] = [
    (
        {
            "type": "newTask",
            "text": "go",
            "images": ["a.png"],
            "taskId": ID.upper(),
            "taskConfiguration": {"mode": "debug"},
        },
        wants.NewTaskRequest(
            text="go", images=("a.png",), task_id=ID, settings=StartSettings(mode="debug")
        ),
    ),
    ({"type": "newTask", "text": "go", "images": None}, wants.NewTaskRequest(text="go")),
    ({"type": "askResponse", "askResponse": "yesButtonClicked"}, wants.AnswerRequest(reply="yes")),
    (
        {"type": "askResponse", "askResponse": "noButtonClicked", "messageTs": 7, "text": "no"},
        wants.AnswerRequest(reply="no", text="no", row=7),
    ),
    (
        {"type": "askResponse", "askResponse": "messageResponse", "text": "x", "taskId": "t"},
        wants.AnswerRequest(reply="message", text="x", task_id="t"),
    ),
    (
        {"type": "askResponse", "askResponse": "objectResponse", "text": '{"a":true}'},
        wants.AnswerRequest(reply="message", text='{"a":true}'),
    ),
    ({"type": "deleteMessage", "value": 7}, wants.ReviewMessage(row=7)),
    *(
        (
            {"type": type, "value": 7, "editedMessageContent": "x", "images": ["a.png"]},
            wants.ReviewMessage(row=7, text="x", images=("a.png",)),
        )
        for type in ("editMessage", "submitEditedMessage")
    ),
    ({"type": "deleteMessageConfirm", "messageTs": 7}, wants.RewriteMessage(row=7)),
    (
        {"type": "editMessageConfirm", "messageTs": 7, "text": "x", "restoreCheckpoint": True},
        wants.RewriteMessage(row=7, text="x", with_files=True),
    ),
    ({"type": "clearTask"}, wants.ClearRequest()),
    ({"type": "cancelTask"}, wants.CancelRequest()),
    (
        {"type": "terminalOperation", "terminalOperation": "continue"},
        wants.HandleCommand(ends=False),
    ),
    ({"type": "terminalOperation", "terminalOperation": "abort"}, wants.HandleCommand(ends=True)),
    ({"type": "queueMessage", "text": "x"}, wants.Queue(text="x")),
    ({"type": "removeQueuedMessage", "text": "q1"}, wants.EditRequest(message_id="q1")),
    (
        {"type": "editQueuedMessage", "payload": {"id": "q1", "text": "y"}},
        wants.EditRequest(message_id="q1", text="y"),
    ),
    ({"type": "showTaskWithId", "text": " t "}, wants.ShowTask(task_id="t")),
    ({"type": "deleteTaskWithId", "text": "t"}, wants.DeleteRequest(task_id="t")),
    ({"type": "mode", "text": "debug"}, wants.Choose(settings=StartSettings(mode="debug"))),
    ({"type": "switchMode", "text": "debug"}, wants.Choose(settings=StartSettings(mode="debug"))),
    (
        {"type": "updateSettings", "updatedSettings": {"apiModelId": "m", "language": "de"}},
        wants.Choose(settings=StartSettings(model="m", ignored=("language",))),
    ),
    (
        {"type": "autoApprovalEnabled", "bool": True},
        wants.Choose(settings=StartSettings(automatic=True)),
    ),
    ({"type": "webviewDidLaunch"}, wants.LaunchRequest()),
    ({"type": "requestCommands"}, wants.WantCommands()),
    ({"type": "requestModes"}, wants.WantModes()),
    ({"type": "requestRooModels"}, wants.WantModels(only_ours=True)),
    ({"type": "requestRouterModels"}, wants.WantModels()),
    (
        {"type": "searchFiles", "query": "a", "requestId": "r"},
        wants.FindFiles(letters="a", request_id="r"),
    ),
    ({"type": "condenseTaskContextRequest", "text": "t"}, wants.CondenseTask(task_id="t")),
    (
        {"type": "checkpointDiff", "payload": {"ts": 3, "mode": "to-current"}},
        wants.CompareFiles(span="to-current", row=3),
    ),
    (
        {"type": "checkpointRestore", "payload": {"ts": 3, "commitHash": "x", "mode": "restore"}},
        wants.RestoreFilesRequest(row=3, with_words=True),
    ),
    ({"type": "cancelAutoApproval"}, wants.Ignored(type="cancelAutoApproval")),
    ({"type": "shutdown"}, wants.ShutdownRequest()),
    ({"type": "ping"}, wants.PingRequest()),
    ({"type": "playSound", "audioType": "x"}, wants.Ignored(type="playSound")),
]


@pytest.mark.parametrize(("message", "request_"), READ, ids=lambda each: str(each)[:60])
def test_every_message_is_read_as_what_it_requests(
    message: dict[str, Any], request_: wants.Request
):
    assert read(message) == request_
    if message["type"] in KINDS:
        validator = jsonschema.Draft202012Validator(engine_messages_schema())
        assert validator.is_valid(message)


def test_every_type_is_in_the_table_above():
    assert {message["type"] for message, _ in READ} >= KINDS.keys()


@pytest.mark.parametrize(
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
def test_what_is_no_message_says_why(line: bytes, reason: str):
    with pytest.raises(BadMessage, match=re.escape(reason)) as raised:
        read_request(line, 7)
    assert str(raised.value).startswith("Line 7 ")


@given(
    st.binary(max_size=60)
    | st.dictionaries(st.text(), st.integers() | st.text()).map(
        lambda given: json.dumps(given).encode()
    )
)
def test_nothing_that_is_written_breaks_the_reader(line: bytes):
    with suppress(BadMessage):
        read_request(line, 1)


ANY_FIELD = st.none() | st.booleans() | st.integers() | st.text() | st.just({}) | st.just([])


def test_what_a_type_of_message_does_not_have_is_not_read():
    deleted = {"type": "deleteMessageConfirm", "messageTs": 1}
    assert read({**deleted, "text": "other", "images": False}) == read(deleted)


@given(
    type=st.sampled_from(list(KINDS)),
    fields=st.dictionaries(
        st.sampled_from(
            ["text", "images", "payload", "bool", "query", "askResponse", "messageTs", "taskId"]
        ),
        ANY_FIELD | st.just({"id": "x", "text": "y", "ts": 1, "mode": "full"}),
    ),
)
def test_what_is_accepted_is_what_the_schema_promises(type: str, fields: dict[str, Any]):
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


@pytest.mark.parametrize("line", [line for one in EXAMPLES for line in one.splitlines()])
def test_every_example_in_the_page_is_a_line(line: str):
    given = json.loads(line)
    assert "" in (problem_with(given), problem_with(given, "written"))


def test_every_type_and_every_event_is_in_the_page():
    page = PAGE.read_text(encoding="utf-8")
    named = {*KINDS, *EVENTS, *TYPES} - {"say", "ask"}
    assert [
        name for name in sorted(named) if f"`{name}`" not in page and f'"{name}"' not in page
    ] == []
