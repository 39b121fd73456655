"""The Converse API of Amazon Bedrock: many vendors' models on one wire.

Requests carry a bearer key or are signed (`aws.py`). Answers come in frames: a prelude (length of
the frame, length of its headers, checksum), headers, a payload of JSON and a checksum of it all.
"""

import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar
from urllib.parse import quote
from zlib import crc32

import msgspec

from rookery.core.blocks import Block, Image, Text, Thinking, ToolCall, ToolResult
from rookery.core.facts import Usage
from rookery.core.folds.history import Turn
from rookery.core.limits import Effort
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
from rookery.providers import aws
from rookery.providers.catalogue import priced
from rookery.providers.exchange import Endpoint, Question, WireProvider
from rookery.providers.listener import ReportedError
from rookery.providers.wire_format import (
    DamagedEvent,
    OversizedEvent,
    bearer,
    count,
    detail_of_stop,
    encode_body,
    sendable,
    stop_reason,
    table,
    words,
)

SOURCE = "bedrock"
SERVICE = "bedrock"
headers = bearer
EMPTY_RESULT = "(no output)"

_CACHE_POINT = {"cachePoint": {"type": "default"}}
_REDACTED = "redacted:"
"""Marks the signature of a reasoning block whose text the provider withheld."""
_OPENAI_EFFORTS = dict(minimal="low", low="low", medium="medium", high="high", xhigh="high")
_PRELUDE = struct.Struct(">III")
_CHECKSUM = struct.Struct(">I")
_LENGTH = struct.Struct(">H")
_TEXT, _BYTES = 7, 6
_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Bytes of a header's value, by its type: booleans, numbers, a time, a UUID."""
_STATUSES = {
    "validationException": 400,
    "accessDeniedException": 403,
    "resourceNotFoundException": 404,
    "modelTimeoutException": 408,
    "throttlingException": 429,
    "serviceUnavailableException": 503,
}


def address(template: str) -> str:
    return template.format(region=aws.region(os.environ))


class FrameReader:
    """Collects pieces and returns each complete event as `{"name": payload}`, as Amazon's
    documentation writes it. The name is in the headers."""

    media_type: ClassVar[str] = "application/vnd.amazon.eventstream"

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._unread = bytearray()

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Events before a damaged one are returned first."""
        unread = self._unread
        unread += piece
        at = 0
        while len(unread) - at >= _PRELUDE.size:
            length, headers = self._lengths(at)
            if len(unread) - at < length:
                break
            yield _event(bytes(unread[at : at + length]), headers)
            at += length
        del unread[:at]

    def end(self) -> Iterable[bytes]:
        return ()

    def _lengths(self, at: int) -> tuple[int, int]:
        """The length of the frame that begins here, and of its headers."""
        length, headers, checksum = _PRELUDE.unpack_from(self._unread, at)
        if crc32(self._unread[at : at + 8]) != checksum:
            raise DamagedEvent("wrong checksum of a frame's beginning")
        if length > self._longest:
            raise OversizedEvent
        if length < _PRELUDE.size + headers + _CHECKSUM.size:
            raise DamagedEvent("a frame shorter than its headers")
        return length, headers


def _event(frame: bytes, headers_length: int) -> bytes:
    content, checksum = frame[: -_CHECKSUM.size], frame[-_CHECKSUM.size :]
    if _CHECKSUM.pack(crc32(content)) != checksum:
        raise DamagedEvent("wrong checksum of a frame")
    body = _PRELUDE.size + headers_length
    headers = _headers(content[_PRELUDE.size : body])
    payload = content[body:] or b"{}"
    match headers.get(":message-type"):
        case "exception":
            name = headers.get(":exception-type", "")
        case "error":
            name, payload = "error", _error(headers)
        case _:
            name = headers.get(":event-type", "")
    return b"{%b:%b}" % (msgspec.json.encode(name), payload)


def _error(headers: dict[str, str]) -> bytes:
    """An error of the framing itself has no payload."""
    code, message = headers.get(":error-code", ""), headers.get(":error-message", "")
    return msgspec.json.encode({"code": code, "message": message})


def _headers(data: bytes) -> dict[str, str]:
    """The headers that are text, by name."""
    found: dict[str, str] = {}
    at = 0
    try:
        while at < len(data):
            name_end = at + 1 + data[at]
            name, kind = data[at + 1 : name_end], data[name_end]
            at = name_end + 1
            if kind in (_TEXT, _BYTES):
                (size,) = _LENGTH.unpack_from(data, at)
                at += _LENGTH.size
            else:
                size = _SIZES[kind]
            if at + size > len(data):
                raise IndexError
            if kind == _TEXT:
                value = data[at : at + size]
                found[name.decode("utf-8", "replace")] = value.decode("utf-8", "replace")
            at += size
    except (IndexError, KeyError, struct.error):
        raise DamagedEvent("a frame with unreadable headers") from None
    return found


class BedrockProvider(WireProvider):
    framing = FrameReader

    def __init__(self, endpoint: Endpoint, model: ModelInfo, effort: Effort) -> None:
        super().__init__(endpoint, model, effort)
        if not endpoint.to.secret:
            self.sign = aws.Signer(SERVICE, os.environ).headers

    def ask(self, request: ModelRequest) -> Question:
        path = f"/model/{quote(self.model.id, safe='')}/converse-stream"
        return path, body(request, self.model, self.effort), ConverseReading(self.model)


PROVIDER = BedrockProvider


def body(request: ModelRequest, model: ModelInfo, effort: Effort = "unspecified") -> dict[str, Any]:
    """The request in the provider's format. The model's id is in the address."""
    turns = sendable(request.turns, SOURCE, images=model.images)
    messages = [_message(turn) for turn in turns]
    system: list[dict[str, Any]] = []
    if request.system.strip():
        system.append({"text": request.system})
    tools = [_tool(spec) for spec in request.tools or _called(turns)]
    if model.caching:
        _mark_for_caching(model, tools, system, messages)
    if not _mixes(model):
        for message in messages:
            _move_words_into_results(message["content"])
    max_tokens = request.max_output or min(model.max_output, model.window // 5)
    config: dict[str, Any] = {"maxTokens": max_tokens}
    if request.temperature is not None and not model.thinking:
        config["temperature"] = request.temperature
    if request.stop:
        config["stopSequences"] = list(request.stop)
    payload: dict[str, Any] = {"messages": messages, "inferenceConfig": config}
    if request.answer_schema:
        schema = {"name": "answer", "schema": encode_body(request.answer_schema).decode()}
        shape = {"type": "json_schema", "structure": {"jsonSchema": schema}}
        payload["outputConfig"] = {"textFormat": shape}
    if system:
        payload["system"] = system
    if tools:
        payload["toolConfig"] = {"tools": tools}
    if fields := _reasoning(model, effort, max_tokens):
        payload["additionalModelRequestFields"] = fields
    return payload


def _reasoning(model: ModelInfo, effort: Effort, max_tokens: int) -> dict[str, Any]:
    """The vendor's own fields."""
    if "openai." not in model.id:
        from rookery.providers.anthropic import reasoning

        return reasoning(model, effort, max_tokens)
    word = _OPENAI_EFFORTS.get(effort) if model.thinking else None
    return {"reasoning_effort": word} if word else {}


def _called(turns: Sequence[Turn]) -> list[ToolSpec]:
    """The tools of earlier calls: a conversation with calls must come with tools."""
    names = {b.name: b for turn in turns for b in turn.blocks if isinstance(b, ToolCall)}
    return [ToolSpec(name, "", {"type": "object"}) for name in names]


def _mark_for_caching(
    model: ModelInfo,
    tools: list[dict[str, Any]],
    system: list[dict[str, Any]],
    messages: list[dict[str, Any]],
) -> None:
    """Mark the ends of stable parts: tools, system prompt, and the last two user turns. Amazon's
    own models take no mark after the tools."""
    user_turns = [message["content"] for message in messages if message["role"] == "user"]
    for part in ([] if "amazon." in model.id else tools, system, *user_turns[-2:]):
        if part:
            part.append(_CACHE_POINT)


def _mixes(model: ModelInfo) -> bool:
    """Whether a turn may have both results and words."""
    return "." not in model.id or "anthropic." in model.id or "amazon." in model.id


def _move_words_into_results(content: list[dict[str, Any]]) -> None:
    results = [block["toolResult"] for block in content if "toolResult" in block]
    if results:
        results[-1]["content"] += [block for block in content if "toolResult" not in block]
        content[:] = [block for block in content if "toolResult" in block]


def _tool(spec: ToolSpec) -> dict[str, Any]:
    described = {"description": spec.description} if spec.description.strip() else {}
    return {"toolSpec": {"name": spec.name, **described, "inputSchema": {"json": spec.schema}}}


def _message(turn: Turn) -> dict[str, Any]:
    return {"role": turn.role, "content": [_block(block) for block in turn.blocks]}


