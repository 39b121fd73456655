"""Models: what is sent to one, and the chunks that come back."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

from rookery.core.facts import StopReason, Usage
from rookery.core.folds.history import Turn


class ModelInfo(Struct, frozen=True, kw_only=True):
    """What is known of a model. Prices are dollars per million tokens; None means unknown."""

    id: str
    provider: str
    base_url: str = ""
    """Where it is reached, if not at the provider's usual address."""
    window: int = 128_000
    max_output: int = 8_192
    images: bool = False
    thinking: bool = False
    caching: bool = False
    input_price: float | None = None
    output_price: float | None = None
    cache_read_price: float | None = None
    cache_write_price: float | None = None


class TextChunk(Struct, frozen=True):
    text: str


class ThinkingChunk(Struct, frozen=True):
    """A piece of reasoning. `signature` belongs to the block that this piece continues and
    comes once, at its end; a signature without any text is a block of its own.
    """

    text: str
    signature: str = ""
    source: str = ""


class CallChunk(Struct, frozen=True):
    """A piece of a tool call. `id` and `name` come with its first piece only."""

    index: int
    arguments: str
    id: str = ""
    name: str = ""


class UsageChunk(Struct, frozen=True):
    """The usage so far; a later one replaces an earlier one."""

    usage: Usage


class StopChunk(Struct, frozen=True):
    """The answer ended properly. A stream without one was cut off."""

    reason: StopReason
    detail: str = ""


class SilenceChunk(Struct, frozen=True):
    """Nothing has come for `seconds`; the stream is still open."""

    seconds: float


Chunk: TypeAlias = TextChunk | ThinkingChunk | CallChunk | UsageChunk | StopChunk | SilenceChunk


class ToolSpec(Struct, frozen=True):
    """A tool as the model is told of it."""

    name: str
    description: str
    schema: Mapping[str, Any]


class ModelRequest(Struct, frozen=True, kw_only=True):
    """One request. `cache_key` is the same for all requests of a task. `now` is how things stand
    at this moment: it is said last, and never again, so that all before it can be cached.
    """

    system: str
    turns: Sequence[Turn]
    now: str = ""
    tools: Sequence[ToolSpec] = ()
    max_output: int | None = None
    cache_key: str = ""


class Provider(Protocol):
    model: ModelInfo

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[Chunk]]:
        """Open one request. Leaving the context closes the connection.

        Raises `ProviderError`, on entering or while iterating, and nothing else. Never retries.
        """
        ...
