"""A model that copies a marked character from a file into an edit of it means the character."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from rookery.core.blocks import ToolCall
from rookery.core.hidden_characters import marks_in, texts_in, unmarked
from rookery.engine.ports import Files, Tool, ToolGroup
from rookery.errors import ToolError

MOST_FILES = 20
_NAMES = ("path", "file_path")
_IN_PATCH = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+?)\s*$", re.MULTILINE)


async def with_hidden_characters(
    call: ToolCall, tools: Mapping[str, Tool[Any]], files: Files
) -> ToolCall:
    """The call with marks put back for the characters that they stand for in the edited files."""
    arguments = dict(call.arguments)
    tool = tools.get(call.name)
    if tool is None or tool.group is not ToolGroup.EDIT:
        return call
    if not any(map(marks_in, texts_in(arguments))):
        return call
    original = ""
    for path in list(dict.fromkeys(_paths(arguments)))[:MOST_FILES]:
        original += await _content(path, files)
    return replace(call, arguments=_unmarked(arguments, original))


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
