"""Requests to a provider over a real socket, and everything received."""

import ssl
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import pytest
from msgspec import Struct, field

from llm_server import LlmServer, Recorded
from rookery.core.blocks import Text
from rookery.core.facts import Usage
from rookery.core.folds.history import Turn
from rookery.engine.ports.model import (
    CallChunk,
    Chunk,
    ModelRequest,
    StopChunk,
    TextChunk,
    ThinkingChunk,
    UsageChunk,
)
from rookery.errors import ProviderError
from rookery.providers.registry import open_provider
from support.self_signed import self_signed

HELLO = ModelRequest(system="Be brief.", turns=[Turn("user", (Text(text="Hello"),))])


class Received(Struct):
    """What came of one request."""

    chunks: list[Chunk] = field(default_factory=list)
    error: ProviderError | None = None
    requests: list[Recorded] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(chunk.text for chunk in self.chunks if isinstance(chunk, TextChunk))

    @property
    def thinking(self) -> str:
        return "".join(chunk.text for chunk in self.chunks if isinstance(chunk, ThinkingChunk))

    @property
    def calls(self) -> list[tuple[str, str, str]]:
        """Id, name and arguments of each call, in the order they began."""
        begun: dict[int, list[str]] = {}
        for chunk in self.chunks:
            if isinstance(chunk, CallChunk):
                call = begun.setdefault(chunk.index, [chunk.id, chunk.name, ""])
                call[2] += chunk.arguments
        return [(call[0], call[1], call[2]) for call in begun.values()]

    @property
    def usage(self) -> Usage | None:
        reported = [chunk.usage for chunk in self.chunks if isinstance(chunk, UsageChunk)]
        return reported[-1] if reported else None

    @property
    def stops(self) -> list[StopChunk]:
        return [chunk for chunk in self.chunks if isinstance(chunk, StopChunk)]

    @property
    def body(self) -> dict[str, Any]:
        return self.requests[-1].body


Ask: TypeAlias = Callable[..., Awaitable[Received]]
AskEach: TypeAlias = Callable[..., Awaitable[dict[str, Received]]]


def at(server_url: str, wire: str) -> str:
    return server_url if wire in ("anthropic", "bedrock") else f"{server_url}/v1"


@pytest.fixture
def ask_each() -> AskEach:
    """The outcomes of requests sent one after the other to the same server."""

    async def ask_in_turn(
        wire: str,
        answers: Mapping[str, Any],
        request: ModelRequest = HELLO,
        *,
        model: str = "scripted-model",
        suffix: str = "",
        api_key: str = "sk-secret-0123456789",
        **options: Any,
    ) -> dict[str, Received]:
        found = {row: Received() for row in answers}
        with LlmServer(*answers.values()) as server:
            base_url = at(server.url, wire) + suffix
            provider = open_provider(
                wire, model=model, base_url=base_url, api_key=api_key, **options
            )
            for received in found.values():
                before = len(server.requests)
                try:
                    with anyio.fail_after(60):
                        async with provider.stream(request) as chunks:
                            async for chunk in chunks:
                                received.chunks.append(chunk)
                except ProviderError as error:
                    received.error = error
                received.requests = server.requests[before:]
            await provider.aclose()
        return found

    return ask_in_turn


@pytest.fixture
def ask(ask_each: AskEach) -> Ask:
    async def ask_once(wire: str, answer: Any, *request: ModelRequest, **options: Any) -> Received:
        return (await ask_each(wire, {"": answer}, *request, **options))[""]

    return ask_once


@pytest.fixture
def hello() -> ModelRequest:
    return HELLO


@pytest.fixture
def unvouched(tmp_path: Path) -> ssl.SSLContext:
    """The server side of TLS, with a self-signed certificate."""
    return self_signed(tmp_path, "127.0.0.1")[0]
