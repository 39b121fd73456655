"""A provider for a server on this machine that learns what its model can do: the context window
from the server, and how it calls tools from real answers. It sends no request to the model for
this.
"""

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path

import anyio
from msgspec.structs import replace

from rookery.core.text.written_calls import read_calls
from rookery.engine.ports.model import CallChunk, Chunk, ModelInfo, ModelRequest, TextChunk
from rookery.errors import ProviderError, StorageError
from rookery.providers.listings import LOCAL_SECONDS, ListRequest, loaded_facts
from rookery.providers.model_cache import ProbedModel, address_of, remember
from rookery.providers.registry import OpenProvider

ENOUGH_PRINTED = 2
"""Answers with a printed call, and none with a native one, after which calls are text."""
MOST_TEXT = 64 * 1024
"""Characters of an answer in which a printed call is looked for."""


class ObservedServer:
    def __init__(self, inner: OpenProvider, base_url: str, key: str, file: Path) -> None:
        """`file` remembers what is learned."""
        self._inner = inner
        self._server = ListRequest(
            provider=inner.model.provider, base_url=base_url, key=key, seconds=LOCAL_SECONDS
        )
        self._file = file
        self._window_known = False
        self._asked = 0

    @property
    def model(self) -> ModelInfo:
        return self._inner.model

    @model.setter
    def model(self, model: ModelInfo) -> None:
        self._inner.model = model

    async def ask_window(self) -> None:
        """Ask for the context window, which is often smaller than that of the model, and for the
        model's size, if its name does not say it. Ollama knows the window only while the model is
        loaded, so that a second try after an answer makes sense."""
        if self._window_known or self._asked >= 2:
            return
        self._asked += 1
        facts = await loaded_facts(self._server, self.model.id)
        if not self.model.parameters:
            self.model = replace(self.model, parameters=facts.get("parameters", 0.0))
        if (window := facts.get("window")) is None:
            return
        self._window_known = True
        self.model = replace(self.model, window=window)
        await self._remember(lambda known: replace(known, window=window))

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[Chunk], None]:
        before = self.model.calls
        try:
            async with (
                self._inner.stream(request) as chunks,
                aclosing(self._watched(chunks, request)) as watched,
            ):
                yield watched
        except ProviderError:
            if self.model.calls != before:  # it takes no tools
                await self._remember(lambda known: replace(known, calls="text"))
            raise

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _watched(
        self, chunks: AsyncIterator[Chunk], request: ModelRequest
    ) -> AsyncGenerator[Chunk, None]:
        called, text = False, ""
        async for chunk in chunks:
            match chunk:
                case CallChunk():
                    called = True
                case TextChunk(piece) if request.tools and len(text) < MOST_TEXT:
                    text += piece
            yield chunk
        if called:
            await self._remember(_called)
        elif read_calls(text[:MOST_TEXT], {tool.name: tool.schema for tool in request.tools}).calls:
            await self._remember(_printed)
        await self.ask_window()

    async def _remember(self, change: Callable[[ProbedModel], ProbedModel]) -> None:
        address = address_of(self._server.base_url)

        def store() -> None:
            # what cannot be remembered is seen again
            with suppress(StorageError, OSError):
                remember(self._file, address, self.model.id, change, time.time())

        await anyio.to_thread.run_sync(store)


def _called(known: ProbedModel) -> ProbedModel:
    return replace(known, calls="native", printed=0)


def _printed(known: ProbedModel) -> ProbedModel:
    if known.calls is not None:
        return known
    printed = known.printed + 1
    return replace(known, printed=printed, calls="text" if printed >= ENOUGH_PRINTED else None)
