"""Requests to models without native tool calls, and their answers.

The tools are described in the system prompt, earlier calls are printed in one shape, and results
come as messages of the user. `calls = "text"`: the model prints its calls, and the engine reads
them. `calls = "schema"`: the server constrains the answer to JSON that is a call or words.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from rookery.core.blocks import Block, Text, ToolCall, ToolResult
from rookery.core.facts import StopReason
from rookery.core.folds.argument_reader import ArgumentReader
from rookery.core.folds.history import Turn
from rookery.core.text.call_shapes import WHOLE_FILE
from rookery.core.text.literals import NoValue, read_whole
from rookery.engine.ports.model import (
    CallChunk,
    Chunk,
    ModelInfo,
    ModelRequest,
    StopChunk,
    TextChunk,
    ToolSpec,
)
from rookery.errors import ProviderError
from rookery.first_use import lazy_pattern
from rookery.providers.listener import Reading
from rookery.providers.wire_format import encode_body

TAGS = """\
# Tools

To call a tool, print its name as a tag, and in it each argument as a tag of its own. Text between \
tags is taken as it is. You may print several calls. The results come in the next message. To \
answer, write words without a call."""
OBJECTS = """\
# Tools

Every reply is one JSON object: {"tool": name, "args": arguments} calls a tool, and its result \
comes in the next message; {"answer": words} is your answer."""

_REFUSED = lazy_pattern(
    r"(?:does not|doesn't|do not) support (?:tool|function)|tools? (?:is|are|use is) not supported"
    r"|endpoints found that support tool use|enable-auto-tool-choice|tools param requires",
    re.IGNORECASE,
)


def in_words(request: ModelRequest, calls: str) -> ModelRequest:
    """The request with tools and earlier calls as text, for this way of calling tools."""
    names = {
        block.id: block.name
        for turn in request.turns
        for block in turn.blocks
        if isinstance(block, ToolCall)
    }
    turns = [Turn(turn.role, tuple(_spoken(turn.blocks, names, calls))) for turn in request.turns]
    if not request.tools:
        return replace(request, turns=turns)
    how = OBJECTS if calls == "schema" else TAGS
    described = "\n".join(_described(spec) for spec in request.tools)
    return replace(
        request,
        system="\n\n".join(filter(None, (request.system.strip(), how, described))),
        turns=turns,
        tools=(),
        answer_schema=request.answer_schema
        or (_schema(request.tools) if calls == "schema" else None),
    )


def without_tools(model: ModelInfo, error: ProviderError) -> ModelInfo:
    """The model with calls as text, if this error says that it takes no tools; else raises it."""
    if not _REFUSED.search(str(error)):
        raise error
    return replace(model, calls="text")


class SchemaReading:
    """Reads a constrained answer: a call, or words, which are passed on as they come."""

    def __init__(self, inner: Reading) -> None:
        self._inner = inner
        self._fields = ArgumentReader()
        self._pieces: list[str] = []
        self._shown = 0

    def read_event(self, event: Any) -> Iterable[Chunk]:
        return [each for chunk in self._inner.read_event(event) for each in self._read(chunk)]

    def close(self, *, marked: bool) -> Iterable[Chunk]:
        for chunk in self._inner.close(marked=marked):
            yield from self._read(chunk)

    def _read(self, chunk: Chunk) -> Iterable[Chunk]:
        if isinstance(chunk, StopChunk):
            return self._end(chunk)
        if not isinstance(chunk, TextChunk):
            return [chunk]
        self._pieces.append(chunk.text)
        self._fields.feed(chunk.text)
        return self._more(self._fields.known().get("answer"))

    def _more(self, answer: object) -> Iterable[Chunk]:
        if not isinstance(answer, str) or len(answer) <= self._shown:
            return []
        text, self._shown = answer[self._shown :], len(answer)
        return [TextChunk(text)]

    def _end(self, stop: StopChunk) -> Iterable[Chunk]:
        text = "".join(self._pieces)
        try:
            value = read_whole(text)
        except NoValue:
            value = None
        match value:
            case {"tool": str(name), "args": dict(arguments)}:
                yield CallChunk(0, encode_body(arguments).decode(), name=name)
                yield StopChunk(StopReason.CALLS)
                return
            case {"answer": str(answer)}:
                yield from self._more(answer)
            case _ if not self._shown and text:
                yield TextChunk(text)
        yield stop


def _spoken(blocks: Sequence[Block], names: Mapping[str, str], calls: str) -> Iterator[Block]:
    """Texts are joined, since some wires put nothing between them."""
    parts: list[str] = []
    for block in blocks:
        match block:
            case Text(text=text):
                parts.append(text)
            case ToolCall():
                parts.append(printed(block) if calls == "text" else _object(block))
            case ToolResult(call_id=call_id, text=text, is_error=failed):
                name = names.get(call_id, "the tool")
                parts.append(f"{name} failed:\n{text}" if failed else f"Result of {name}:\n{text}")
                yield from block.images
            case _:
                yield block
    if parts:
        yield Text(text="\n\n".join(parts))


def printed(call: ToolCall) -> str:
    """A call in the shape that `core/text/written_calls.py` reads back."""
    fields = "".join(f"{_element(name, value)}\n" for name, value in call.arguments.items())
    return f"<{call.name}>\n{fields}</{call.name}>"


def _element(name: str, value: object) -> str:
    if not isinstance(value, str):
        return f"<{name}>{msgspec.json.encode(value).decode()}</{name}>"
    if "\n" not in value:
        return f"<{name}>{value}</{name}>"
    return f"<{name}>\n{value}{'' if name in WHOLE_FILE else chr(10)}</{name}>"


def _object(call: ToolCall) -> str:
    return encode_body({"tool": call.name, "args": dict(call.arguments)}).decode()


def _described(spec: ToolSpec) -> str:
    """One line: what the tool does, and its arguments."""
    required = spec.schema.get("required", ())
    fields = spec.schema.get("properties", {})
    named = [_argument(name, field, name in required) for name, field in fields.items()]
    arguments = f" Arguments: {', '.join(named)}." if named else ""
    return f"- {spec.name}: {' '.join(spec.description.split())}{arguments}"


def _argument(name: str, field: Mapping[str, Any], required: bool) -> str:
    kind = field.get("type", "string")
    facts = [*([] if kind == "string" else [str(kind)]), *([] if required else ["optional"])]
    if described := " ".join(str(field.get("description", "")).split()).rstrip("."):
        facts.append(described)
    return f"{name} ({'; '.join(facts)})" if facts else name


def _schema(tools: Sequence[ToolSpec]) -> dict[str, Any]:
    calls = [
        _fields({"tool": {"type": "string", "enum": [spec.name]}, "args": spec.schema})
        for spec in tools
    ]
    return {"anyOf": [*calls, _fields({"answer": {"type": "string"}})]}


def _fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }
