"""The commands of the control stream and the replies to them.

A command is one JSON object on each line, checked against one table. The published schema is
generated from the same table, so that both always agree. An accepted command gets an ack and a
done, any other a single error.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from rookery.compat.structured_output.call_rows import Output, output
from rookery.core.asks import CHOICES
from rookery.core.blocks import Image
from rookery.core.text.characters import whole_values
from rookery.protocol.picture_files import PATTERN, image_in

MOST_IMAGES = 20
UUID_PATTERN = (
    "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[1-8][0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$"
)
_UUID = re.compile(UUID_PATTERN)

REPLY_CONTENTS = {
    "accepted": "Accepted.",
    "task_completed": "The task is complete.",
    "task_failed": "The task ended without being completed.",
    "task_aborted": "The task was interrupted.",
    "task_busy": "The task is still running. Wait for its result, or cancel it.",
    "task_error": "The task could not continue.",
    "responded": "The question was answered.",
    "queued": "It is queued for the model's next request.",
    "resumed": "The model gets it when the task continues.",
    "no_active_task": "No task is running.",
    "no_pending_ask": "No such question is open.",
    "cancel_requested": "The task is being interrupted.",
    "cancel_error": "The task could not be interrupted.",
    "pong": "pong",
    "shutdown_requested": "Shutting down.",
    "cleared": "The task was closed.",
    "invalid_command": "This is not a command.",
    "client_error": "The command could not be carried out.",
}
"""Every reply code with its default text."""
UNSUCCESSFUL = ("task_failed", "task_aborted")


class Shape(Struct, frozen=True):
    """The type of a field: its schema, and a function that returns why a value is invalid."""

    schema: Mapping[str, Any]
    problem: Callable[[Any], str]


class Field(Struct, frozen=True):
    name: str
    shape: Shape
    required: bool = False


def _words_problem(given: Any) -> str:
    return "" if isinstance(given, str) and given.strip() else "must be a non-blank string"


def _images_problem(given: Any) -> str:
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        return "must be a list of strings"
    if len(given) > MOST_IMAGES:
        return f"has {len(given)} images; a message can have {MOST_IMAGES}"
    if any(image_in(each) is None for each in given):
        return "must be data URIs: data:image/...;base64,..."
    return ""


def _uuid_problem(given: Any) -> str:
    return _words_problem(given) or ("" if _UUID.match(given.strip()) else "must be a UUID")


def _choice_problem(given: Any) -> str:
    known = given in ("yes", "no", *CHOICES)
    return "" if known else f"must be one of yes, no, {', '.join(CHOICES)}"


def of_type(cls: type, name: str, words: str) -> Shape:
    """Values of this type; a boolean is no integer."""
    return Shape({"type": name}, lambda given: "" if type(given) is cls else f"must be {words}")


WORDS = Shape({"type": "string", "pattern": "\\S"}, _words_problem)
TEXT = of_type(str, "string", "a string")
IMAGES = Shape(
    {"type": "array", "maxItems": MOST_IMAGES, "items": {"type": "string", "pattern": PATTERN}},
    _images_problem,
)
TASK_ID = Shape({"type": "string", "pattern": UUID_PATTERN}, _uuid_problem)
SETTINGS = of_type(dict, "object", "an object")
ROW = of_type(int, "integer", "the id of a question, a whole number")
CHOICE = Shape({"enum": ["yes", "no", *CHOICES]}, _choice_problem)

_PROMPT, _IMAGES, _TEXT = Field("prompt", WORDS, True), Field("images", IMAGES), Field("text", TEXT)

COMMANDS: Mapping[str, tuple[Field, ...]] = {
    "start": (_PROMPT, _IMAGES, Field("taskId", TASK_ID), Field("configuration", SETTINGS)),
    "message": (_PROMPT, _IMAGES),
    "cancel": (),
    "ping": (),
    "shutdown": (),
    "approve": (_TEXT, _IMAGES),
    "reject": (_TEXT, _IMAGES),
    "answer": (_TEXT, _IMAGES, Field("id", ROW), Field("choice", CHOICE)),
    "clear": (),
}
"""The fields of each command, in the order they are checked. `requestId` is in every one."""

CAPABILITIES = [f"stdin:{name}" for name in COMMANDS]
REQUEST_ID = Field("requestId", WORDS, True)


class StreamCommand(Struct, frozen=True):
    """A command with those of its fields that are in the table, checked."""

    name: str
    request_id: str
    fields: Mapping[str, Any] = {}

    @property
    def images(self) -> tuple[Image, ...]:
        return tuple(image for uri in self.fields.get("images", ()) if (image := image_in(uri)))


class BadCommand(Exception):
    """An invalid command line, with the parts that are needed to reply to it."""

    def __init__(self, message: str, *, request_id: str = "", command: str = "") -> None:
        super().__init__(message)
        self.request_id = request_id
        self.command = command


def read_command(line: bytes, number: int) -> StreamCommand:
    """Parse a command line. Raises `BadCommand` with the first problem."""
    given = _object_in(line, number)
    request_id = given.get("requestId")
    request_id = request_id.strip() if isinstance(request_id, str) else ""
    name = given.get("command")

    def bad(reason: str) -> BadCommand:
        value = name if isinstance(name, str) and name in COMMANDS else ""
        return BadCommand(_message(number, reason), request_id=request_id, command=value)

    if not isinstance(name, str):
        raise bad('"command" is missing or not a string')
    if name not in COMMANDS:
        raise bad(f'unsupported command "{name[:40]}"; use one of {", ".join(COMMANDS)}')
    for field in (REQUEST_ID, *COMMANDS[name]):
        if field.name not in given:
            if field.required:
                raise bad(f'"{field.name}" {field.shape.problem(None)}')
        elif problem := field.shape.problem(given[field.name]):
            raise bad(f'"{field.name}" {problem}')
    if name == "answer" and not (given.get("text", "").strip() or "choice" in given):
        raise bad('an answer needs "text" or "choice"')
    known = {field.name: given[field.name] for field in COMMANDS[name] if field.name in given}
    return StreamCommand(name, request_id, known)


def _message(number: int, reason: str) -> str:
    return f"stdin command line {number}: {reason}"


def _object_in(line: bytes, number: int) -> dict[str, Any]:
    try:
        given = whole_values(json.loads(line.decode("utf-8")))
    except (ValueError, RecursionError) as error:
        raise BadCommand(_message(number, f"invalid JSON ({_why(error)})")) from error
    if not isinstance(given, dict):
        raise BadCommand(_message(number, "it is not a JSON object"))
    return given


def _why(error: ValueError | RecursionError) -> str:
    match error:
        case UnicodeDecodeError():
            return "it is not UTF-8"
        case json.JSONDecodeError(msg=msg, pos=pos):
            return f"{msg} at character {pos + 1}"
        case RecursionError():
            return "it is nested too deeply"
        case _:
            return "a number in it is too long"


def ack_reply(request_id: str, command: str, task_id: str = "") -> Output:
    return _reply("ack", request_id, command, "accepted", task_id=task_id, success=True)


def done_reply(request_id: str, command: str, code: str, task_id: str = "") -> Output:
    success = code not in UNSUCCESSFUL
    return _reply("done", request_id, command, code, task_id=task_id, success=success)


def error_reply(
    request_id: str, command: str, code: str, content: str = "", task_id: str = ""
) -> Output:
    return _reply("error", request_id, command, code, content, task_id=task_id, success=False)


def _reply(
    subtype: str,
    request_id: str,
    command: str,
    code: str,
    content: str = "",
    *,
    task_id: str,
    success: bool,
) -> Output:
    return output(
        type="control",
        subtype=subtype,
        requestId=request_id,
        command=command or None,
        taskId=task_id or None,
        content=content or REPLY_CONTENTS[code],
        code=code,
        success=success,
        done=True if subtype == "done" else None,
    )
