"""Gemini: POST /v1beta/models/MODEL:streamGenerateContent."""

import json
from typing import Any

from llm_server.composed import text_of
from llm_server.parts import Block, Call, Problem, Redacted, Refuse, SseEvent, Stop, Think, Usage
from llm_server.wire import MODEL, Events, Json, Wire, encode

STOPS = {
    "end": "STOP",
    "calls": "STOP",
    "length": "MAX_TOKENS",
    "paused": "OTHER",
    "refused": "SAFETY",
    "overflow": "OTHER",
}
STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
CODES = {"overloaded_error": 503, "rate_limit_error": 429, "invalid_request_error": 400}
_ARGUMENTS = "<the arguments>"


class GeminiStream:
    """Calls come whole. A signature comes on the part after the reasoning."""

    def __init__(self, request: Json, position: int) -> None:
        self._response = {"modelVersion": MODEL, "responseId": f"response_{position:04}"}
        self._signature = ""
        self._refusal = ""

    def begin(self, usages: tuple[Usage, ...]) -> Events:
        for usage in usages[:-1]:
            yield self._event([], usageMetadata=_usage(usage))

    def open(self, index: int, block: Block) -> Events:
        yield from ()

    def delta(self, index: int, block: Block, text: str) -> SseEvent:
        match block:
            case Think():
                return self._event([{"text": text, "thought": True}])
            case Refuse():
                self._refusal += text
                return self._event([])
            case Call():
                return self._event([])
            case _:
                return self._event([{"text": text, **self._signed()}])

    def close(self, index: int, block: Block) -> Events:
        match block:
            case Think(signature=signature):
                self._signature = signature
            case Redacted(data=data):
                self._signature = data
            case Call():
                yield self._called(block)
            case _:
                pass

    def end(self, stop: Stop, usages: tuple[Usage, ...]) -> Events:
        counted = {"usageMetadata": _usage(usages[-1])} if usages else {}
        parts = [{"text": "", **self._signed()}]
        reason = STOPS.get(stop.reason, stop.reason) if stop.reason is not None else None
        said = stop.detail or self._refusal
        ending = {"finishReason": reason} if reason is not None else {}
        ending |= {"finishMessage": said} if said else {}
        yield self._event(parts, ending, **counted)

    def after_end(self, text: str) -> SseEvent:
        return self._event([{"text": text}])

    def problem(self, problem: Problem) -> SseEvent:
        code = problem.code if isinstance(problem.code, int) else CODES.get(problem.type or "", 500)
        return SseEvent(None, encode(_error(code, problem)))

    def failed(self, problem: Problem) -> SseEvent:
        return self.problem(problem)

    def _called(self, call: Call) -> SseEvent:
        """The arguments as they were scripted if they are JSON, otherwise as a string."""
        text = text_of(call)
        named = {"id": call.id, "name": call.name}
        known = {key: value for key, value in named.items() if value is not None}
        if not text:
            return self._event([{"functionCall": known, **self._signed()}])
        reported = self._event([{"functionCall": {**known, "args": _ARGUMENTS}, **self._signed()}])
        spelled = text if _is_json(text) else encode(text)
        return SseEvent(None, reported.data.replace(encode(_ARGUMENTS), spelled))

    def _signed(self) -> Json:
        signature, self._signature = self._signature, ""
        return {"thoughtSignature": signature} if signature else {}

    def _event(self, parts: list[Json], ending: Json | None = None, **more: Any) -> SseEvent:
        content: Json = {"role": "model", **({"parts": parts} if parts else {})}
        candidate = {"content": content, **(ending or {}), "index": 0}
        return SseEvent(None, encode({"candidates": [candidate], **more, **self._response}))


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except RecursionError:
        return True
    except ValueError as error:
        return "integer string conversion" in str(error)
    return True


def _usage(usage: Usage) -> Json:
    return {
        "promptTokenCount": usage.tokens_in,
        "cachedContentTokenCount": usage.cache_reads,
        "candidatesTokenCount": usage.tokens_out - usage.reasoning,
        "thoughtsTokenCount": usage.reasoning,
        "totalTokenCount": usage.tokens_in + usage.tokens_out,
    }


def _error(code: int, problem: Problem) -> Json:
    error: Json = {
        "code": code,
        "message": problem.message,
        "status": STATUSES.get(code, "INTERNAL" if code >= 500 else "UNKNOWN"),
    }
    if isinstance(problem.code, str):
        info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "domain": "googleapis.com"}
        error["details"] = [{**info, "reason": problem.code.upper()}]
    return {"error": error}


GEMINI = Wire(
    stream=GeminiStream,
    error=_error,
    keepalive=b": keep-alive\n\n",
    request_id="x-request-id",
)
