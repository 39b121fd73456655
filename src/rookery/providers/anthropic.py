"""The Messages API of Anthropic and compatible servers."""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from rookery.core.blocks import Block, Image, Text, Thinking, ToolCall, ToolResult
from rookery.core.facts import Usage
from rookery.core.folds.history import Turn
from rookery.core.limits import NOT_AT_ALL, Effort
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
from rookery.providers.catalogue import priced, takes_budget
from rookery.providers.exchange import Question, WireProvider
from rookery.providers.listener import ReportedError
from rookery.providers.wire_format import (
    count,
    detail_of_stop,
    latest,
    sendable,
    stop_reason,
    table,
    words,
)

SOURCE = "anthropic"
VERSION = "2026-10-21"
PATH = "/v1/messages"

_CACHED = {"type": "ephemeral"}
_BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16_384, "xhigh": 32_768}
_SMALLEST_BUDGET = 1024
_REDACTED = "redacted:"
"""Marks the signature of a reasoning block whose text the provider withheld."""


def headers(api_key: str) -> dict[str, str]:
    return {"anthropic-version": VERSION, **({"x-api-key": api_key} if api_key else {})}


class AnthropicProvider(WireProvider):
    def ask(self, request: ModelRequest) -> Question:
        return PATH, body(request, self.model, self.effort), MessageReading(self.model)


PROVIDER = AnthropicProvider


