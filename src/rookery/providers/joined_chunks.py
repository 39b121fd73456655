"""Neighbouring pieces of an answer as one.

What came over the network together is news together: nobody hears a word later for it, and
all that is done with a piece is done once instead of dozens of times.
"""

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from rookery.engine.ports.model import CallChunk, Chunk, TextChunk, ThinkingChunk
from rookery.errors import ProviderError

_Piece: TypeAlias = TextChunk | CallChunk | ThinkingChunk


def joined(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """The same answer in fewer chunks. A failure comes after what was said before it."""
    first: _Piece | None = None
    rest: list[str] = []
    try:
        for chunk in chunks:
            if first and (more := _continuation(first, chunk)) is not None:
                rest.append(more)
                continue
            if first:
                yield _whole(first, rest)
            first, rest = None, []
            if isinstance(chunk, TextChunk | CallChunk | ThinkingChunk):
                first = chunk
            else:
                yield chunk
    except ProviderError:
        if first:
            yield _whole(first, rest)
        raise
    if first:
        yield _whole(first, rest)


def _continuation(first: _Piece, chunk: Chunk) -> str | None:
    """What `chunk` adds to what `first` began, if it is more of the same."""
    if isinstance(chunk, TextChunk) and isinstance(first, TextChunk):
        return chunk.text
    if isinstance(chunk, CallChunk) and isinstance(first, CallChunk):
        begins = chunk.id or chunk.name or chunk.index != first.index
        return None if begins else chunk.arguments
    if isinstance(chunk, ThinkingChunk) and isinstance(first, ThinkingChunk):
        ends = chunk.signature or first.signature or chunk.source != first.source
        return None if ends else chunk.text
    return None


def _whole(first: _Piece, rest: list[str]) -> _Piece:
    match first:
        case _ if not rest:
            return first
        case TextChunk(text):
            return TextChunk("".join([text, *rest]))
        case CallChunk(index, arguments, id, name):
            return CallChunk(index, "".join([arguments, *rest]), id, name)
        case ThinkingChunk(text, _, source):
            return ThinkingChunk("".join([text, *rest]), "", source)
