"""The stream of chat completions, in all the ways servers spell it, in our chunks."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from rookery.core.facts import StopReason, Usage
from rookery.engine.ports.model import (
    CallChunk,
    Chunk,
    ModelInfo,
    StopChunk,
    TextChunk,
    ThinkingChunk,
    UsageChunk,
)
from rookery.providers.listener import ReportedError
from rookery.providers.models import priced
from rookery.providers.turn_text import count, detail_of_stop, rows, stop_reason, table, words

SOURCE = "openai"

_PLAIN = {"content", "role"}
_MORE = {"error", "usage"}
_JOINED = ("text", "summary", "data", "signature")
"""Fields of a reasoning detail that come in pieces."""


class _Call(Struct):
    """A call whose pieces are arriving. It is announced once its name is known."""

    index: int
    id: str = ""
    name: str = ""
    held: str = ""
    announced: bool = False


class ChatReading:
    """The end mark counts, and so does the end of the body once a reason to stop was given:
    some servers leave the mark out."""

    def __init__(self, model: ModelInfo) -> None:
        self._model = model
        self._usage = Usage()
        self._calls: list[_Call] = []
        self._current: dict[object, _Call] = {}
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
                raise ReportedError({"message": "the provider broke off", "code": 502})
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

    def _announce(self, call: _Call) -> Iterator[Chunk]:
        if not call.announced:
            call.announced = True
            yield CallChunk(call.index, call.held, id=call.id, name=call.name)
        elif call.held:
            yield CallChunk(call.index, call.held)
        call.held = ""

    def _call_of(self, piece: Any, position: int) -> _Call:
        """The call a piece belongs to: by its index; without one, the last unless it has an
        id of its own. Another id under the same index is another call, too."""
        call_id = words(piece.get("id"))
        key = piece.get("index")
        if not isinstance(key, int):
            key = "last" if call_id == "" or position == 0 else f"extra {position}"
        call = self._current.get(key)
        if call is None or (call_id and call.id and call_id != call.id):
            call = _Call(index=len(self._calls), id=call_id)
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