def body(request: ModelRequest, model: ModelInfo, effort: Effort = "unspecified") -> dict[str, Any]:
    turns = sendable(request.turns, SOURCE, images=model.images)
    messages = [_message(turn) for turn in turns]
    system = [{"type": "text", "text": request.system}] if request.system.strip() else []
    tools = [_tool(spec) for spec in request.tools]
    if model.caching:
        _mark_for_caching(tools, system, messages)
    payload: dict[str, Any] = {
        "model": model.id,
        "max_tokens": request.max_output or min(model.max_output, model.window // 5),
        "messages": messages,
        "stream": True,
    }
    if system:
        payload["system"] = system
    if tools:
        payload["tools"] = tools
    if request.temperature is not None and not model.thinking:
        payload["temperature"] = request.temperature
    if request.stop:
        payload["stop_sequences"] = list(request.stop)
    payload |= reasoning(model, effort, payload["max_tokens"])
    if request.answer_schema:
        shape = {"type": "json_schema", "schema": request.answer_schema}
        payload["output_config"] = {**payload.get("output_config", {}), "format": shape}
    return payload


def reasoning(model: ModelInfo, effort: Effort, max_tokens: int) -> dict[str, Any]:
    if model.thinking:
        return _adaptive(effort)
    if takes_budget(model) and (budget := _budget(effort, max_tokens)):
        return {"thinking": {"type": "enabled", "budget_tokens": budget}}
    return {}


def _adaptive(effort: Effort) -> dict[str, Any]:
    """Models that choose their own amount of reasoning, and the effort for it."""
    if effort in NOT_AT_ALL:
        return {"thinking": {"type": "disabled"}}
    thinking = {"thinking": {"type": "adaptive", "display": "summarized"}}
    if effort == "unspecified":
        return thinking
    return thinking | {"output_config": {"effort": "low" if effort == "minimal" else effort}}


def _budget(effort: Effort, max_tokens: int) -> int:
    """Reasoning tokens for older models; 0 for none."""
    budget = min(_BUDGETS.get(effort, 0), max_tokens // 2)
    return budget if budget >= _SMALLEST_BUDGET else 0


def _mark_for_caching(
    tools: list[dict[str, Any]], system: list[dict[str, Any]], messages: list[dict[str, Any]]
) -> None:
    """Mark the ends of stable parts: tools, system prompt, and the last two user turns.

    The older of the two turns is where the previous request ended, so its cache entry is found.
    """
    user_turns = [message["content"] for message in messages if message["role"] == "user"]
    for blocks in (tools, system, *user_turns[-2:]):
        if blocks:
            blocks[-1] = {**blocks[-1], "cache_control": _CACHED}


def _tool(spec: ToolSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "description": spec.description,
        "input_schema": spec.schema,
        "eager_input_streaming": True,
    }


def _message(turn: Turn) -> dict[str, Any]:
    return {"role": turn.role, "content": [_block(block) for block in turn.blocks]}


def _block(block: Block) -> dict[str, Any]:
    match block:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Thinking(signature=signature) if signature.startswith(_REDACTED):
            return {"type": "redacted_thinking", "data": signature.removeprefix(_REDACTED)}
        case Thinking(text=text, signature=signature):
            return {"type": "thinking", "thinking": text, "signature": signature}
        case Image(media_type=media_type, data=data):
            source = {"type": "base64", "media_type": media_type, "data": data}
            return {"type": "image", "source": source}
        case ToolCall(id=call_id, name=name, arguments=arguments):
            return {"type": "tool_use", "id": call_id, "name": name, "input": dict(arguments)}
        case ToolResult(call_id=call_id, is_error=is_error):
            result = {"type": "tool_result", "tool_use_id": call_id, "content": _result(block)}
            return {**result, "is_error": True} if is_error else result


def _result(result: ToolResult) -> str | list[dict[str, Any]]:
    if not result.images:
        return result.text
    words: Sequence[Block] = [Text(text=result.text)] if result.text.strip() else []
    return [_block(block) for block in (*words, *result.images)]


class MessageReading:
    def __init__(self, model: ModelInfo) -> None:
        self._model = model
        self._usage = Usage()
        self._fresh_in = 0
        self._stop: str | None = None
        self._stop_detail = ""
        self._called = False

    def read_event(self, event: Any) -> Iterable[Chunk]:
        event = table(event)
        match event.get("type"):
            case "content_block_delta":
                return self._read_delta(event.get("index"), table(event.get("delta")))
            case "content_block_start":
                return self._read_start(event.get("index"), table(event.get("content_block")))
            case "message_start":
                return self._read_usage(table(event.get("message")).get("usage"))
            case "message_delta":
                return self._read_end(event)
            case "message_stop":
                return [self._stop_chunk()]
            case "error":
                raise ReportedError(event.get("error") or event)
            case _:
                return ()

    def close(self, *, marked: bool) -> Iterable[Chunk]:
        return [self._stop_chunk()] if marked else ()

    def _read_start(self, index: object, block: Any) -> Iterable[Chunk]:
        match block.get("type"):
            case "tool_use":
                self._called = True
                name, call_id = words(block.get("name")), words(block.get("id"))
                return [CallChunk(count(index) or 0, "", id=call_id, name=name)]
            case "text" if text := words(block.get("text")):
                return [TextChunk(text)]
            case "thinking" if text := words(block.get("thinking")):
                return [ThinkingChunk(text, source=SOURCE)]
            case "redacted_thinking":
                return [ThinkingChunk("", _REDACTED + words(block.get("data")), SOURCE)]
            case _:
                return ()

    def _read_delta(self, index: object, delta: Any) -> Iterable[Chunk]:
        match delta.get("type"):
            case "text_delta" if text := words(delta.get("text")):
                return [TextChunk(text)]
            case "input_json_delta" if piece := words(delta.get("partial_json")):
                return [CallChunk(count(index) or 0, piece)]
            case "thinking_delta" if text := words(delta.get("thinking")):
                return [ThinkingChunk(text, source=SOURCE)]
            case "signature_delta" if signature := words(delta.get("signature")):
                return [ThinkingChunk("", signature, SOURCE)]
            case _:
                return ()

    def _read_end(self, event: Any) -> Iterable[Chunk]:
        delta = table(event.get("delta"))
        self._stop = delta.get("stop_reason") or self._stop
        self._stop_detail = words(table(delta.get("stop_details")).get("explanation"))
        return self._read_usage(event.get("usage"))

    def _read_usage(self, data: object) -> Iterable[Chunk]:
        """The provider's input excludes cached tokens; ours includes them. Later figures are
        totals; a missing or invalid one leaves the earlier one."""
        if not isinstance(data, dict):
            return ()
        before = self._usage
        reads = latest(data.get("cache_read_input_tokens"), before.cache_reads)
        writes = latest(data.get("cache_creation_input_tokens"), before.cache_writes)
        self._fresh_in = latest(data.get("input_tokens"), self._fresh_in)
        usage = replace(
            before,
            tokens_in=self._fresh_in + reads + writes,
            tokens_out=latest(data.get("output_tokens"), before.tokens_out),
            cache_reads=reads,
            cache_writes=writes,
        )
        self._usage = priced(self._model, usage)
        return [UsageChunk(self._usage)]

    def _stop_chunk(self) -> StopChunk:
        reason = stop_reason(self._stop, called=self._called)
        return StopChunk(reason, detail_of_stop(reason, self._stop, self._stop_detail))
