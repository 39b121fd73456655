"""Chat completions: OpenAI, OpenRouter, local servers, and all who speak the same wire.

Differences between servers are data: rows of `VENDORS` in `vendors.py`.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import msgspec
from msgspec import Struct

from rookery.core.blocks import Block, Image, Text, Thinking, ToolCall, ToolResult
from rookery.core.facts import StopReason, Usage
from rookery.core.folds.history import Turn
from rookery.core.limits import Effort
from rookery.engine.ports.model import (
    CallChunk,
    Chunk,
    ModelInfo,
    ModelRequest,
    Repeated,
    StopChunk,
    TextChunk,
    ThinkingChunk,
    ToolSpec,
    UsageChunk,
)
from rookery.providers.catalogue import priced
from rookery.providers.exchange import Question, WireProvider
from rookery.providers.listener import ReportedError
from rookery.providers.vendors import BETWEEN_TEXTS, Vendor, adapt, reasoning_fields, vendor_of
from rookery.providers.wire_format import (
    IMAGES_OF_A_RESULT,
    bearer,
    detail_of_stop,
    encode_body,
    kept_json,
    latest,
    rows,
    sampling,
    sendable,
    stop_reason,
    table,
    words,
)

SOURCE = "openai"

_PLAIN = {"content", "role"}
_JOINED = ("text", "summary", "data", "signature")
"""Fields of a reasoning detail that are streamed in pieces."""


class _ArrivingCall(Struct):
    """A streaming call. It is announced once its name is known."""

    index: int
    id: str = ""
    name: str = ""
    held: str = ""
    announced: bool = False


class ChatReading:
    """Without an end mark, the end of the body counts once there was a finish reason."""

    def __init__(self, model: ModelInfo, *, returned: bool = False) -> None:
        """`returned` marks reasoning as something to send back."""
        self._model = model
        self._returned = returned
        self._reasoned = False
        self._usage = Usage()
        self._calls: list[_ArrivingCall] = []
        self._current: dict[object, _ArrivingCall] = {}
        self._details: dict[object, dict[str, Any]] = {}
        self._stop: str | None = None
        self._refusal = ""

    def read_event(self, event: Any) -> Iterable[Chunk]:
        piece = self._next_piece(event)
        if piece and not self._details and not self._reasoned and event.get("object") != "error":
            return (piece,)
        event = table(event)
        if event.get("error") or event.get("object") == "error":
            raise ReportedError(event.get("error") or event)
        choices = rows(event.get("choices"))
        chunks = self._read_choice(table(choices[0]) if choices else {})
        usage = event.get("usage")
        return [*chunks, self._read_usage(usage)] if isinstance(usage, dict) else chunks

    def _next_piece(self, event: Any) -> TextChunk | CallChunk | None:
        """Fast path for events with just a piece of text or of a call, as nearly all are. Long
        answers have thousands of them."""
        try:
            choice = event["choices"][0]
            delta = choice["delta"]
            more = event.get("usage") is not None or event.get("error")
            if more or choice.get("finish_reason"):
                return None
            if delta.keys() <= _PLAIN:
                text = delta["content"]
                return TextChunk(text) if text and type(text) is str else None
            (piece,) = delta["tool_calls"]
            call, function = self._current[piece["index"]], piece["function"]
            text = function["arguments"]
        except (KeyError, IndexError, TypeError, ValueError, AttributeError):
            return None
        alone = len(delta) == 1 and len(piece) == 2 and len(function) == 1
        adds = call.announced and text and type(text) is str
        return CallChunk(call.index, text) if adds and alone else None

    def close(self, *, marked: bool) -> Iterable[Chunk]:
        if not marked and self._stop is None:
            return
        yield from self._seal_reasoning()
        for call in self._calls:
            yield from self._announce(call)
        reason = stop_reason(self._stop, called=bool(self._calls))
        if self._refusal:
            reason = StopReason.REFUSED
        yield StopChunk(reason, detail_of_stop(reason, self._stop, self._refusal))

    def _read_choice(self, choice: Any) -> Iterator[Chunk]:
        delta = table(choice.get("delta") or choice.get("message"))
        yield from self._read_reasoning(delta)
        if text := _text(delta.get("content")):
            yield from self._seal_reasoning()
            yield TextChunk(text)
        self._refusal += words(delta.get("refusal"))
        pieces = rows(delta.get("tool_calls"))
        if not pieces and delta.get("function_call"):
            pieces = [{"index": 0, "function": delta["function_call"]}]
        if pieces:
            yield from self._seal_reasoning()
        for position, piece in enumerate(pieces):
            yield from self._read_call(table(piece), position)
        if reason := words(choice.get("finish_reason")):
            if reason == "error":
                raise ReportedError({"message": "the provider ended the answer", "code": 502})
            self._stop = reason

    def _read_reasoning(self, delta: Any) -> Iterator[Chunk]:
        details = [table(item) for item in rows(delta.get("reasoning_details"))]
        for position, item in enumerate(details):
            self._keep_detail(item.get("index", position), item)
        text = words(delta.get("reasoning_content")) or words(delta.get("reasoning"))
        text = text or "".join(words(d.get("text")) or words(d.get("summary")) for d in details)
        text = text or _thoughts(delta.get("content"))
        if text:
            self._reasoned = self._returned
            yield ThinkingChunk(text, source=SOURCE)

    def _keep_detail(self, index: object, item: Any) -> None:
        kept = self._details.setdefault(index, {})
        for name, value in item.items():
            if name in _JOINED and isinstance(value, str):
                kept[name] = words(kept.get(name)) + value
            elif value is not None:
                kept[name] = value

    def _seal_reasoning(self) -> Sequence[Chunk]:
        """Attach what must be sent back to the reasoning that has just ended."""
        if not self._details and not self._reasoned:
            return ()
        kept = msgspec.json.encode(list(self._details.values())).decode()
        self._details, self._reasoned = {}, False
        return [ThinkingChunk("", kept, SOURCE)]

    def _read_call(self, piece: Any, position: int) -> Iterator[Chunk]:
        function = table(piece.get("function"))
        call = self._call_of(piece, position)
        call.name = call.name or words(function.get("name"))
        arguments = function.get("arguments")
        if isinstance(arguments, dict):
            arguments = msgspec.json.encode(arguments).decode()
        call.held += words(arguments)
        if call.name:
            yield from self._announce(call)

    def _announce(self, call: _ArrivingCall) -> Iterator[Chunk]:
        if not call.announced:
            call.announced = True
            yield CallChunk(call.index, call.held, id=call.id, name=call.name)
        elif call.held:
            yield CallChunk(call.index, call.held)
        call.held = ""

    def _call_of(self, piece: Any, position: int) -> _ArrivingCall:
        """The call a piece belongs to: by index, or the last one unless it has a new id. A new
        id under the same index is a new call."""
        call_id = words(piece.get("id"))
        key = piece.get("index")
        if not isinstance(key, int):
            key = "last" if call_id == "" or position == 0 else f"extra {position}"
        call = self._current.get(key)
        if call is None or (call_id and call.id and call_id != call.id):
            call = _ArrivingCall(index=len(self._calls), id=call_id)
            self._calls.append(call)
            self._current[key] = call
        call.id = call.id or call_id
        return call

    def _read_usage(self, data: Any) -> UsageChunk:
        """The provider's input includes cached tokens. Invalid figures leave the earlier one."""
        before, details = self._usage, table(data.get("prompt_tokens_details"))
        elsewhere = data.get("prompt_cache_hit_tokens", data.get("cached_tokens"))
        reads = details.get("cached_tokens", elsewhere)
        usage = Usage(
            tokens_in=latest(data.get("prompt_tokens"), before.tokens_in),
            tokens_out=latest(data.get("completion_tokens"), before.tokens_out),
            cache_reads=latest(reads, before.cache_reads),
            cache_writes=latest(details.get("cache_write_tokens"), before.cache_writes),
        )
        self._usage = priced(self._model, usage, data.get("cost"))
        return UsageChunk(self._usage)


