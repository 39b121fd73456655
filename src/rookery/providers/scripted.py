"""A provider that says what a script says: for tests, demonstrations and bug reports.

A script is a list of scenes, one for each request in the order they come. Scripts in files
are read by `script_files`.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import TypeAlias

import anyio
import msgspec

from rookery.core.blocks import Block, Image, Text, Thinking, ToolCall, ToolResult
from rookery.core.facts import StopReason, Usage
from rookery.core.failures import FailureKind
from rookery.engine.ports.model import (
    CallChunk,
    Chunk,
    ModelInfo,
    ModelRequest,
    StopChunk,
    TextChunk,
    ThinkingChunk,
    UsageChunk,
)
from rookery.errors import ProviderError

SOURCE = "scripted"
MODEL = ModelInfo(id="scripted", provider="scripted", images=True, thinking=True)

_WORD = re.compile(r"\S+\s*|\s+")
_PIECE = re.compile(r"(?s).{1,24}")

Line: TypeAlias = str | Block | Usage | StopReason | ProviderError
Scene: TypeAlias = Sequence[Line]


class ScriptedProvider:
    """Plays one scene per request and keeps every request it was sent.

    A scene holds what an answer is made of, in order: words, blocks, a usage, and at its end a
    reason to stop or an error that breaks it off.
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


@asynccontextmanager
async def performance(
    scenes: Sequence[Scene], number: int, *, pause: float = 0.0
) -> AsyncGenerator[AsyncIterator[Chunk], None]:
    """One scene as a stream, with a pause before each piece."""
    if number >= len(scenes):
        raise ProviderError(
            f"The script holds {len(scenes)} answers and was asked for another one. Add it.",
            kind=FailureKind.REJECTED,
        )
    async with aclosing(_play(scenes[number], number, pause)) as chunks:
        yield chunks


async def _play(scene: Scene, number: int, pause: float) -> AsyncGenerator[Chunk, None]:
    for chunk in chunks_of(scene, number):
        await anyio.sleep(pause)
        yield chunk


def chunks_of(scene: Scene, number: int) -> Iterator[Chunk]:
    """A scene as the stream of a real provider would bring it, in small pieces."""
    calls = 0
    stop: StopReason | None = None
    for line in scene:
        match line:
            case StopReason():
                stop = line
            case str(text) | Text(text=text):
                yield from (TextChunk(word) for word in _WORD.findall(text))
            case Thinking(text=text, signature=signature):
                yield from (ThinkingChunk(word, source=SOURCE) for word in _WORD.findall(text))
                if signature:
                    yield ThinkingChunk("", signature, SOURCE)
            case ToolCall():
                yield from _call(line, calls, number)
                calls += 1
            case Usage():
                yield UsageChunk(line)
            case ProviderError():
                raise line
            case Image() | ToolResult():
                raise AssertionError(f"no model says {line}")
    yield StopChunk(stop or (StopReason.CALLS if calls else StopReason.END))


def _call(call: ToolCall, index: int, scene: int) -> Iterator[Chunk]:
    yield CallChunk(index, "", id=call.id or f"call_{scene + 1}_{index + 1}", name=call.name)
    arguments = msgspec.json.encode(dict(call.arguments)).decode()
    yield from (CallChunk(index, piece) for piece in _PIECE.findall(arguments))
