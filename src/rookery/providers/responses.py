"""The Responses API of OpenAI, with server-side storage off."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from rookery.core.blocks import Block, Image, Text, Thinking, ToolCall, ToolResult
from rookery.core.facts import StopReason, Usage
from rookery.core.folds.history import Turn
from rookery.core.limits import Effort, effort_word
from rookery.engine.ports.model import (
    CallChunk,
    Chunk,
    ModelInfo,
    ModelRequest,
    StopChunk,
    TextChunk,
    ThinkingChunk,
    ToolSpec,
    UsageChunk,
)
from rookery.providers.catalogue import priced
from rookery.providers.exchange import Question, WireProvider
from rookery.providers.listener import ReportedError
from rookery.providers.wire_format import (
    bearer,
    count,
    detail_of_stop,
    encode_body,
    kept_json,
    sendable,
    stop_reason,
    table,
    words,
)

SOURCE = "responses"
PATH = "/responses"
headers = bearer

_KEPT = ("id", "summary", "encrypted_content")
"""Fields of a reasoning item that are sent back."""


class ResponsesProvider(WireProvider):
    def ask(self, request: ModelRequest) -> Question:
        return PATH, body(request, self.model, self.effort), ResponseReading(self.model)


PROVIDER = ResponsesProvider


def body(request: ModelRequest, model: ModelInfo, effort: Effort = "unspecified") -> dict[str, Any]:
    turns = sendable(request.turns, SOURCE, images=model.images)
    items = [item for turn in turns for item in _items(turn)]
    payload: dict[str, Any] = {
        "model": model.id,
        "input": items,
        "stream": True,
        "store": False,
    }
    if request.system.strip():
        payload["instructions"] = request.system
    if request.tools:
        payload["tools"] = [_tool(spec) for spec in request.tools]
    if request.max_output:
        payload["max_output_tokens"] = request.max_output
    if request.temperature is not None and not model.thinking:
        payload["temperature"] = request.temperature
    if schema := request.answer_schema:
        payload["text"] = {"format": {"type": "json_schema", "name": "answer", "schema": schema}}
    if request.cache_key:
        payload["prompt_cache_key"] = request.cache_key
    if model.thinking:
        payload["include"] = ["reasoning.encrypted_content"]
        payload["reasoning"] = {"summary": "auto"}
        if word := effort_word(effort):
            payload["reasoning"]["effort"] = word
    return payload


def _tool(spec: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.schema,
        "strict": False,
    }


def _items(turn: Turn) -> Iterator[dict[str, Any]]:
    if turn.role == "assistant":
        yield from (_spoken(block) for block in turn.blocks)
        return
    for block in turn.blocks:
        if isinstance(block, ToolResult):
            yield {
                "type": "function_call_output",
                "call_id": block.call_id,
                "output": _output(block),
            }
    if blocks := [block for block in turn.blocks if isinstance(block, Text | Image)]:
        yield {"type": "message", "role": "user", "content": [_part(block) for block in blocks]}


def _spoken(block: Block) -> dict[str, Any]:
    match block:
        case Thinking(signature=signature):
            return {"type": "reasoning", **table(kept_json(signature))}
        case ToolCall(id=call_id, name=name, arguments=arguments):
            said = encode_body(arguments).decode()
            return {"type": "function_call", "call_id": call_id, "name": name, "arguments": said}
        case Text(text=text):
            content = [{"type": "output_text", "text": text, "annotations": []}]
            return {"type": "message", "role": "assistant", "content": content}
        case _:
            raise AssertionError(f"no assistant says {block}")


def _output(result: ToolResult) -> str | list[dict[str, Any]]:
    if not result.images:
        return result.text
    said: list[Text | Image] = [Text(text=result.text)] if result.text.strip() else []
    return [_part(block) for block in [*said, *result.images]]


def _part(block: Text | Image) -> dict[str, Any]:
    if isinstance(block, Text):
        return {"type": "input_text", "text": block.text}
    return {"type": "input_image", "image_url": f"data:{block.media_type};base64,{block.data}"}


class ResponseReading:
    def __init__(self, model: ModelInfo) -> None:
        self._model = model
        self._announced: set[int] = set()
        self._argued: set[int] = set()
        self._refusal = ""

    def read_event(self, event: Any) -> Iterable[Chunk]:
        event = table(event)
        match event.get("type"):
            case "response.output_text.delta":
                return [TextChunk(text)] if (text := words(event.get("delta"))) else ()
            case "response.function_call_arguments.delta":
                return self._read_arguments(event, words(event.get("delta")))
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                text = words(event.get("delta"))
                return [ThinkingChunk(text, source=SOURCE)] if text else ()
            case "response.reasoning_summary_part.added" if event.get("summary_index"):
                return [ThinkingChunk("\n\n", source=SOURCE)]
            case "response.refusal.delta":
                self._refusal += words(event.get("delta"))
                return ()
            case "response.output_item.added":
                return self._read_item(event, table(event.get("item")))
            case "response.function_call_arguments.done":
                return self._read_whole_arguments(event, words(event.get("arguments")))
            case "response.output_item.done":
                return self._read_whole_item(event, table(event.get("item")))
            case "response.completed" | "response.incomplete":
                return self._read_end(table(event.get("response")))
            case "response.failed":
                raise ReportedError(table(event.get("response")).get("error") or event)
            case "error":
                raise ReportedError(event.get("error") or event)
            case _ if event.get("error") and not event.get("type"):
                raise ReportedError(event["error"])
            case _:
                return ()

    def close(self, *, marked: bool) -> Iterable[Chunk]:
        return ()

    def _read_item(self, event: Any, item: Any) -> Iterable[Chunk]:
        index = count(event.get("output_index")) or 0
        if item.get("type") != "function_call" or index in self._announced:
            return ()
        self._announced.add(index)
        call_id, name = words(item.get("call_id")), words(item.get("name"))
        return [CallChunk(index, "", id=call_id, name=name)]

    def _read_arguments(self, event: Any, piece: str) -> Iterable[Chunk]:
        index = count(event.get("output_index")) or 0
        self._argued.add(index)
        return [CallChunk(index, piece)] if piece else ()

    def _read_whole_arguments(self, event: Any, whole: str) -> Iterable[Chunk]:
        """Some servers send the arguments only when they are complete."""
        if (count(event.get("output_index")) or 0) in self._argued:
            return ()
        return self._read_arguments(event, whole)

    def _read_whole_item(self, event: Any, item: Any) -> Iterable[Chunk]:
        if item.get("type") == "reasoning" and item.get("encrypted_content"):
            kept = {name: item[name] for name in _KEPT if name in item}
            return [ThinkingChunk("", msgspec.json.encode(kept).decode(), SOURCE)]
        if item.get("type") == "function_call":
            announced = self._read_item(event, item)
            whole = self._read_whole_arguments(event, words(item.get("arguments")))
            return [*announced, *whole]
        return ()

    def _read_end(self, response: Any) -> Iterable[Chunk]:
        if usage := table(response.get("usage")):
            yield self._read_usage(usage)
        word = table(response.get("incomplete_details")).get("reason") or "stop"
        reason = stop_reason(word, called=bool(self._announced))
        if self._refusal:
            reason = StopReason.REFUSED
        yield StopChunk(reason, detail_of_stop(reason, word, self._refusal))

    def _read_usage(self, data: Any) -> UsageChunk:
        details = table(data.get("input_tokens_details"))
        usage = Usage(
            tokens_in=count(data.get("input_tokens")) or 0,
            tokens_out=count(data.get("output_tokens")) or 0,
            cache_reads=count(details.get("cached_tokens")) or 0,
            cache_writes=count(details.get("cache_write_tokens")) or 0,
        )
        return UsageChunk(priced(self._model, usage))
