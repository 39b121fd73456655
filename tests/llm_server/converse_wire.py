"""Amazon Bedrock Converse: POST /model/ID/converse-stream, answered in binary frames."""

import struct
from base64 import b64encode
from zlib import crc32

from llm_server.parts import (
    Block,
    Call,
    Problem,
    Redacted,
    SseEvent,
    Stop,
    Think,
    Usage,
)
from llm_server.wire import Events, Json, Wire, encode

STOPS = {
    "end": "end_turn",
    "calls": "tool_use",
    "length": "max_tokens",
    "paused": "pause_turn",
    "refused": "guardrail_intervened",
    "overflow": "model_context_window_exceeded",
}
EXCEPTIONS = {
    "overloaded_error": "serviceUnavailableException",
    "rate_limit_error": "throttlingException",
    "invalid_request_error": "validationException",
}
TEXT_HEADER = 7


class ConverseStream:
    def __init__(self, request: Json, position: int) -> None:
        pass

    def begin(self, usages: tuple[Usage, ...]) -> Events:
        yield _event("messageStart", {"role": "assistant"})

    def open(self, index: int, block: Block) -> Events:
        if isinstance(block, Call):
            named = {"toolUseId": block.id, "name": block.name}
            known = {key: text for key, text in named.items() if text is not None}
            start = {"start": {"toolUse": known}, "contentBlockIndex": index}
            yield _event("contentBlockStart", start)
        if isinstance(block, Redacted):
            sealed = b64encode(block.data.encode()).decode()
            yield _delta(index, {"reasoningContent": {"redactedContent": sealed}})

    def delta(self, index: int, block: Block, text: str) -> SseEvent:
        match block:
            case Think():
                return _delta(index, {"reasoningContent": {"text": text}})
            case Call():
                return _delta(index, {"toolUse": {"input": text}})
            case _:
                return _delta(index, {"text": text})

    def close(self, index: int, block: Block) -> Events:
        if isinstance(block, Think) and block.signature:
            yield _delta(index, {"reasoningContent": {"signature": block.signature}})
        yield _event("contentBlockStop", {"contentBlockIndex": index})

    def end(self, stop: Stop, usages: tuple[Usage, ...]) -> Events:
        for usage in usages[:-1]:
            yield _metadata(usage)
        reason = {} if stop.reason is None else {"stopReason": STOPS.get(stop.reason, stop.reason)}
        yield _event("messageStop", reason)
        for usage in usages[-1:]:
            yield _metadata(usage)

    def after_end(self, text: str) -> SseEvent:
        return _delta(0, {"text": text})

    def problem(self, problem: Problem) -> SseEvent:
        name = EXCEPTIONS.get(problem.type or "", "internalServerException")
        return _event(name, {"message": problem.message})

    def failed(self, problem: Problem) -> SseEvent:
        model = {"originalStatusCode": 500, "originalMessage": problem.message}
        return _event("modelStreamErrorException", {"message": problem.message, **model})


def frame(name: str, payload: bytes, *, kind: str = "event") -> bytes:
    """One event in Amazon's framing."""
    headers = {f":{kind}-type": name, ":content-type": "application/json", ":message-type": kind}
    head = b"".join(_header(*header) for header in headers.items())
    prelude = struct.pack(">II", 16 + len(head) + len(payload), len(head))
    content = prelude + struct.pack(">I", crc32(prelude)) + head + payload
    return content + struct.pack(">I", crc32(content))


def _header(name: str, text: str) -> bytes:
    value = text.encode()
    length = struct.pack(">H", len(value))
    return bytes((len(name),)) + name.encode() + bytes((TEXT_HEADER,)) + length + value


def _framed(event: SseEvent) -> bytes:
    name = event.name or "unknown"
    kind = "exception" if name.endswith("Exception") else "event"
    return frame(name, event.data.encode("utf-8", "surrogateescape"), kind=kind)


def _metadata(usage: Usage) -> SseEvent:
    tokens = {
        "inputTokens": usage.tokens_in - usage.cache_reads - usage.cache_writes,
        "outputTokens": usage.tokens_out,
        "totalTokens": usage.tokens_in + usage.tokens_out,
        "cacheReadInputTokens": usage.cache_reads,
        "cacheWriteInputTokens": usage.cache_writes,
    }
    return _event("metadata", {"usage": tokens, "metrics": {"latencyMs": 7}})


def _error(code: int, problem: Problem) -> Json:
    return {"message": problem.message}


def _delta(index: int, delta: Json) -> SseEvent:
    return _event("contentBlockDelta", {"delta": delta, "contentBlockIndex": index})


def _event(name: str, data: Json) -> SseEvent:
    return SseEvent(name, encode(data))


CONVERSE = Wire(
    stream=ConverseStream,
    error=_error,
    keepalive=frame("ping", b"{}"),
    request_id="x-amzn-requestid",
    media_type="application/vnd.amazon.eventstream",
    framed=_framed,
)
