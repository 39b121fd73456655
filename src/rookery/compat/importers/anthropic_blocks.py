"""Messages in the format of Anthropic's API, which Claude Code, Roo Code, Cline and Kilo store."""

from collections.abc import Iterator
from typing import Any

from rookery.compat.importers.foreign_sessions import (
    AgentEntry,
    Entry,
    Record,
    ResultEntry,
    UserEntry,
    dollars,
    inline_image,
    number,
    record,
    records,
    text,
    with_images,
)
from rookery.core.blocks import Image, Text, ToolCall
from rookery.core.facts import Usage


def user_entries(content: object, ts: int) -> Iterator[Entry]:
    """Results first, as the API demands, then what the user said."""
    blocks = blocks_of(content)
    for block in blocks:
        if block.get("type") == "tool_result":
            yield _result(block, ts)
    words, images = _words_and_images(blocks)
    if words or images:
        yield UserEntry(text=words, images=tuple(images), ts=ts)


def blocks_of(content: object) -> list[Record]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return records(content)


def agent_entry(message: Record, *, ts: int, usage: Usage, request: str = "") -> AgentEntry:
    """An answer without its reasoning, which only its own provider could verify."""
    blocks = blocks_of(message.get("content"))
    said = tuple(found for block in blocks if (found := _said(block)))
    model = text(message.get("model"))
    return AgentEntry(blocks=said, model=model, usage=usage, request=request, ts=ts)


def usage_of(usage: object, cost: object = None) -> Usage:
    known = record(usage)
    reads = number(known.get("cache_read_input_tokens"))
    writes = number(known.get("cache_creation_input_tokens"))
    return Usage(
        tokens_in=number(known.get("input_tokens")) + reads + writes,
        tokens_out=number(known.get("output_tokens")),
        cache_reads=reads,
        cache_writes=writes,
        cost=dollars(cost),
    )


def _said(block: Record) -> Text | ToolCall | None:
    match block:
        case {"type": "text", "text": str(words)} if words.strip():
            return Text(text=words)
        case {"type": "tool_use", "id": str(call_id), "name": str(name)}:
            return ToolCall(id=call_id, name=name, arguments=record(block.get("input")))
        case _:
            return None


def _result(block: Record, ts: int) -> ResultEntry:
    words, images = _words_and_images(blocks_of(block.get("content")))
    return ResultEntry(
        call_id=text(block.get("tool_use_id")),
        text=words,
        images=tuple(images),
        failed=block.get("is_error") is True,
        ts=ts,
    )


def _words_and_images(blocks: list[Record]) -> tuple[str, list[Image]]:
    words: list[str] = []
    images: list[Image | None] = []
    for block in blocks:
        match block:
            case {"type": "text", "text": str(said)}:
                words.append(said)
            case {"type": "image"}:
                source: dict[str, Any] = record(block.get("source"))
                images.append(inline_image(source.get("data")))
            case _:
                pass
    return with_images(words, images)
