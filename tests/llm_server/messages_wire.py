"""Anthropic Messages: POST /v1/messages."""

from llm_server.parts import (
    Block,
    Call,
    Problem,
    Redacted,
    Refuse,
    Say,
    SseEvent,
    Stop,
    Think,
    Usage,
)
from llm_server.wire import MODEL, Events, Json, Wire, encode

STOPS = {
    "end": "end_turn",
    "calls": "tool_use",
    "length": "max_tokens",
    "paused": "pause_turn",
    "refused": "refusal",
    "overflow": "model_context_window_exceeded",
}
ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class MessagesStream:
    def __init__(self, request: Json, position: int) -> None:
        self._message = _message(request, position)

    def begin(self, usages: tuple[Usage, ...]) -> Events:
        counted = {"usage": {**_usage(usages[0]), "output_tokens": 1}} if usages else {}
        message = self._message | {"content": [], "stop_reason": None, **counted}
        yield _event({"type": "message_start", "message": message})
        yield _event({"type": "ping"})

    def open(self, index: int, block: Block) -> Events:
        match block:
            case Think():
                empty: Json = {"type": "thinking", "thinking": "", "signature": ""}
            case Redacted(data=data):
                empty = {"type": "redacted_thinking", "data": data}
            case Call():
                empty = _tool_use(block)
            case Say() | Refuse():
                empty = {"type": "text", "text": ""}
        yield _event({"type": "content_block_start", "index": index, "content_block": empty})
        if isinstance(block, Call):
            yield _delta(index, {"type": "input_json_delta", "partial_json": ""})

    def delta(self, index: int, block: Block, text: str) -> SseEvent:
        match block:
            case Think():
                return _delta(index, {"type": "thinking_delta", "thinking": text})
            case Call():
                return _delta(index, {"type": "input_json_delta", "partial_json": text})
            case _:
                return _delta(index, {"type": "text_delta", "text": text})

    def close(self, index: int, block: Block) -> Events:
        if isinstance(block, Think) and block.signature:
            yield _delta(index, {"type": "signature_delta", "signature": block.signature})
        yield _event({"type": "content_block_stop", "index": index})

    def end(self, stop: Stop, usages: tuple[Usage, ...]) -> Events:
        for usage in usages[:-1]:
            yield _event({"type": "message_delta", "delta": {}, "usage": _usage(usage)})
        counted = {"usage": _usage(usages[-1])} if usages else {}
        yield _event({"type": "message_delta", "delta": _stopped(stop), **counted})
        yield _event({"type": "message_stop"})

    def after_end(self, text: str) -> SseEvent:
        return _delta(0, {"type": "text_delta", "text": text})

    def problem(self, problem: Problem) -> SseEvent:
        return _event(_error(529, problem))

    def failed(self, problem: Problem) -> SseEvent:
        return self.problem(problem)


def _message(request: Json, position: int) -> Json:
    return {
        "id": f"msg_{position:04}",
        "type": "message",
        "role": "assistant",
        "model": request.get("model", MODEL),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _tool_use(call: Call) -> Json:
    named = {"id": call.id, "name": call.name}
    known = {key: text for key, text in named.items() if text is not None}
    return {"type": "tool_use", **known, "input": {}}


def _stopped(stop: Stop) -> Json:
    reason = STOPS.get(stop.reason, stop.reason) if stop.reason is not None else None
    reported: Json = {"stop_reason": reason, "stop_sequence": None}
    if reason == "refusal":
        reported["stop_details"] = {
            "type": "refusal",
            "category": None,
            "explanation": stop.detail or None,
        }
    return reported


def _usage(usage: Usage) -> Json:
    return {
        "input_tokens": usage.tokens_in - usage.cache_reads - usage.cache_writes,
        "cache_creation_input_tokens": usage.cache_writes,
        "cache_read_input_tokens": usage.cache_reads,
        "output_tokens": usage.tokens_out,
    }


def _error(code: int, problem: Problem) -> Json:
    kind = problem.type or ERROR_TYPES.get(code, "api_error")
    error = {"type": kind, "message": problem.message}
    return {"type": "error", "error": error, "request_id": "req_scripted"}


def _delta(index: int, delta: Json) -> SseEvent:
    return _event({"type": "content_block_delta", "index": index, "delta": delta})


def _event(data: Json) -> SseEvent:
    return SseEvent(data["type"], encode(data))


MESSAGES = Wire(
    stream=MessagesStream,
    error=_error,
    keepalive=b'event: ping\ndata: {"type":"ping"}\n\n',
    request_id="request-id",
)
