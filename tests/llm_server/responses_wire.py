"""OpenAI Responses: POST /v1/responses."""

from typing import Any

from llm_server.chat_wire import CHAT
from llm_server.composed import text_of
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
from llm_server.wire import CREATED, MODEL, Events, Json, Wire, encode

COMPLETE = {"end", "calls"}
INCOMPLETE = {"length": "max_output_tokens", "refused": "content_filter"}


class ResponsesStream:
    def __init__(self, request: Json, position: int) -> None:
        self._request = request
        self._position = position
        self._sent = -1
        self._items: dict[int, Json] = {}

    def begin(self, usages: tuple[Usage, ...]) -> Events:
        early = _usage(usages[0]) if len(usages) > 1 else None
        yield self._event("response.created", response=self._response(status="in_progress"))
        yield self._event(
            "response.in_progress", response=self._response(status="in_progress", usage=early)
        )

    def open(self, index: int, block: Block) -> Events:
        empty = self._item(index, block, "", "in_progress")
        yield self._event("response.output_item.added", output_index=index, item=empty)
        match block:
            case Think(pieces=pieces) if pieces:
                yield self._of("reasoning_summary_part.added", index, block, part=_summary(""))
            case Say() | Refuse():
                yield self._of("content_part.added", index, block, part=_content(block, ""))
            case _:
                pass

    def delta(self, index: int, block: Block, text: str) -> SseEvent:
        match block:
            case Think():
                return self._of("reasoning_summary_text.delta", index, block, delta=text)
            case Refuse():
                return self._of("refusal.delta", index, block, delta=text)
            case Call():
                return self._of("function_call_arguments.delta", index, block, delta=text)
            case _:
                return self._of("output_text.delta", index, block, delta=text, logprobs=[])

    def close(self, index: int, block: Block) -> Events:
        text = text_of(block)
        match block:
            case Think(pieces=pieces) if pieces:
                yield self._of("reasoning_summary_text.done", index, block, text=text)
                yield self._of("reasoning_summary_part.done", index, block, part=_summary(text))
            case Refuse():
                yield self._of("refusal.done", index, block, refusal=text)
                yield self._of("content_part.done", index, block, part=_content(block, text))
            case Say():
                yield self._of("output_text.done", index, block, text=text, logprobs=[])
                yield self._of("content_part.done", index, block, part=_content(block, text))
            case Call():
                yield self._of("function_call_arguments.done", index, block, arguments=text)
            case _:
                pass
        item = self._items[index] = self._item(index, block, text, "completed")
        yield self._event("response.output_item.done", output_index=index, item=item)

    def end(self, stop: Stop, usages: tuple[Usage, ...]) -> Events:
        ending = _ending(stop, [*self._items.values()])
        response = self._response(**ending, usage=_usage(usages[-1]) if usages else None)
        word = "incomplete" if response["status"] == "incomplete" else "completed"
        yield self._event(f"response.{word}", response=response)

    def after_end(self, text: str) -> SseEvent:
        return self._of("output_text.delta", 0, Say(()), delta=text, logprobs=[])

    def problem(self, problem: Problem) -> SseEvent:
        code = problem.code or problem.type or "server_error"
        return self._event("error", code=code, message=problem.message, param=None)

    def failed(self, problem: Problem) -> SseEvent:
        code = problem.code or problem.type or "server_error"
        error = {"code": code, "message": problem.message}
        return self._event("response.failed", response=self._response(status="failed", error=error))

    def _response(self, **known: Any) -> Json:
        output = [self._items[index] for index in sorted(self._items)]
        return _response(self._request, self._position) | {"output": output} | known

    def _item(self, index: int, block: Block, text: str, status: str) -> Json:
        return _item(self._request, _item_id(self._position, index, block), block, text, status)

    def _of(self, name: str, index: int, block: Block, **fields: Any) -> SseEvent:
        within = {Think: {"summary_index": 0}, Call: {}}.get(type(block), {"content_index": 0})
        item_id = _item_id(self._position, index, block)
        return self._event(
            f"response.{name}", item_id=item_id, output_index=index, **within, **fields
        )

    def _event(self, name: str, **fields: Any) -> SseEvent:
        self._sent += 1
        return SseEvent(name, encode({"type": name, "sequence_number": self._sent, **fields}))


def _response(request: Json, position: int) -> Json:
    return {
        "id": f"resp_{position:04}",
        "object": "response",
        "created_at": CREATED,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": request.get("instructions"),
        "max_output_tokens": request.get("max_output_tokens"),
        "model": request.get("model", MODEL),
        "output": [],
        "parallel_tool_calls": request.get("parallel_tool_calls", True),
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": request.get("store", True),
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": request.get("tool_choice", "auto"),
        "tools": request.get("tools", []),
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": None,
        "metadata": {},
    }


def _item_id(position: int, index: int, block: Block) -> str:
    prefix = {Think: "rs", Redacted: "rs", Call: "fc"}.get(type(block), "msg")
    return f"{prefix}_{position:04}_{index}"


def _item(request: Json, item_id: str, block: Block, text: str, status: str) -> Json:
    done = status == "completed"
    match block:
        case Think(signature=signature):
            summary = [_summary(text)] if text else []
            sealed = _sealed(request, signature if done else "")
            return {"id": item_id, "type": "reasoning", "summary": summary, **sealed}
        case Redacted(data=data):
            sealed = _sealed(request, data if done else "")
            return {"id": item_id, "type": "reasoning", "summary": [], **sealed}
        case Call(name=name, id=call_id):
            named = {"call_id": call_id, "name": name}
            known = {key: word for key, word in named.items() if word is not None}
            call = {"id": item_id, "type": "function_call", "status": status}
            return {**call, "arguments": text, **known}
        case Say() | Refuse():
            content = [_content(block, text)] if done else []
            message = {"id": item_id, "type": "message", "role": "assistant"}
            return {**message, "status": status, "content": content}


def _summary(text: str) -> Json:
    return {"type": "summary_text", "text": text}


def _content(block: Block, text: str) -> Json:
    if isinstance(block, Refuse):
        return {"type": "refusal", "refusal": text}
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _sealed(request: Json, data: str) -> Json:
    """Encrypted reasoning is sent only on request."""
    asked = "reasoning.encrypted_content" in (request.get("include") or ())
    return {"encrypted_content": data} if asked and data else {}


def _ending(stop: Stop, output: list[Json]) -> Json:
    if stop.reason is None:
        return {"status": None}
    refused = any(part.get("type") == "refusal" for item in output for part in _parts(item))
    if stop.reason in COMPLETE or (refused and stop.reason == "refused"):
        return {"status": "completed"}
    reason = INCOMPLETE.get(stop.reason, stop.reason)
    return {"status": "incomplete", "incomplete_details": {"reason": reason}}


def _parts(item: Json) -> list[Json]:
    content: list[Json] = item.get("content", [])
    return content


def _usage(usage: Usage) -> Json:
    return {
        "input_tokens": usage.tokens_in,
        "input_tokens_details": {
            "cached_tokens": usage.cache_reads,
            "cache_write_tokens": usage.cache_writes,
        },
        "output_tokens": usage.tokens_out,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.tokens_in + usage.tokens_out,
    }


RESPONSES = Wire(
    stream=ResponsesStream,
    error=CHAT.error,
    keepalive=b": keep-alive\n\n",
    request_id="x-request-id",
)
