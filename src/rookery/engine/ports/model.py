"""Requests to a model, their size, and the chunks of its answer.

Text is measured in UTF-8 bytes, which match tokens across languages better than characters do.
"""

import json
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cached_property
from operator import is_
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from rookery.core.blocks import Block, Image, Text, Thinking, ToolCall, ToolResult
from rookery.core.facts import StopReason, Usage
from rookery.core.folds.history import Turn

OF_A_PICTURE = 1_600 * 3
"""Bytes that an image counts as."""
AROUND_A_BLOCK = 12

T = TypeVar("T")


class ModelInfo(Struct, frozen=True, kw_only=True):
    """Facts about a model. Prices are dollars per million tokens; None means unknown."""

    id: str
    provider: str
    base_url: str = ""
    """The address, if not the provider's default."""
    window: int = 128_000
    max_output: int = 8_192
    images: bool = False
    thinking: bool = False
    caching: bool = False
    calls: str = ""
    """How it calls tools: "native", "text" (it prints them), "schema" (the server constrains its
    answers), or empty: unknown."""
    parameters: float = 0.0
    """Its size in billions of parameters; 0 if unknown."""
    input_price: float | None = None
    output_price: float | None = None
    cache_read_price: float | None = None
    cache_write_price: float | None = None


class TextChunk(Struct, frozen=True):
    text: str


class ThinkingChunk(Struct, frozen=True):
    """A piece of reasoning. `signature` comes once, at the end of its block. A signature without
    text is a block of its own."""

    text: str
    signature: str = ""
    source: str = ""


class CallChunk(Struct, frozen=True):
    """A piece of a tool call. Only the first piece has `id` and `name`."""

    index: int
    arguments: str
    id: str = ""
    name: str = ""


class UsageChunk(Struct, frozen=True):
    """The usage so far; replaces an earlier one."""

    usage: Usage


class StopChunk(Struct, frozen=True):
    """The answer is complete. A stream without this chunk was cut off."""

    reason: StopReason
    detail: str = ""


class SilenceChunk(Struct, frozen=True):
    """Nothing was received for `seconds`; the stream is still open. `what` says why, if that is
    known."""

    seconds: float
    what: str = ""


Chunk: TypeAlias = TextChunk | ThinkingChunk | CallChunk | UsageChunk | StopChunk | SilenceChunk


class ToolSpec(Struct, frozen=True, dict=True):
    """A tool as described to the model."""

    name: str
    description: str
    schema: Mapping[str, Any]

    @cached_property
    def size(self) -> int:
        """Bytes of text. The same tools are in every request, so they are measured once."""
        return len(self.name) + text_weight(self.description) + len(str(self.schema))


class ModelRequest(Struct, frozen=True, kw_only=True):
    """One request. It begins with the request before it, so that the provider can cache that.
    `cache_key` is the same for all requests that begin with the same prompt and tools."""

    system: str
    turns: Sequence[Turn]
    tools: Sequence[ToolSpec] = ()
    max_output: int | None = None
    cache_key: str = ""
    temperature: float | None = None
    seed: int | None = None
    stop: Sequence[str] = ()
    """Texts at which the answer ends."""
    answer_schema: Mapping[str, Any] | None = None
    """The JSON schema of the answer, for servers that can constrain it."""


class Provider(Protocol):
    model: ModelInfo

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[Chunk]]:
        """Open one request. Leaving the context closes the connection.

        Raises `ProviderError`, on entering or while iterating, and nothing else. Never retries.
        """
        ...


# ── the size of a request ─────────────────────────────────────────────────────────────────────


class TokenRoom(Struct, frozen=True):
    """A model's context: `window` tokens, of which `answer` are reserved for the answer."""

    window: int
    answer: int

    @property
    def request(self) -> int:
        """Tokens available for a request, with a reserve because the count is an estimate."""
        return max(self.window * 9 // 10 - self.answer, self.window // 5)


def room(window: int, most_output: int) -> TokenRoom:
    """The answer gets the model's largest output, or a fifth of a small window."""
    return TokenRoom(window, min(most_output, max(window // 5, 1)))


def weight(turns: Iterable[Turn]) -> int:
    """The bytes of a conversation."""
    return sum(_weight(block) for turn in turns for block in turn.blocks)


class Repeated(Generic[T]):
    """Results for the turns of the last request. The next request repeats its turns and adds some,
    so only the new turns are computed."""

    def __init__(self) -> None:
        self._how: Hashable = None
        self._turns: list[Turn] = []
        self._made: list[T] = []

    def make(
        self, make: Callable[[Turn], T], turns: Sequence[Turn], how: Hashable = None
    ) -> Sequence[T]:
        """Return `make(turn)` for each turn. It must depend only on the turn and `how`."""
        same = [*map(is_, self._turns, turns), False].index(False) if how == self._how else 0
        made = [make(turn) for turn in turns[same:]]
        self._how, self._turns[same:], self._made[same:] = how, turns[same:], made
        return self._made


class Scale:
    """Measures a growing conversation: an unchanged turn is measured once."""

    def __init__(self) -> None:
        self._weighed = Repeated[int]()

    def weight(self, turns: Sequence[Turn]) -> int:
        """The same as `weight`."""
        return sum(self._weighed.make(lambda turn: weight([turn]), turns))


def _weight(block: Block) -> int:
    match block:
        case Text(text=text):
            return AROUND_A_BLOCK + text_weight(text)
        case Thinking(text=text, signature=signature):
            return AROUND_A_BLOCK + text_weight(text) + len(signature)
        case Image():
            return OF_A_PICTURE
        case ToolCall(id=id, name=name, arguments=arguments):
            spelled = json.dumps(dict(arguments), ensure_ascii=False, default=str)
            return AROUND_A_BLOCK + len(id) + len(name) + text_weight(spelled)
        case ToolResult(call_id=id, text=text, images=images):
            return AROUND_A_BLOCK + len(id) + text_weight(text) + OF_A_PICTURE * len(images)


def text_weight(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
