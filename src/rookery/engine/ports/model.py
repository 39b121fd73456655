"""Requests to a model, and the chunks of its answer."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cached_property
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

from rookery.core.facts import StopReason, Usage
from rookery.core.folds.history import Turn
from rookery.core.tokens import text_weight


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
