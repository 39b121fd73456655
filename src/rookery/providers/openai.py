"""Chat completions: OpenAI, OpenRouter, Gemini, Ollama, LM Studio, vLLM and gateways.

What a server does differently is data: a row of `VENDORS`.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from rookery.core.blocks import Block, Image, Text, Thinking, ToolCall, ToolResult
from rookery.core.facts import StopReason, Usage
from rookery.core.folds.history import Turn
from rookery.core.limits import NOT_AT_ALL, Effort, effort_word
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
from rookery.providers.exchange import Endpoint, Exchange
from rookery.providers.listener import ReportedError
from rookery.providers.registry import priced
from rookery.providers.wire_format import (
    IMAGES_OF_A_RESULT,
    count,
    detail_of_stop,
    encode_body,
    kept_json,
    rows,
    sendable,
    stop_reason,
    table,
    words,
)

SOURCE = "openai"

_PLAIN = {"content", "role"}
_MORE = {"error", "usage"}
_JOINED = ("text", "summary", "data", "signature")
"""Fields of a reasoning detail that come in pieces."""


class _ArrivingCall(Struct):
    """A call whose pieces are arriving. It is announced once its name is known."""

    index: int
    id: str = ""
    name: str = ""
    held: str = ""
    announced: bool = False


class ChatReading:
    """Without an end mark, the end of the body counts once a reason to stop was given."""

    def __init__(self, model: ModelInfo) -> None:
        self._model = model
        self._usage = Usage()
        self._calls: list[_ArrivingCall] = []
        self._current: dict[object, _ArrivingCall] = {}
        self._details: dict[object, dict[str, Any]] = {}
        self._stop: str | None = None
        self._refusal = ""

    def hear(self, event: Any) -> Iterable[Chunk]:
        piece = self._next_piece(event)
        if piece and not self._details and event.get("object") != "error":
            return (piece,)
        event = table(event)
        if event.get("error") or event.get("object") == "error":
            raise ReportedError(event.get("error") or event)
        choices = rows(event.get("choices"))
        said = self._hear_choice(table(choices[0]) if choices else {})
        usage = event.get("usage")
        return [*said, self._hear_usage(usage)] if isinstance(usage, dict) else said

    def _next_piece(self, event: Any) -> TextChunk | CallChunk | None:
        """The next piece of the text or of a call, if the event holds nothing else, as nearly all
        do. Long answers come in ten thousand of them."""
        try:
            choice = event["choices"][0]
            delta = choice["delta"]
            if choice.get("finish_reason") or event.keys() & _MORE:
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

    def _hear_choice(self, choice: Any) -> Iterator[Chunk]:
        delta = table(choice.get("delta") or choice.get("message"))
        yield from self._hear_reasoning(delta)
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
            yield from self._hear_call(table(piece), position)
        if reason := words(choice.get("finish_reason")):
            if reason == "error":
                raise ReportedError({"message": "the provider ended the answer", "code": 502})
            self._stop = reason

    def _hear_reasoning(self, delta: Any) -> Iterator[Chunk]:
        details = [table(item) for item in rows(delta.get("reasoning_details"))]
        for position, item in enumerate(details):
            self._keep_detail(item.get("index", position), item)
        text = words(delta.get("reasoning_content")) or words(delta.get("reasoning"))
        text = text or "".join(words(d.get("text")) or words(d.get("summary")) for d in details)
        if text:
            yield ThinkingChunk(text, source=SOURCE)

    def _keep_detail(self, index: object, item: Any) -> None:
        kept = self._details.setdefault(index, {})
        for name, value in item.items():
            if name in _JOINED and isinstance(value, str):
                kept[name] = words(kept.get(name)) + value
            elif value is not None:
                kept[name] = value

    def _seal_reasoning(self) -> Sequence[Chunk]:
        """What must be sent back belongs to the reasoning that has just ended."""
        if not self._details:
            return ()
        kept = msgspec.json.encode(list(self._details.values())).decode()
        self._details = {}
        return [ThinkingChunk("", kept, SOURCE)]

    def _hear_call(self, piece: Any, position: int) -> Iterator[Chunk]:
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
        """The call a piece belongs to: by its index; without one, the last unless it has an
        id of its own. Another id under the same index is another call, too."""
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

    def _hear_usage(self, said: Any) -> UsageChunk:
        """Their input includes what was cached. What makes no sense leaves the earlier figure."""
        before, details = self._usage, table(said.get("prompt_tokens_details"))

        def latest(value: object, earlier: int) -> int:
            known = count(value)
            return earlier if known is None else known

        reads = details.get("cached_tokens", said.get("prompt_cache_hit_tokens"))
        usage = Usage(
            tokens_in=latest(said.get("prompt_tokens"), before.tokens_in),
            tokens_out=latest(said.get("completion_tokens"), before.tokens_out),
            cache_reads=latest(reads, before.cache_reads),
            cache_writes=latest(details.get("cache_write_tokens"), before.cache_writes),
        )
        self._usage = priced(self._model, usage, said.get("cost"))
        return UsageChunk(self._usage)


def _text(content: object) -> str:
    """Most send a string; a few send a list of parts."""
    if isinstance(content, list):
        return "".join(words(table(part).get("text")) for part in content)
    return words(content)


PATH = "/chat/completions"

BETWEEN_TEXTS = "\n\n"
_CACHED = {"type": "ephemeral"}


class Vendor(Struct, frozen=True, kw_only=True):
    """Where a server differs from the others."""

    output_limit: str = "max_tokens"
    cache_key: bool = False
    reports_cost: bool = False
    """It charges by its own list and says how much, if asked."""
    keeps_reasoning: bool = False
    """It wants its `reasoning_details` back."""
    reasoning_table: bool = False
    """It takes the effort in a table of its own, where reasoning can also be switched off."""
    most_effort: Effort = "xhigh"


VENDORS = {
    "openai": Vendor(output_limit="max_completion_tokens", cache_key=True),
    "openrouter": Vendor(reports_cost=True, keeps_reasoning=True, reasoning_table=True),
    "gemini": Vendor(most_effort="high"),
    "vercel-ai-gateway": Vendor(reasoning_table=True),
    "roo": Vendor(keeps_reasoning=True, reasoning_table=True),
    **dict.fromkeys(("ollama", "lmstudio", "vllm"), Vendor()),
}


def headers(api_key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {api_key}"} if api_key else {}


class ChatProvider:
    def __init__(self, endpoint: Endpoint, model: ModelInfo, effort: Effort) -> None:
        self.model = model
        self._endpoint = endpoint
        self._vendor = VENDORS.get(model.provider, Vendor())
        self._effort: Effort = effort

    def stream(self, request: ModelRequest) -> Exchange:
        said = body(request, self.model, self._vendor, self._effort)
        return self._endpoint.ask(PATH, said, ChatReading(self.model))

    async def aclose(self) -> None:
        await self._endpoint.aclose()


PROVIDER = ChatProvider


def body(
    request: ModelRequest, model: ModelInfo, vendor: Vendor, effort: Effort = "unspecified"
) -> dict[str, Any]:
    """Our request in their words."""
    source = SOURCE if vendor.keeps_reasoning else ""
    turns = sendable(request.turns, source, images=model.images)
    messages = [message for turn in turns for message in _messages(turn)]
    if request.system.strip():
        messages.insert(0, {"role": "system", "content": request.system})
    if vendor.reports_cost and model.id.startswith("anthropic/"):
        _mark_for_caching(messages)
    if request.now:
        _add(messages, request.now)
    said: dict[str, Any] = {
        "model": model.id,
        "messages": messages,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.tools:
        said["tools"] = [_tool(spec) for spec in request.tools]
    if request.max_output:
        said[vendor.output_limit] = request.max_output
    if vendor.cache_key and request.cache_key:
        said["prompt_cache_key"] = request.cache_key
    if vendor.reports_cost:
        said["usage"] = {"include": True}
    if model.thinking:
        said |= _reasoning(vendor, effort)
    return said


def _reasoning(vendor: Vendor, effort: Effort) -> dict[str, Any]:
    word = effort_word(vendor.most_effort if effort == "xhigh" else effort)
    if not word:
        return {}
    if not vendor.reasoning_table:
        return {"reasoning_effort": word}
    return {"reasoning": {"enabled": False} if effort in NOT_AT_ALL else {"effort": word}}


def _tool(spec: ToolSpec) -> dict[str, Any]:
    function = {"name": spec.name, "description": spec.description, "parameters": spec.schema}
    return {"type": "function", "function": function}


def _messages(turn: Turn) -> Iterator[dict[str, Any]]:
    if turn.role == "assistant":
        yield _spoken(turn.blocks)
        return
    results = [block for block in turn.blocks if isinstance(block, ToolResult)]
    for result in results:
        yield {"role": "tool", "tool_call_id": result.call_id, "content": result.text}
    # a tool message holds text only, so the images of results open the user's message
    parts = [part for result in results for part in _images_of(result)]
    parts += [_part(block) for block in turn.blocks if isinstance(block, Text | Image)]
    if parts:
        yield {"role": "user", "content": _shortest(parts)}


def _spoken(blocks: Sequence[Block]) -> dict[str, Any]:
    text = "".join(block.text for block in blocks if isinstance(block, Text))
    calls = [_call(block) for block in blocks if isinstance(block, ToolCall)]
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = calls
    thoughts = [block for block in blocks if isinstance(block, Thinking)]
    if details := [item for block in thoughts for item in rows(kept_json(block.signature))]:
        message["reasoning_details"] = details
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
    """Mere text as text, which every server takes."""
    if any(part["type"] != "text" for part in parts):
        return parts
    return BETWEEN_TEXTS.join(part["text"] for part in parts)


def _add(messages: list[dict[str, Any]], text: str) -> None:
    """Say something more at the end, without another spelling of what was said before it."""
    match messages[-1] if messages else {}:
        case {"role": "user", "content": str(said)}:
            messages[-1]["content"] = said + BETWEEN_TEXTS + text
        case {"role": "user", "content": list(parts)}:
            messages[-1]["content"] = [*parts, {"type": "text", "text": text}]
        case {"role": "assistant"}:
            pass  # an answer that is to be continued
        case _:
            messages.append({"role": "user", "content": text})


def _mark_for_caching(messages: list[dict[str, Any]]) -> None:
    """Mark the ends of what stays the same, as Anthropic's models want it: the system prompt, and
    the last two turns of the user, which end in a result where only tools were called."""
    system = [message for message in messages[:1] if message["role"] == "system"]
    following = [*(message["role"] for message in messages[1:]), "assistant"]
    turns = [
        message
        for message, after in zip(messages, following, strict=True)
        if message["role"] in ("user", "tool")
        and after == "assistant"
        and str(message["content"]).strip()
    ]
    for message in (*system, *turns[-2:]):
        content = message["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        message["content"] = [*parts[:-1], {**parts[-1], "cache_control": _CACHED}]
