"""Chat completions: OpenAI, OpenRouter, Gemini, Ollama, LM Studio, vLLM and gateways.

What the servers do differently is data: a row of `VENDORS`.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from rookery.core.blocks import Block, Image, Text, Thinking, ToolCall, ToolResult
from rookery.core.folds.history import Turn
from rookery.core.limits import NOT_AT_ALL, Effort, effort_word
from rookery.engine.ports.model import ModelInfo, ModelRequest, ToolSpec
from rookery.providers.chat_stream import SOURCE, ChatReading
from rookery.providers.exchange import Endpoint, Exchange
from rookery.providers.sse import encode_body
from rookery.providers.turn_text import IMAGES_OF_A_RESULT, kept_json, rows, sendable

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
    "ollama": Vendor(),
    "lmstudio": Vendor(),
    "vllm": Vendor(),
}


def headers(api_key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {api_key}"} if api_key else {}


class ChatProvider:
    def __init__(
        self, endpoint: Endpoint, model: ModelInfo, vendor: Vendor, effort: Effort
    ) -> None:
        self.model = model
        self._endpoint = endpoint
        self._vendor = vendor
        self._effort: Effort = effort

    def stream(self, request: ModelRequest) -> Exchange:
        said = body(request, self.model, self._vendor, self._effort)
        return self._endpoint.ask(PATH, said, ChatReading(self.model))

    async def aclose(self) -> None:
        await self._endpoint.aclose()


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
