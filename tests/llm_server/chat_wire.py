"""OpenAI chat completions: POST /v1/chat/completions."""

from llm_server.parts import (
    Block,
    Call,
    Problem,
    Refuse,
    SseEvent,
    Stop,
    Think,
    Usage,
)
from llm_server.wire import CREATED, MODEL, Events, Json, Wire, encode

STOPS = {
    "end": "stop",
    "calls": "tool_calls",
    "length": "length",
    "paused": "pause_turn",
    "refused": "content_filter",
    "overflow": "model_context_window_exceeded",
}
ERROR_TYPES = {
    400: "invalid_request_error",
    401: "invalid_request_error",
    404: "invalid_request_error",
    429: "rate_limit_exceeded",
}
ERROR_CODES = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}


class ChatStream:
    def __init__(self, request: Json, position: int) -> None:
        self._completion = _completion(request, position)
        self._counts = (request.get("stream_options") or {}).get("include_usage", False)
        self._calls: dict[int, int] = {}
        self._refused = False

    def begin(self, usages: tuple[Usage, ...]) -> Events:
        yield self._delta({"role": "assistant", "content": "", "refusal": None})

    def open(self, index: int, block: Block) -> Events:
        if isinstance(block, Call):
            nth = self._calls[index] = len(self._calls)
            yield self._delta({"tool_calls": [{"index": nth, **_tool_call(block)}]})
        self._refused |= isinstance(block, Refuse)

    def delta(self, index: int, block: Block, text: str) -> SseEvent:
        match block:
            case Call():
                fragment = {"index": self._calls[index], "function": {"arguments": text}}
                return self._delta({"tool_calls": [fragment]})
            case Think():
                return self._delta({"reasoning_content": text})
            case Refuse():
                return self._delta({"refusal": text})
            case _:
                return self._delta({"content": text})

    def close(self, index: int, block: Block) -> Events:
        yield from ()

    def end(self, stop: Stop, usages: tuple[Usage, ...]) -> Events:
        if stop.reason is not None:
            yield self._delta({}, finish_reason=_finish_reason(stop, refused=self._refused))
        for usage in usages if self._counts else ():
            yield _event(self._completion | {"choices": [], "usage": _usage(usage)})
        yield SseEvent(None, "[DONE]")

    def after_end(self, text: str) -> SseEvent:
        return self._delta({"content": text})

    def problem(self, problem: Problem) -> SseEvent:
        return _event(_error(500, problem))

    def failed(self, problem: Problem) -> SseEvent:
        return self.problem(problem)

    def _delta(self, delta: Json, finish_reason: str | None = None) -> SseEvent:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        counted = {"usage": None} if self._counts else {}
        return _event(self._completion | {"choices": [choice], **counted})


def _finish_reason(stop: Stop, *, refused: bool) -> str | None:
    """A refusal in words is an ordinary end; one without words is the filter's."""
    if refused and stop.reason == "refused":
        return "stop"
    return STOPS.get(stop.reason, stop.reason) if stop.reason is not None else None


def _tool_call(call: Call) -> Json:
    named = {} if call.id is None else {"id": call.id}
    function = {} if call.name is None else {"name": call.name}
    return {**named, "type": "function", "function": {**function, "arguments": ""}}


def _completion(request: Json, position: int) -> Json:
    return {
        "id": f"chatcmpl-{position:04}",
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": request.get("model", MODEL),
        "service_tier": "default",
        "system_fingerprint": "fp_scripted",
    }


def _usage(usage: Usage) -> Json:
    return {
        "prompt_tokens": usage.tokens_in,
        "completion_tokens": usage.tokens_out,
        "total_tokens": usage.tokens_in + usage.tokens_out,
        "prompt_tokens_details": {
            "cached_tokens": usage.cache_reads,
            "cache_write_tokens": usage.cache_writes,
        },
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


def _error(code: int, problem: Problem) -> Json:
    return {
        "error": {
            "message": problem.message,
            "type": problem.type or ERROR_TYPES.get(code, "server_error"),
            "param": None,
            "code": problem.code or ERROR_CODES.get(code),
        }
    }


def _event(data: Json) -> SseEvent:
    return SseEvent(None, encode(data))


CHAT = Wire(
    stream=ChatStream,
    error=_error,
    keepalive=b": keep-alive\n\n",
    request_id="x-request-id",
)
