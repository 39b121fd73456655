"""Parses the driver's messages of `--json-io`: one JSON object on each line, with a `type`.

The published schema is generated from the same table. Unknown types are no error: webviews send
many messages that only concern their editor.
"""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from rookery.compat.control_stream.stream_commands import (
    MOST_IMAGES,
    SETTINGS,
    TASK_ID,
    TEXT,
    WORDS,
    Field,
    Shape,
)
from rookery.compat.driver import StartSettings, start_settings
from rookery.compat.json_io import request_types as wants
from rookery.compat.json_io.task_rows import Wire
from rookery.core.asks import CHOICES, Reply, reply_of
from rookery.core.text.characters import whole_values

SPANS: tuple[wants.Span, ...] = ("checkpoint", "from-init", "to-current", "full")
REPLIES: Mapping[str, Reply] = {
    "yesButtonClicked": "yes",
    "noButtonClicked": "no",
    "messageResponse": "message",
    "objectResponse": "message",
}
OPERATIONS = ("continue", "abort")


class BadMessage(Exception):
    """An invalid line; the text says why."""


def _images_problem(given: Any) -> str:
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        return "must be a list of strings"
    return f"has more than {MOST_IMAGES} images" if len(given) > MOST_IMAGES else ""


def _ts_problem(given: Any) -> str:
    moment = isinstance(given, int | float) and not isinstance(given, bool)
    return "" if moment else "must be the ts of a message, a number"


def _bool_problem(given: Any) -> str:
    return "" if isinstance(given, bool) else "must be true or false"


def _one_of(*choices: str) -> Shape:
    names = " or ".join(f'"{each}"' for each in choices)
    return Shape(
        {"enum": list(choices)}, lambda given: "" if given in choices else f"must be {names}"
    )


def _made_of(*fields: Field) -> Shape:
    def problem(given: Any) -> str:
        if not isinstance(given, dict):
            return "must be an object"
        return _problem_in(fields, given)

    described = {
        "type": "object",
        "properties": {field.name: dict(field.shape.schema) for field in fields},
        "required": [field.name for field in fields if field.required],
    }
    return Shape(described, problem)


IMAGES = Shape(
    {"type": "array", "maxItems": MOST_IMAGES, "items": {"type": "string"}},
    _images_problem,
)
ROW_TS = Shape({"type": "number"}, _ts_problem)
BOOL = Shape({"type": "boolean"}, _bool_problem)

_TEXT, _IMAGES = Field("text", TEXT), Field("images", IMAGES)
_NAMED = (Field("text", WORDS, True),)
_ROW, _MESSAGE = Field("value", ROW_TS, True), Field("messageTs", ROW_TS, True)
_EDITED = (_ROW, Field("editedMessageContent", WORDS, True), _IMAGES)
_WITH_FILES = Field("restoreCheckpoint", BOOL)


class MessageKind(Struct, frozen=True):
    """A type of message: its fields in the order they are checked, and how it is read."""

    fields: tuple[Field, ...]
    read: Callable[[Wire], wants.Request]


def _images(given: Wire) -> tuple[str, ...]:
    return tuple(given.get("images", ()))


def _new_task(given: Wire) -> wants.Request:
    return wants.NewTaskRequest(
        text=given.get("text", ""),
        images=_images(given),
        task_id=given.get("taskId", "").strip().lower(),
        settings=start_settings(given.get("taskConfiguration", {})),
    )


def _answer(given: Wire) -> wants.Request:
    choice = given.get("choice")
    return wants.AnswerRequest(
        reply=reply_of(choice) if choice else REPLIES[given["askResponse"]],
        choice=choice,
        text=given.get("text", ""),
        images=_images(given),
        row=given.get("messageTs"),
        task_id=given.get("taskId", ""),
        always=given.get("always", False),
    )


def _edit(given: Wire) -> wants.Request:
    return wants.EditRequest(message_id=given["payload"]["id"], text=given["payload"]["text"])


def _compare(given: Wire) -> wants.Request:
    payload = given["payload"]
    span = payload.get("mode", "checkpoint")
    return wants.CompareFiles(span=span, row=payload.get("ts"))


def _restore(given: Wire) -> wants.Request:
    payload = given["payload"]
    return wants.RestoreFilesRequest(row=payload["ts"], with_words=payload.get("mode") == "restore")


def _review(given: Wire) -> wants.Request:
    text = given.get("editedMessageContent")
    return wants.ReviewMessage(row=given["value"], text=text, images=_images(given))


def _rewrite(given: Wire) -> wants.Request:
    return wants.RewriteMessage(
        row=given["messageTs"],
        text=given.get("text"),
        images=_images(given),
        with_files=given.get("restoreCheckpoint", False),
    )


def _switch_mode(given: Wire) -> wants.Request:
    return wants.Choose(settings=StartSettings(mode=given["text"].strip()))


def _switch_approval(given: Wire) -> wants.Request:
    return wants.Choose(settings=StartSettings(automatic=given["bool"]))


def _find(given: Wire) -> wants.Request:
    return wants.FindFiles(letters=given.get("query", ""), request_id=given.get("requestId", ""))


