"""Parsing a driver's lines into commands."""

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.compat.control_stream.stream_commands import (
    COMMANDS,
    BadCommand,
    StreamCommand,
    read_command,
)
from rookery.compat.driver import StartSettings, approval_problem, start_settings
from rookery.core.blocks import Image
from support.control_stream_schemas import commands_schema
from support.each_row import each_row

TASK = "3F0C3A5E-6c5e-4d2a-9d0b-0c7a1d6f2b11"
DOT = "data:image/png;base64,iVBORw0KGgo="
SEEN = (Image(media_type="image/png", data="iVBORw0KGgo="),)


def line(command: str, **fields: Any) -> bytes:
    return json.dumps({"command": command, "requestId": "r", **fields}).encode()


ACCEPTED: list[tuple[str, dict[str, Any]]] = [
    ("start", {"prompt": " go ", "taskId": TASK, "images": [DOT], "configuration": {"mode": "x"}}),
    ("start", {"prompt": "x"}),
    ("message", {"prompt": "x", "images": [DOT]}),
    ("approve", {"text": "but mind the tests", "images": [DOT]}),
    ("reject", {}),
    ("answer", {"text": "8080", "id": 7}),
    ("answer", {"choice": "no", "text": "why?"}),
    *((name, {}) for name in ("cancel", "ping", "shutdown", "clear")),
]


@each_row(("name", "fields"), ACCEPTED)
def test_a_command_is_read_with_its_fields(name: str, fields: dict[str, Any]):
    command = read_command(line(name, hello=[1], **fields), 1)
    assert command == StreamCommand(name, "r", fields)
    assert command.images == (SEEN if "images" in fields else ())


def test_the_request_id_is_trimmed_and_half_a_character_is_replaced():
    data = b'{"command":"message","requestId":" \\t r\\n","prompt":"a\\ud83d"}'
    assert read_command(data, 1) == StreamCommand("message", "r", {"prompt": "a\ufffd"})


BAD = [
    ("invalid JSON", b"{", "invalid JSON"),
    ("invalid JSON, not UTF-8", b'{"command":"p\xe9ng"}', "invalid JSON (it is not UTF-8)"),
    ("invalid JSON, too deep", b"[" * 100_000, "invalid JSON (it is nested too deeply)"),
    ("invalid JSON, a number", b"9" * 5000, "invalid JSON (a number in it is too long)"),
    ("not an object", b"[1]", "it is not a JSON object"),
    ("not an object, null", b"null", "it is not a JSON object"),
    ("no string command", b'{"requestId":"r"}', '"command" is missing or not a string'),
    ("no string command, a number", b'{"command":1}', '"command" is missing or not a string'),
    (
        "unsupported command",
        b'{"command":"stat","requestId":"r"}',
        f'unsupported command "stat"; use one of {", ".join(COMMANDS)}',
    ),
    ("no requestId", b'{"command":"ping"}', '"requestId" must be a non-blank string'),
    (
        "blank requestId",
        b'{"command":"ping","requestId":" "}',
        '"requestId" must be a non-blank string',
    ),
    ("no prompt", line("start"), '"prompt" must be a non-blank string'),
    ("blank prompt", line("message", prompt=" \n"), '"prompt" must be a non-blank string'),
    ("images", line("start", prompt="x", images="a"), '"images" must be a list of strings'),
    (
        "images of others",
        line("start", prompt="x", images=[1]),
        '"images" must be a list of strings',
    ),
    (
        "images that are none",
        line("start", prompt="x", images=["a.png"]),
        '"images" must be data URIs: data:image/...;base64,...',
    ),
    (
        "19 images per message",
        line("start", prompt="x", images=[DOT] * 21),
        '"images" has 21 images; a message can have 20',
    ),
    (
        "taskId no string",
        line("start", prompt="x", taskId=1),
        '"taskId" must be a non-blank string',
    ),
    ("taskId blank", line("start", prompt="x", taskId=""), '"taskId" must be a non-blank string'),
    ("taskId no UUID", line("start", prompt="x", taskId="t1"), '"taskId" must be a UUID'),
    (
        "taskId of no version",
        line("start", prompt="x", taskId="3f0c3a5e-6c5e-9d2a-9d0b-0c7a1d6f2b11"),
        '"taskId" must be a UUID',
    ),
    (
        "configuration",
        line("start", prompt="x", configuration=[]),
        '"configuration" must be an object',
    ),
    ("answer without any", line("answer", text=" "), 'an answer needs "text" or "choice"'),
    (
        "answer with another choice",
        line("answer", choice="ok"),
        '"choice" must be one of yes, no, task, expand, halt',
    ),
    (
        "answer to a yes",
        line("answer", text="x", id=True),
        '"id" must be the id of a question, a whole number',
    ),
    (
        "answer to no id",
        line("answer", text="x", id="7"),
        '"id" must be the id of a question, a whole number',
    ),
]


