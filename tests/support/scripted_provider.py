"""A provider for a task in the process of the test."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager

from rookery.engine.ports.model import Chunk, ModelInfo, ModelRequest
from rookery.providers.scripted import MODEL, Scene, performance


class ScriptedProvider:
    """Plays one scene per request and keeps every request it received.

    A scene is a list: text, blocks, a usage, and at the end a stop reason or an error.
    """

    def __init__(self, scenes: Sequence[Scene], *, model: ModelInfo = MODEL) -> None:
        self.model = model
        self.requests: list[ModelRequest] = []
        self._scenes = scenes

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[Chunk]]:
        number = len(self.requests)
        self.requests.append(request)
        return performance(self._scenes, number)

    async def aclose(self) -> None:
        pass
