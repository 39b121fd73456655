"""Gemini's own protocol, `generateContent`, as the Gemini API and Vertex AI speak it.

Gemini signs parts of its answers and wants each signature back on the part that it came with. They
are kept as reasoning: before a call, or after a text, whose parts would otherwise become several
blocks.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

from rookery.core.blocks import Block, Image, Text, Thinking, ToolCall, ToolResult
from rookery.core.facts import StopReason, Usage
from rookery.core.folds.history import Turn
from rookery.core.limits import NOT_AT_ALL, Effort
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
from rookery.first_use import prepared
from rookery.providers.catalogue import priced
from rookery.providers.exchange import Question, WireProvider
from rookery.providers.listener import ReportedError
from rookery.providers.wire_format import (
    count,
    detail_of_stop,
    rows,
    sendable,
    stop_reason,
    table,
    words,
)

SOURCE = "gemini"

_NO_SIGNATURE = "skip_thought_signature_validator"
"""Google's stand-in for the signature of a call that another model made."""
_LEVELS = {"minimal": "LOW", "low": "LOW", "medium": "MEDIUM", "high": "HIGH", "xhigh": "HIGH"}
_BUDGETS = {"minimal": 1024, "low": 1024, "medium": 8192, "high": 24_576, "xhigh": 24_576}
_SMALLEST_BUDGET_OF_PRO = 128