KINDS: Mapping[str, MessageKind] = {
    "newTask": MessageKind(
        (_TEXT, _IMAGES, Field("taskId", TASK_ID), Field("taskConfiguration", SETTINGS)), _new_task
    ),
    "askResponse": MessageKind(
        (
            Field("askResponse", _one_of(*REPLIES), True),
            _TEXT,
            _IMAGES,
            Field("messageTs", ROW_TS),
            Field("taskId", TEXT),
            Field("always", BOOL),
            Field("choice", _one_of(*CHOICES)),
        ),
        _answer,
    ),
    "queueMessage": MessageKind(
        (_TEXT, _IMAGES),
        lambda given: wants.Queue(text=given.get("text", ""), images=_images(given)),
    ),
    "editQueuedMessage": MessageKind(
        (Field("payload", _made_of(Field("id", WORDS, True), Field("text", TEXT, True)), True),),
        _edit,
    ),
    "removeQueuedMessage": MessageKind(
        _NAMED, lambda given: wants.EditRequest(message_id=given["text"])
    ),
    "clearTask": MessageKind((), lambda given: wants.ClearRequest()),
    "cancelTask": MessageKind((), lambda given: wants.CancelRequest()),
    "terminalOperation": MessageKind(
        (Field("terminalOperation", _one_of(*OPERATIONS), True),),
        lambda given: wants.HandleCommand(ends=given["terminalOperation"] == "abort"),
    ),
    "showTaskWithId": MessageKind(
        _NAMED, lambda given: wants.ShowTask(task_id=given["text"].strip())
    ),
    "deleteTaskWithId": MessageKind(
        _NAMED, lambda given: wants.DeleteRequest(task_id=given["text"].strip())
    ),
    "mode": MessageKind(_NAMED, _switch_mode),
    "switchMode": MessageKind(_NAMED, _switch_mode),
    "autoApprovalEnabled": MessageKind((Field("bool", BOOL, True),), _switch_approval),
    "updateSettings": MessageKind(
        (Field("updatedSettings", SETTINGS, True),),
        lambda given: wants.Choose(settings=start_settings(given["updatedSettings"])),
    ),
    "webviewDidLaunch": MessageKind((), lambda given: wants.LaunchRequest()),
    "requestCommands": MessageKind((), lambda given: wants.WantCommands()),
    "requestModes": MessageKind((), lambda given: wants.WantModes()),
    "requestRouterModels": MessageKind((), lambda given: wants.WantModels()),
    "requestRooModels": MessageKind((), lambda given: wants.WantModels(only_ours=True)),
    "searchFiles": MessageKind((Field("query", TEXT), Field("requestId", TEXT)), _find),
    "condenseTaskContextRequest": MessageKind(
        (_TEXT,), lambda given: wants.CondenseTask(task_id=given.get("text", ""))
    ),
    "checkpointDiff": MessageKind(
        (Field("payload", _made_of(Field("ts", ROW_TS), Field("mode", _one_of(*SPANS))), True),),
        _compare,
    ),
    "checkpointRestore": MessageKind(
        (
            Field(
                "payload",
                _made_of(Field("ts", ROW_TS, True), Field("mode", _one_of("preview", "restore"))),
                True,
            ),
        ),
        _restore,
    ),
    "deleteMessage": MessageKind((_ROW,), _review),
    "editMessage": MessageKind(_EDITED, _review),
    "submitEditedMessage": MessageKind(_EDITED, _review),
    "deleteMessageConfirm": MessageKind((_MESSAGE, _WITH_FILES), _rewrite),
    "editMessageConfirm": MessageKind(
        (_MESSAGE, Field("text", WORDS, True), _IMAGES, _WITH_FILES), _rewrite
    ),
    "cancelAutoApproval": MessageKind((), lambda given: wants.Ignored(type="cancelAutoApproval")),
    "shutdown": MessageKind((), lambda given: wants.ShutdownRequest()),
    "ping": MessageKind((), lambda given: wants.PingRequest()),
}


def read_request(line: bytes, number: int) -> wants.Request:
    """Parse a line. Raises `BadMessage` with the first problem."""
    try:
        given = whole_values(_load(line.decode("utf-8")))
    except UnicodeDecodeError as error:
        raise _bad(number, "it is not UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise _bad(number, f"it is not JSON ({error})") from error
    if not isinstance(given, dict):
        raise _bad(number, "it is not a JSON object")
    type = given.get("type")
    if not isinstance(type, str):
        raise _bad(number, '"type" is missing or not a string')
    if type not in KINDS:
        return wants.Ignored(type=type)
    kind = KINDS[type]
    if problem := _problem_in(kind.fields, given):
        raise _bad(number, f"{type}: {problem}")
    checked = {field.name for field in kind.fields}
    known = {name: each for name, each in given.items() if name in checked and each is not None}
    return kind.read(known)


def _load(text: str) -> Any:
    return json.loads(text, parse_float=_finite, parse_constant=_finite)


def _finite(text: str) -> float:
    """Reject NaN and infinity (1e999), which Python's parser accepts."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is not a finite number")
    return number


def _bad(number: int, reason: str) -> BadMessage:
    return BadMessage(f"Line {number} of the input is not a message: {reason}.")


def _problem_in(fields: tuple[Field, ...], given: Wire) -> str:
    """Return the first problem of the fields. Webviews write null for a missing field."""
    for field in fields:
        known = given.get(field.name)
        if known is None and not field.required:
            continue
        if problem := field.shape.problem(known):
            return f'"{field.name}" {problem}'
    return ""