@pytest.mark.parametrize(
    ("given_line", "reason"), [row[1:] for row in BAD], ids=[r[0] for r in BAD]
)
def test_a_bad_line_is_refused_with_its_number_and_a_reason(given_line: bytes, reason: str):
    with pytest.raises(BadCommand) as refusal:
        read_command(given_line, 12)
    assert str(refusal.value).startswith(f"stdin command line 12: {reason}")


def test_the_first_problem_is_reported():
    wrong: dict[str, Any] = {"images": 1, "taskId": 1, "prompt": 1, "requestId": 1, "command": 1}
    mended: dict[str, Any] = {
        "command": "start",
        "requestId": "r",
        "prompt": "x",
        "images": [],
        "taskId": TASK,
    }
    order = []
    while wrong:
        with pytest.raises(BadCommand) as refusal:
            read_command(json.dumps(wrong).encode(), 1)
        [named] = [name for name in mended if f'"{name}"' in str(refusal.value)]
        order.append(named)
        wrong[named] = mended.pop(named)
        wrong = {} if not mended else wrong
    assert order == ["command", "requestId", "prompt", "images", "taskId"]


@each_row(
    ("given_line", "request_id", "command"),
    [
        (line("start"), "r", "start"),
        (line("stat"), "r", ""),
        (b'{"command":"ping","requestId":3}', "", "ping"),
        (b"{", "", ""),
    ],
)
def test_readable_fields_of_a_bad_line_are_kept(given_line: bytes, request_id: str, command: str):
    with pytest.raises(BadCommand) as refusal:
        read_command(given_line, 1)
    assert (refusal.value.request_id, refusal.value.command) == (request_id, command)


values = st.sampled_from(
    [None, 0, 7, True, "", " ", "x", "yes", TASK, [], [DOT], ["x"], {}, {"mode": "ask"}]
)
names = ["requestId", "prompt", "taskId", "images", "configuration", "text", "id", "choice", "more"]
SCHEMA = jsonschema.Draft202012Validator(commands_schema())


@given(
    command=st.sampled_from([*COMMANDS, "stat", "", None]),
    fields=st.dictionaries(st.sampled_from(names), values, max_size=6),
)
def test_the_parser_accepts_exactly_what_the_schema_allows(
    command: str | None, fields: dict[str, Any]
):
    given_object = {"command": command, **fields}
    try:
        read_command(json.dumps(given_object).encode(), 1)
        accepted = True
    except BadCommand:
        accepted = False
    assert accepted == SCHEMA.is_valid(given_object)


@given(st.binary(max_size=200))
def test_any_bytes_give_a_command_or_a_reason(data: bytes):
    reason = "stdin command line 1: "
    try:
        read_command(data, 1)
    except BadCommand as refusal:
        reason = str(refusal)
    assert reason.startswith("stdin command line 1: ")


@each_row(
    ("configuration", "expected"),
    [
        ({}, StartSettings()),
        ({"mode": "ask"}, StartSettings(mode="ask")),
        ({"apiModelId": "m"}, StartSettings(model="m")),
        ({"model": "m", "apiModelId": "other"}, StartSettings(model="m")),
        ({"apiProvider": "p", "model": "m"}, StartSettings(provider="p", model="m")),
        ({"autoApprovalEnabled": False}, StartSettings(automatic=False)),
        ({"autoApprovalEnabled": "yes"}, StartSettings(ignored=("autoApprovalEnabled",))),
        ({"mode": 1, "terminalShell": "zsh"}, StartSettings(ignored=("mode", "terminalShell"))),
    ],
)
def test_unsupported_configuration_fields_are_listed_as_ignored(
    configuration: dict[str, Any], expected: StartSettings
):
    assert start_settings(configuration) == expected


@each_row(
    ("configuration", "problem"),
    [
        ({"autoApprovalEnabled": False, "terminalShell": "zsh"}, ""),
        ({"autoApprovalEnabled": "false"}, "autoApprovalEnabled must be true or false."),
        ({"autoAprovalEnabled": False}, "did you mean 'autoApprovalEnabled'?"),
        ({"auto_approval_enabled": False}, "did you mean 'autoApprovalEnabled'?"),
    ],
)
def test_a_misspelled_or_mistyped_approval_setting_is_refused(
    configuration: dict[str, Any], problem: str
):
    reported = approval_problem(start_settings(configuration))
    assert problem in reported if problem else not reported