def _text(content: object) -> str:
    """A string, or a list of parts from some servers."""
    if isinstance(content, list):
        return "".join(words(table(part).get("text")) for part in content)
    return words(content)


def _thoughts(content: object) -> str:
    """Mistral's reasoning: parts that hold parts of text."""
    parts = [table(part).get("thinking") for part in rows(content)]
    return "".join(map(_text, parts))


PATH = "/chat/completions"
headers = bearer

_CACHED = {"type": "ephemeral"}


class RepeatedTurns:
    """The turns of the last request, fitted and in the provider's format."""

    def __init__(self) -> None:
        self.fitted = Repeated[Turn]()
        self.messages = Repeated[Sequence[dict[str, Any]]]()


class ChatProvider(WireProvider):
    @cached_property
    def _repeated(self) -> RepeatedTurns:
        return RepeatedTurns()

    def ask(self, request: ModelRequest) -> Question:
        vendor = vendor_of(self.model)
        payload = body(request, self.model, vendor, self.effort, self._repeated)
        return PATH, payload, ChatReading(self.model, returned=vendor.returns_reasoning)


PROVIDER = ChatProvider


def body(
    request: ModelRequest,
    model: ModelInfo,
    vendor: Vendor,
    effort: Effort = "unspecified",
    repeated: RepeatedTurns | None = None,
) -> dict[str, Any]:
    repeated = repeated or RepeatedTurns()
    returns = vendor.returns_reasoning and model.thinking
    source = SOURCE if vendor.keeps_reasoning or returns else ""
    turns = sendable(request.turns, source, images=model.images, repeated=repeated.fitted)
    how = returns, vendor.short_ids
    made = repeated.messages.make(lambda turn: [*_messages(turn, returns)], turns, how)
    messages = [message for each in made for message in each]
    marked = vendor.reports_cost and model.id.startswith("anthropic/")
    if vendor.short_ids or marked:  # they are changed, and the next request needs them as made
        messages = [{**message} for message in messages]
    if request.system.strip():
        messages.insert(0, {"role": "system", "content": request.system})
    if marked:
        _mark_for_caching(messages)
    payload: dict[str, Any] = {
        "model": model.id,
        "messages": adapt(messages, vendor),
        "stream": True,
    }
    if vendor.counts_if_asked:
        payload["stream_options"] = {"include_usage": True}
    if request.tools:
        payload["tools"] = [_tool(spec) for spec in request.tools]
    if request.max_output:
        payload[vendor.output_limit] = request.max_output
    payload |= sampling(request)
    if vendor.cache_key and request.cache_key:
        payload["prompt_cache_key"] = request.cache_key
    if vendor.reports_cost:
        payload["usage"] = {"include": True}
    if model.thinking:
        payload |= reasoning_fields(vendor, effort)
    return payload