def _block(block: Block) -> dict[str, Any]:
    match block:
        case Text(text=text):
            return {"text": text}
        case Thinking(signature=signature) if signature.startswith(_REDACTED):
            return {"reasoningContent": {"redactedContent": signature.removeprefix(_REDACTED)}}
        case Thinking(text=text, signature=signature):
            return {"reasoningContent": {"reasoningText": {"text": text, "signature": signature}}}
        case Image(media_type=media_type, data=data):
            kind = media_type.rpartition("/")[2].replace("jpg", "jpeg")
            return {"image": {"format": kind, "source": {"bytes": data}}}
        case ToolCall(id=call_id, name=name, arguments=arguments):
            return {"toolUse": {"toolUseId": call_id, "name": name, "input": dict(arguments)}}
        case ToolResult(call_id=call_id, is_error=is_error):
            result = {"toolUseId": call_id, "content": _result(block)}
            return {"toolResult": {**result, "status": "error"} if is_error else result}


def _result(result: ToolResult) -> list[dict[str, Any]]:
    spoken: Sequence[Block] = [Text(text=result.text)] if result.text.strip() else []
    return [_block(block) for block in (*spoken, *result.images)] or [{"text": EMPTY_RESULT}]


class ConverseReading:
    """Converts the provider's events to chunks. The usage comes after the stop reason and is the
    last event."""

    def __init__(self, model: ModelInfo) -> None:
        self._model = model
        self._stopped = False
        self._stop = ""
        self._called = False

    def read_event(self, event: Any) -> Iterable[Chunk]:
        for name, content in table(event).items():
            match name:
                case "contentBlockDelta":
                    return self._read_delta(table(content))
                case "contentBlockStart":
                    return self._read_start(table(content))
                case "messageStop":
                    self._stopped = True
                    self._stop = words(table(content).get("stopReason"))
                case "metadata":
                    return self._read_usage(table(table(content).get("usage")))
                case "error":
                    raise ReportedError(content)
                case _ if name.endswith("Exception"):
                    raise ReportedError(_reported(name, table(content)))
        return ()

    def close(self, *, marked: bool) -> Iterable[Chunk]:
        return [self._stop_chunk()] if self._stopped else ()

    def _read_start(self, content: Any) -> Iterable[Chunk]:
        call = table(content.get("start")).get("toolUse")
        if not isinstance(call, dict):
            return ()
        self._called = True
        name, call_id = words(call.get("name")), words(call.get("toolUseId"))
        return [CallChunk(count(content.get("contentBlockIndex")) or 0, "", id=call_id, name=name)]

    def _read_delta(self, content: Any) -> Iterable[Chunk]:
        delta = table(content.get("delta"))
        if text := words(delta.get("text")):
            return [TextChunk(text)]
        if piece := words(table(delta.get("toolUse")).get("input")):
            return [CallChunk(count(content.get("contentBlockIndex")) or 0, piece)]
        thought = table(delta.get("reasoningContent"))
        if text := words(thought.get("text")):
            return [ThinkingChunk(text, source=SOURCE)]
        if signature := words(thought.get("signature")):
            return [ThinkingChunk("", signature, SOURCE)]
        if data := words(thought.get("redactedContent")):
            return [ThinkingChunk("", _REDACTED + data, SOURCE)]
        return ()

    def _read_usage(self, data: Any) -> Iterable[Chunk]:
        """The provider's input excludes cached tokens; ours includes them."""
        reads = count(data.get("cacheReadInputTokens")) or 0
        writes = count(data.get("cacheWriteInputTokens")) or 0
        usage = Usage(
            tokens_in=(count(data.get("inputTokens")) or 0) + reads + writes,
            tokens_out=count(data.get("outputTokens")) or 0,
            cache_reads=reads,
            cache_writes=writes,
        )
        usage_chunk = UsageChunk(priced(self._model, usage))
        return [usage_chunk, self._stop_chunk()] if self._stopped else [usage_chunk]

    def _stop_chunk(self) -> StopChunk:
        reason = stop_reason(self._stop, called=self._called)
        return StopChunk(reason, detail_of_stop(reason, self._stop))


def _reported(name: str, data: Any) -> dict[str, Any]:
    """An exception in the stream as an error with an HTTP status: the one of the model's own
    server, if there is one."""
    status = count(data.get("originalStatusCode")) or _STATUSES.get(name, 500)
    return {**data, "type": name, "status": status}
