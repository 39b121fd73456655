"""What a model means that copies the mark of a hidden character into a call.

In an edit of the file that holds the character, it means the character. Anywhere else the mark
would become text, so the call is refused.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from rookery.core.blocks import ToolCall
from rookery.core.facts import CommandEnded, Event, Gathered, ToolFinished
from rookery.core.text.hidden_characters import hidden_marks, marks_in, texts_in, unmarked
from rookery.engine.ports import Files, Tool, ToolGroup
from rookery.errors import ToolError

MOST_FILES = 20
_NAMES = ("path", "file_path")
_IN_PATCH = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+?)\s*$", re.MULTILINE)


async def with_hidden_characters(
    call: ToolCall, tools: Mapping[str, Tool[Any]], files: Files, events: Iterable[Event]
) -> ToolCall:
    """The call with marks put back for the characters that they stand for in the edited files.
    Raises `ToolError` if a mark is left that the model has read."""
    arguments = dict(call.arguments)
    tool = tools.get(call.name)
    if tool is None or tool.group not in (ToolGroup.EDIT, ToolGroup.COMMAND):
        return call
    if not any(map(marks_in, texts_in(arguments))):
        return call
    original = ""
    if tool.group is ToolGroup.EDIT:
        for path in list(dict.fromkeys(_paths(arguments)))[:MOST_FILES]:
            original += await _content(path, files)
        arguments = _unmarked(arguments, original)
    _refuse_copied_marks(arguments, original, events)
    return replace(call, arguments=arguments)


def _refuse_copied_marks(
    arguments: Mapping[str, Any], original: str, events: Iterable[Event]
) -> None:
    marks = [mark for text in texts_in(arguments) for mark in hidden_marks(text)]
    left = [mark for mark in marks if mark not in original]
    if not left:
        return
    read = [
        event.fact.text
        for event in events
        if isinstance(event.fact, ToolFinished | CommandEnded | Gathered)
    ]
    if copied := next((mark for mark in left if any(mark in text for text in read)), ""):
        raise ToolError(
            f"Nothing was done: {copied}, which you have read, marks a hidden character and would "
            f"become text here. Write the character itself, or {copied[1:-1]} if you mean the text."
        )


def _paths(arguments: Mapping[str, Any]) -> Iterator[str]:
    for name in _NAMES:
        if isinstance(path := arguments.get(name), str):
            yield path
    if isinstance(patch := arguments.get("patch"), str):
        yield from _IN_PATCH.findall(patch)


async def _content(path: str, files: Files) -> str:
    try:
        file = await files.examine(path)
    except ToolError:
        return ""
    return file.text if file else ""


def _unmarked(value: Any, original: str) -> Any:
    match value:
        case str():
            return unmarked(value, original)
        case dict():
            return {key: _unmarked(each, original) for key, each in value.items()}
        case list() | tuple():
            return [_unmarked(each, original) for each in value]
    return value