def _tool(spec: ToolSpec) -> dict[str, Any]:
    function = {"name": spec.name, "description": spec.description, "parameters": spec.schema}
    return {"type": "function", "function": function}


def _messages(turn: Turn, returns: bool) -> Iterator[dict[str, Any]]:
    if turn.role == "assistant":
        yield _spoken(turn.blocks, returns)
        return
    results = [block for block in turn.blocks if isinstance(block, ToolResult)]
    for result in results:
        yield {"role": "tool", "tool_call_id": result.call_id, "content": result.text}
    # a tool message holds text only, so the images of results open the user's message
    parts = [part for result in results for part in _images_of(result)]
    parts += [_part(block) for block in turn.blocks if isinstance(block, Text | Image)]
    if parts:
        yield {"role": "user", "content": _shortest(parts)}


def _spoken(blocks: Sequence[Block], returns: bool) -> dict[str, Any]:
    text = "".join(block.text for block in blocks if isinstance(block, Text))
    calls = [_call(block) for block in blocks if isinstance(block, ToolCall)]
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = calls
    thoughts = [block for block in blocks if isinstance(block, Thinking)]
    if details := [item for block in thoughts for item in rows(kept_json(block.signature))]:
        message["reasoning_details"] = details
    if returns and calls:
        # a reasoning model's call without this field is refused, even if it reasoned nothing
        message["reasoning_content"] = "".join(block.text for block in thoughts)
    return message


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = encode_body(call.arguments).decode()
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}


def _images_of(result: ToolResult) -> Iterable[dict[str, Any]]:
    if not result.images:
        return ()
    title = Text(text=IMAGES_OF_A_RESULT.format(call_id=result.call_id))
    return [_part(title), *(_part(image) for image in result.images)]


def _part(block: Text | Image) -> dict[str, Any]:
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    url = f"data:{block.media_type};base64,{block.data}"
    return {"type": "image_url", "image_url": {"url": url}}


def _shortest(parts: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """Plain text as a string, which every server accepts."""
    if any(part["type"] != "text" for part in parts):
        return parts
    return BETWEEN_TEXTS.join(part["text"] for part in parts)


def _mark_for_caching(messages: list[dict[str, Any]]) -> None:
    """Mark the ends of stable parts for Anthropic's models: the system prompt and the last two
    user turns, which end in a result if only tools were called. All content becomes lists of
    parts, so that only the marks differ in the next request."""
    system = [message for message in messages[:1] if message["role"] == "system"]
    following = [*(message["role"] for message in messages[1:]), "assistant"]
    turns = [
        message
        for message, after in zip(messages, following, strict=True)
        if message["role"] in ("user", "tool")
        and after == "assistant"
        and str(message["content"]).strip()
    ]
    for message in messages:
        content = message["content"]
        if message["role"] != "assistant" and isinstance(content, str) and content.strip():
            message["content"] = [{"type": "text", "text": content}]
    for message in (*system, *turns[-2:]):
        *parts, last = message["content"]
        message["content"] = [*parts, {**last, "cache_control": _CACHED}]
