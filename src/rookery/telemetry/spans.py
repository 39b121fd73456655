"""Events of a task as spans, named after OpenTelemetry's conventions for generative AI.

A turn is an `invoke_agent` span, a request a `chat` span, a call an `execute_tool` span. Times are
those of the events, so nothing has to be measured while a task works. Ids are derived from the task
and the event. What people and models wrote is included only with `content`.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct, field

from rookery import NAME
from rookery.core.blocks import Text, Thinking, ToolCall
from rookery.core.facts import (
    Answered,
    AssistantSpoke,
    CompletionOffered,
    Ending,
    Event,
    RequestFailed,
    RequestStarted,
    StepCancelled,
    StopReason,
    TaskClosed,
    TaskFailed,
    TaskOpened,
    ToolFinished,
    ToolStarted,
    Usage,
    UserSpoke,
)

Attributes: TypeAlias = dict[str, Any]
LONGEST_TEXT = 16_000
"""Characters of one attribute; longer texts are cut."""
INTERNAL, CLIENT = 1, 3
"""The kinds of spans that are used, by their numbers in OTLP."""
_PROVIDERS = {
    "responses": "openai",
    "gemini": "gcp.gemini",
    "vertex": "gcp.vertex_ai",
    "bedrock": "aws.bedrock",
    "azure": "azure.ai.openai",
    "mistral": "mistral_ai",
    "xai": "x_ai",
}
"""The names in the conventions, where they are not ours."""
_FINISHED = {
    StopReason.END: "stop",
    StopReason.CALLS: "tool_call",
    StopReason.REFUSED: "content_filter",
    StopReason.OVERFLOW: "length",
}


class TraceSpan(Struct, kw_only=True):
    """A span; its times are in milliseconds. `error` is its error type, if it failed."""

    name: str
    kind: int
    trace: str
    id: str
    parent: str = ""
    start: int
    end: int = 0
    attributes: Attributes
    error: str = ""


class SpanLink(Struct, frozen=True):
    """The span of a call, to which the spans of its sub-tasks belong."""

    trace: str
    span: str


class TaskSpans(Struct, kw_only=True):
    """The open spans of one task. `links` are shared by all tasks of a host."""

    task_id: str
    content: bool
    links: dict[str, SpanLink]
    _prompt: str = ""
    _prompted: int = 0
    _last: int = 0
    _turn: TraceSpan | None = None
    _request: TraceSpan | None = None
    _request_id: str = ""
    _calls: dict[str, TraceSpan] = field(default_factory=dict)
    _arguments: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def add(self, event: Event) -> Iterator[TraceSpan]:
        """The spans that end with this event."""
        self._last, fact = event.ts, event.fact
        match fact:
            case TaskOpened(text=text) | UserSpoke(text=text) | Answered(text=str(text), by="user"):
                if not self._prompted and not self._turn:
                    self._prompt, self._prompted = text, event.ts
            case RequestStarted():
                yield from self._end_request("interrupted")
                self._begin_request(fact, event)
            case AssistantSpoke(request_id=self._request_id):
                self._arguments = {
                    block.id: block.arguments
                    for block in fact.blocks
                    if isinstance(block, ToolCall)
                }
                self._note_answer(fact)
                yield from self._end_request("interrupted" if fact.interrupted else "")
            case RequestFailed(request_id=self._request_id):
                self._note_usage(fact.usage)
                yield from self._end_request(str(fact.error))
            case ToolStarted():
                self._begin_call(fact, event)
            case ToolFinished():
                yield from self._end_call(fact)
            case CompletionOffered(result=result):
                if self._turn and self.content:
                    said = _message("assistant", [{"type": "text", "content": result}])
                    self._turn.attributes["gen_ai.output.messages"] = said
                yield from self.close()
            case TaskFailed():
                yield from self.close("task_failed")
            case StepCancelled():
                yield from self.close("cancelled")
            case TaskClosed():
                yield from self.close()
            case _:
                pass

    def close(self, error: str = "") -> Iterator[TraceSpan]:
        """The spans that are still open: the turn ends."""
        unfinished = error or "interrupted"
        yield from self._end_request(unfinished)
        for call in self._calls.values():
            yield self._ended(call, unfinished)
        self._calls = {}
        if self._turn:
            yield self._ended(self._turn, error)
        self._turn, self._prompt, self._prompted = None, "", 0

    def _begin_request(self, fact: RequestStarted, event: Event) -> None:
        turn = self._turn or self._begin_turn(fact, event)
        common = {**_about(fact), "gen_ai.conversation.id": self.task_id}
        self._request_id = fact.request_id
        self._request = TraceSpan(
            name=f"chat {_model(fact)}",
            kind=CLIENT,
            trace=turn.trace,
            id=self._id("span", event),
            parent=turn.id,
            start=event.ts,
            attributes={"gen_ai.operation.name": "chat", **common, **_server(fact.base_url)},
        )

    def _begin_turn(self, fact: RequestStarted, event: Event) -> TraceSpan:
        link = self.links.get(self.task_id)
        attributes: Attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": NAME,
            "gen_ai.conversation.id": self.task_id,
            **_about(fact),
        }
        if self.content and self._prompt:
            said = _message("user", [{"type": "text", "content": self._prompt}])
            attributes["gen_ai.input.messages"] = said
        self._turn = TraceSpan(
            name=f"invoke_agent {NAME}",
            kind=INTERNAL,
            trace=link.trace if link else self._id("trace", event, 32),
            id=self._id("turn", event),
            parent=link.span if link else "",
            start=self._prompted or event.ts,
            attributes=attributes,
        )
        return self._turn

    def _note_answer(self, fact: AssistantSpoke) -> None:
        self._note_usage(fact.usage)
        if not self._request:
            return
        reason = _FINISHED.get(fact.stop, str(fact.stop))
        self._request.attributes["gen_ai.response.finish_reasons"] = [reason]
        if self.content:
            said = _message("assistant", _parts(fact), finish_reason=reason)
            self._request.attributes["gen_ai.output.messages"] = said

    def _note_usage(self, usage: Usage) -> None:
        for span in filter(None, (self._request, self._turn)):
            for name, count in _usage(usage).items():
                span.attributes[name] = span.attributes.get(name, 0) + count

    def _end_request(self, error: str) -> Iterator[TraceSpan]:
        if self._request:
            yield self._ended(self._request, error)
        self._request, self._request_id = None, ""

    def _begin_call(self, fact: ToolStarted, event: Event) -> None:
        if not self._turn:
            return  # its turn began before this process did
        attributes: Attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": fact.tool,
            "gen_ai.tool.call.id": fact.call_id,
            "gen_ai.tool.type": "function",
            "gen_ai.conversation.id": self.task_id,
        }
        if self.content:
            given = _cut(_json(self._arguments.get(fact.call_id, {})))
            attributes["gen_ai.tool.call.arguments"] = given
        span = self._calls[fact.call_id] = TraceSpan(
            name=f"execute_tool {fact.tool}",
            kind=INTERNAL,
            trace=self._turn.trace,
            id=self._id("span", event),
            parent=self._turn.id,
            start=event.ts,
            attributes=attributes,
        )
        for task_id in filter(None, (fact.child, *(agent.task_id for agent in fact.agents))):
            self.links[task_id] = SpanLink(span.trace, span.id)

    def _end_call(self, fact: ToolFinished) -> Iterator[TraceSpan]:
        if span := self._calls.pop(fact.call_id, None):
            if self.content:
                span.attributes["gen_ai.tool.call.result"] = _cut(fact.text)
            yield self._ended(span, "" if fact.ending is Ending.DONE else str(fact.ending))

    def _ended(self, span: TraceSpan, error: str) -> TraceSpan:
        span.end, span.error = max(self._last, span.start), error
        if error:
            span.attributes["error.type"] = error
        return span

    def _id(self, what: str, event: Event, digits: int = 16) -> str:
        text = f"{what} {self.task_id} {event.seq} {event.ts}"
        return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:digits]


def _about(fact: RequestStarted) -> Attributes:
    return {
        "gen_ai.provider.name": _PROVIDERS.get(fact.provider, fact.provider or "unknown"),
        "gen_ai.request.model": _model(fact),
    }


def _model(fact: RequestStarted) -> str:
    """The model's name. Of a model file, not where it is."""
    return fact.model.rpartition("/")[2] if fact.model.startswith(("/", "~", ".")) else fact.model


def _server(base_url: str) -> Attributes:
    """The provider's host, if it is not the default. The rest of an address may hold a key."""
    try:
        address = urlsplit(base_url)
        port = {"server.port": address.port} if address.port else {}
    except ValueError:
        return {}
    return {"server.address": address.hostname, **port} if address.hostname else {}


def _usage(usage: Usage) -> dict[str, int]:
    return {
        "gen_ai.usage.input_tokens": usage.tokens_in,
        "gen_ai.usage.output_tokens": usage.tokens_out,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_reads,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_writes,
    }


def _parts(fact: AssistantSpoke) -> list[Attributes]:
    parts: list[Attributes] = []
    for block in fact.blocks:
        match block:
            case Text(text=text):
                parts.append({"type": "text", "content": text})
            case Thinking(text=text):
                parts.append({"type": "reasoning", "content": text})
            case ToolCall(id=id, name=name, arguments=given):
                parts.append({"type": "tool_call", "id": id, "name": name, "arguments": given})
            case _:
                pass
    return parts


def _message(role: str, parts: list[Attributes], **more: str) -> str:
    return _cut(_json([{"role": role, "parts": parts, **more}]))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + "…"
