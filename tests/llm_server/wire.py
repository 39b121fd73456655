"""What the routes have in common: how an answer becomes a stream of events."""

import json
import re
from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

from llm_server.composed import Composed, pieces_of
from llm_server.parts import Block, Failed, Inline, Problem, SseEvent, Stop, Usage

Json: TypeAlias = dict[str, Any]
Frame: TypeAlias = SseEvent | Inline
Events: TypeAlias = Iterator[SseEvent]

MODEL = "scripted-1"
CREATED = 1_767_225_600
_JSON = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":"))


class Stream(Protocol):
    """One streamed answer on one route. It remembers what it has opened."""

    def begin(self, usages: tuple[Usage, ...]) -> Events: ...
    def open(self, index: int, block: Block) -> Events: ...
    def delta(self, index: int, block: Block, text: str) -> SseEvent: ...
    def close(self, index: int, block: Block) -> Events: ...
    def end(self, stop: Stop, usages: tuple[Usage, ...]) -> Events: ...
    def after_end(self, text: str) -> SseEvent: ...
    def problem(self, problem: Problem) -> SseEvent: ...
    def failed(self, problem: Problem) -> SseEvent: ...


class Wire(Struct, frozen=True):
    """A route: how its streams and errors look."""

    stream: Callable[[Json, int], Stream]
    error: Callable[[int, Problem], Json]
    keepalive: bytes
    request_id: str
    media_type: str = "text/event-stream; charset=utf-8"
    framed: Callable[[SseEvent], bytes] | None = None
    """How an event becomes bytes, if not as a server-sent one."""


def frames(stream: Stream, answer: Composed) -> Iterator[Frame]:
    """Everything that happens in the stream, in order. An error ends it."""
    for frame in _told(stream, answer):
        match frame:
            case Problem():
                yield stream.problem(frame)
                return
            case Failed(problem=problem):
                yield stream.failed(problem)
                return
            case _:
                yield frame


def encode(data: Any) -> str:
    return _escape_lone_surrogates(_JSON.encode(data))


def _told(stream: Stream, answer: Composed) -> Iterator[Frame]:
    yield from answer.lead
    yield from stream.begin(answer.usages)
    index = 0
    for part in answer.content:
        if isinstance(part, tuple):
            yield from _spoken(stream, list(enumerate(part, index)))
            index += len(part)
        else:
            yield part
    yield from stream.end(answer.stop, answer.usages)
    if answer.postscript is not None:
        yield stream.after_end(answer.postscript)


def _spoken(stream: Stream, group: list[tuple[int, Block]]) -> Iterator[Frame]:
    for index, block in group:
        yield from stream.open(index, block)
    for row in zip_longest(*(pieces_of(block) for _, block in group)):
        for (index, block), piece in zip(group, row, strict=True):
            if isinstance(piece, str):
                yield stream.delta(index, block, piece)
            elif piece is not None:
                yield piece
    for index, block in group:
        yield from stream.close(index, block)


def _escape_lone_surrogates(text: str) -> str:
    """JSON can carry them escaped. Those that stand for invalid bytes stay, to become bytes."""
    if text.isascii():
        return text
    return re.sub("[\ud800-\udc7f\udd00-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", text)
