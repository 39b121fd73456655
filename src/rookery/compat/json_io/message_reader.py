"""Parses the driver's messages of `--json-io`: one JSON object on each line, with a `type`.

The published schema is generated from the same table. Unknown types are no error: webviews send
many messages that only concern their editor.
"""

import json
import math
from collections.abc import Mapping
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
    of_type,
)
from rookery.compat.json_io.row_messages import Wire
from rookery.core.asks import CHOICES, Reply
from rookery.core.text.characters import whole_values

SPANS = ("checkpoint", "from-init", "to-current", "full")
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
BOOL = of_type(bool, "boolean", "true or false")

_TEXT, _IMAGES = Field("text", TEXT), Field("images", IMAGES)
_NAMED = (Field("text", WORDS, True),)
_ROW, _MESSAGE = Field("value", ROW_TS, True), Field("messageTs", ROW_TS, True)
_EDITED = (_ROW, Field("editedMessageContent", WORDS, True), _IMAGES)
_WITH_FILES = Field("restoreCheckpoint", BOOL)


class DriverMessage(Struct, frozen=True):
    """A message with those of its fields that its type has, checked. Null counts as missing."""

    type: str
    fields: Wire


KINDS: Mapping[str, tuple[Field, ...]] = {
    "newTask": (_TEXT, _IMAGES, Field("taskId", TASK_ID), Field("taskConfiguration", SETTINGS)),
    "askResponse": (
        Field("askResponse", _one_of(*REPLIES), True),
        _TEXT,
        _IMAGES,
        Field("messageTs", ROW_TS),
        Field("taskId", TEXT),
        Field("always", BOOL),
        Field("choice", _one_of(*CHOICES)),
    ),
    "queueMessage": (_TEXT, _IMAGES),
    "editQueuedMessage": (
        Field("payload", _made_of(Field("id", WORDS, True), Field("text", TEXT, True)), True),
    ),
    "removeQueuedMessage": _NAMED,
    "clearTask": (),
    "cancelTask": (),
    "terminalOperation": (Field("terminalOperation", _one_of(*OPERATIONS), True),),
    "showTaskWithId": _NAMED,
    "deleteTaskWithId": _NAMED,
    "mode": _NAMED,
    "switchMode": _NAMED,
    "autoApprovalEnabled": (Field("bool", BOOL, True),),
    "updateSettings": (Field("updatedSettings", SETTINGS, True),),
    "webviewDidLaunch": (),
    "requestCommands": (),
    "requestModes": (),
    "requestRouterModels": (),
    "requestRooModels": (),
    "searchFiles": (Field("query", TEXT), Field("requestId", TEXT)),
    "condenseTaskContextRequest": (_TEXT,),
    "checkpointDiff": (
        Field("payload", _made_of(Field("ts", ROW_TS), Field("mode", _one_of(*SPANS))), True),
    ),
    "checkpointRestore": (
        Field(
            "payload",
            _made_of(Field("ts", ROW_TS, True), Field("mode", _one_of("preview", "restore"))),
            True,
        ),
    ),
    "deleteMessage": (_ROW,),
    "editMessage": _EDITED,
    "submitEditedMessage": _EDITED,
    "deleteMessageConfirm": (_MESSAGE, _WITH_FILES),
    "editMessageConfirm": (_MESSAGE, Field("text", WORDS, True), _IMAGES, _WITH_FILES),
    "cancelAutoApproval": (),
    "shutdown": (),
    "ping": (),
}
"""The fields of each type of message, in the order they are checked."""


def read_request(line: bytes, number: int) -> DriverMessage:
    """Parse a line. Raises `BadMessage` with the first problem."""
    try:
        given = json.loads(line.decode("utf-8"), parse_float=_finite, parse_constant=_finite)
        given = whole_values(given)
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
        return DriverMessage(type, {})
    if problem := _problem_in(KINDS[type], given):
        raise _bad(number, f"{type}: {problem}")
    names = (field.name for field in KINDS[type])
    return DriverMessage(type, {name: given[name] for name in names if given.get(name) is not None})


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