class _Signatures(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the signature of a reasoning block holds: that of the reasoning itself, of the call
    after it, or of pieces of the text before it, each with its beginning and its end."""

    thought: str = ""
    call: str = ""
    text: tuple[tuple[int, int, str], ...] = ()

    def kept(self) -> str:
        return msgspec.json.encode(self).decode()


def headers(api_key: str) -> dict[str, str]:
    return {"x-goog-api-key": api_key} if api_key else {}


class GeminiProvider(WireProvider):
    def ask(self, request: ModelRequest) -> Question:
        return (
            path(self.model),
            body(request, self.model, self.effort),
            ContentReading(self.model),
        )


PROVIDER = GeminiProvider


def path(model: ModelInfo) -> str:
    name = quote(model.id.removeprefix("models/"), safe="")
    return f"/models/{name}:streamGenerateContent?alt=sse"


def body(request: ModelRequest, model: ModelInfo, effort: Effort = "unspecified") -> dict[str, Any]:
    """The request in the provider's format. What changes from request to request comes last."""
    turns = sendable(request.turns, SOURCE, images=model.images, signs_last_part=True)
    contents = _contents(turns, old=_is_old(model))
    payload: dict[str, Any] = {}
    if request.system.strip():
        payload["systemInstruction"] = {"parts": [{"text": request.system}]}
    if request.tools:
        declarations = [_declaration(spec) for spec in request.tools]
        payload["tools"] = [{"functionDeclarations": declarations}]
    if config := _config(request, model, effort):
        payload["generationConfig"] = config
    return payload | {"contents": contents}


def _is_old(model: ModelInfo) -> bool:
    """Models before Gemini 3 take a budget instead of a level, and images beside results only."""
    return model.id.removeprefix("models/").startswith(("gemini-1", "gemini-2"))


def _config(request: ModelRequest, model: ModelInfo, effort: Effort) -> dict[str, Any]:
    config: dict[str, Any] = {}
    if request.max_output:
        config["maxOutputTokens"] = request.max_output
    if model.thinking:
        config["thinkingConfig"] = _thinking(model, effort)
    if request.answer_schema:
        config["responseMimeType"] = "application/json"
        config["responseJsonSchema"] = request.answer_schema
    fields = {
        "temperature": request.temperature,
        "seed": request.seed,
        "stopSequences": list(request.stop) or None,
    }
    return config | {name: value for name, value in fields.items() if value is not None}


def _thinking(model: ModelInfo, effort: Effort) -> dict[str, Any]:
    if effort == "unspecified":
        return {"includeThoughts": True}
    if effort in NOT_AT_ALL:
        least = _SMALLEST_BUDGET_OF_PRO if "pro" in model.id else 0
        return {"thinkingBudget": least} if _is_old(model) else {"thinkingLevel": "LOW"}
    if _is_old(model):
        return {"includeThoughts": True, "thinkingBudget": _BUDGETS[effort]}
    return {"includeThoughts": True, "thinkingLevel": _LEVELS[effort]}


def _declaration(spec: ToolSpec) -> dict[str, Any]:
    described = {"name": spec.name, "description": spec.description}
    return {**described, "parametersJsonSchema": spec.schema}


def _contents(turns: Sequence[Turn], *, old: bool) -> list[dict[str, Any]]:
    names: dict[str, str] = {}
    contents = []
    for turn in turns:
        if turn.role == "assistant":
            parts = _model_parts(turn.blocks)
            contents.append({"role": "model", "parts": parts if old else _signed(parts)})
        else:
            parts = [part for block in turn.blocks for part in _user_parts(block, names, old=old)]
            contents.append({"role": "user", "parts": parts})
        names |= {block.id: block.name for block in turn.blocks if isinstance(block, ToolCall)}
    return contents


def _model_parts(blocks: Sequence[Block]) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    before: Block | None = None
    for block in blocks:
        match block:
            case Text(text=text):
                parts.append({"text": text})
            case ToolCall(id=call_id, name=name, arguments=arguments):
                call = {"id": call_id, "name": name, "args": dict(arguments)}
                parts.append({"functionCall": call, **_mark(_signatures(before).call)})
            case Thinking(text=text):
                signatures = _signatures(block)
                if signatures.thought:
                    parts.append({"text": text, "thought": True, **_mark(signatures.thought)})
                if signatures.text:
                    whole = parts.pop()["text"] if isinstance(before, Text) else ""
                    parts += _pieces(whole, signatures.text)
            case _:
                raise AssertionError(f"no model says {block}")
        before = block
    return parts


def _signatures(block: Block | None) -> _Signatures:
    try:
        kept = block.signature if isinstance(block, Thinking) else "{}"
        return msgspec.json.decode(kept, type=prepared(_Signatures))
    except msgspec.MsgspecError:
        return _Signatures()


def _pieces(text: str, signed: Sequence[tuple[int, int, str]]) -> Iterator[dict[str, Any]]:
    """Split the text into the parts in which it arrived. It is shorter if some was left out."""
    at = 0
    for start, end, signature in signed:
        start = min(max(start, at), len(text))
        if start > at:
            yield {"text": text[at:start]}
        at = min(max(end, start), len(text))
        yield {"text": text[start:at], **_mark(signature)}
    if at < len(text):
        yield {"text": text[at:]}


def _mark(signature: str) -> dict[str, str]:
    return {"thoughtSignature": signature} if signature else {}


def _signed(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first call of an answer must be signed; one that another model made is not."""
    first = next((part for part in parts if "functionCall" in part), {})
    first.setdefault("thoughtSignature", _NO_SIGNATURE)
    return parts


def _user_parts(block: Block, names: Mapping[str, str], *, old: bool) -> list[dict[str, Any]]:
    match block:
        case Text(text=text):
            return [{"text": text}]
        case Image():
            return [_inline(block)]
        case ToolResult(call_id=call_id, text=text, images=images, is_error=is_error):
            result: dict[str, Any] = {
                "id": call_id,
                "name": names.get(call_id, "unknown"),
                "response": {"error" if is_error else "output": text},
            }
            shown = [_inline(image) for image in images]
            if shown and not old:
                return [{"functionResponse": {**result, "parts": shown}}]
            return [{"functionResponse": result}, *shown]
        case _:
            raise AssertionError(f"no user says {block}")


def _inline(image: Image) -> dict[str, Any]:
    return {"inlineData": {"mimeType": image.media_type, "data": image.data}}


class ContentReading:
    """Converts the provider's stream to chunks. The event with a finish reason is the last."""

    def __init__(self, model: ModelInfo) -> None:
        self._model = model
        self._usage = Usage()
        self._calls = 0
        self._length = 0
        self._signed: list[tuple[int, int, str]] = []

    def read_event(self, event: Any) -> Iterable[Chunk]:
        event = table(event)
        if event.get("error"):
            raise ReportedError(event["error"])
        candidates = rows(event.get("candidates"))
        candidate = table(candidates[0]) if candidates else {}
        for part in rows(table(candidate.get("content")).get("parts")):
            yield from self._read_part(table(part))
        if isinstance(used := event.get("usageMetadata"), dict):
            yield self._read_usage(used)
        if word := words(candidate.get("finishReason")):
            yield from self._end_text()
            reason = stop_reason(word, called=bool(self._calls))
            message = words(candidate.get("finishMessage"))
            yield StopChunk(reason, detail_of_stop(reason, word, message))
        elif blocked := words(table(event.get("promptFeedback")).get("blockReason")):
            message = words(table(event.get("promptFeedback")).get("blockReasonMessage"))
            detail = f"Google blocked the prompt ({blocked}). {message}".strip()
            yield StopChunk(StopReason.REFUSED, detail)

    def close(self, *, marked: bool) -> Iterable[Chunk]:
        return ()

    def _read_part(self, part: Any) -> Iterator[Chunk]:
        signature, text = words(part.get("thoughtSignature")), words(part.get("text"))
        if part.get("thought") is True:
            yield from self._end_text()
            sealed = _Signatures(thought=signature).kept() if signature else ""
            if text or sealed:
                yield ThinkingChunk(text, sealed, SOURCE)
        elif isinstance(call := part.get("functionCall"), dict):
            yield from self._end_text()
            if signature:
                yield ThinkingChunk("", _Signatures(call=signature).kept(), SOURCE)
            yield self._read_call(call)
        else:
            if signature:
                self._signed.append((self._length, self._length + len(text), signature))
            self._length += len(text)
            if text:
                yield TextChunk(text)

    def _end_text(self) -> Iterator[Chunk]:
        """The signatures of a text, once all of it is known."""
        if self._signed:
            yield ThinkingChunk("", _Signatures(text=tuple(self._signed)).kept(), SOURCE)
        self._signed, self._length = [], 0

    def _read_call(self, call: Any) -> CallChunk:
        index, self._calls = self._calls, self._calls + 1
        arguments = _spelled(call["args"]) if "args" in call else ""
        return CallChunk(index, arguments, id=words(call.get("id")), name=words(call.get("name")))

    def _read_usage(self, data: Any) -> UsageChunk:
        """The input includes cached tokens; reasoning is not part of the candidates. Invalid
        figures leave the earlier one."""
        before = self._usage

        def total(earlier: int, *names: str) -> int:
            known = [count(data[name]) for name in names if name in data]
            return sum(number or 0 for number in known) if any(known) else earlier

        usage = Usage(
            tokens_in=total(before.tokens_in, "promptTokenCount", "toolUsePromptTokenCount"),
            tokens_out=total(before.tokens_out, "candidatesTokenCount", "thoughtsTokenCount"),
            cache_reads=total(before.cache_reads, "cachedContentTokenCount"),
        )
        self._usage = priced(self._model, usage)
        return UsageChunk(self._usage)


def _spelled(arguments: object) -> str:
    try:
        return json.dumps(arguments, ensure_ascii=False)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
