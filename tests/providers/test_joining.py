from collections.abc import Iterator

import pytest

from rookery.core.facts import StopReason, Usage
from rookery.core.limits import FailureKind
from rookery.engine.ports.model import (
    CallChunk,
    Chunk,
    StopChunk,
    TextChunk,
    ThinkingChunk,
    UsageChunk,
)
from rookery.errors import ProviderError
from rookery.providers.listener import joined
from support.each_row import each_row

STOP = StopChunk(StopReason.END)


@each_row(
    ("said", "received"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([TextChunk("One "), TextChunk("two.")], [TextChunk("One two.")], id="words"),
        pytest.param(
            [ThinkingChunk("Let me ", source="a"), ThinkingChunk("see.", source="a")],
            [ThinkingChunk("Let me see.", source="a")],
            id="reasoning",
        ),
        pytest.param(
            [CallChunk(0, '{"a"', "c1", "read"), CallChunk(0, ": 1"), CallChunk(0, "}")],
            [CallChunk(0, '{"a": 1}', "c1", "read")],
            id="arguments of a call",
        ),
        pytest.param(
            [TextChunk("a"), UsageChunk(Usage()), TextChunk("b"), STOP],
            [TextChunk("a"), UsageChunk(Usage()), TextChunk("b"), STOP],
            id="text between keeps its place",
        ),
    ],
)
def test_neighbours_of_one_kind_become_one(said: list[Chunk], received: list[Chunk]):
    assert list(joined(said)) == received


@each_row(
    "said",
    [
        pytest.param([TextChunk("a"), ThinkingChunk("b")], id="words and reasoning"),
        pytest.param([ThinkingChunk("a", source="x"), ThinkingChunk("b", source="y")], id="source"),
        pytest.param([ThinkingChunk("a"), ThinkingChunk("", "sealed")], id="a signature"),
        pytest.param([ThinkingChunk("", "sealed"), ThinkingChunk("b")], id="after a signature"),
        pytest.param([CallChunk(0, "a", "c", "n"), CallChunk(1, "b")], id="interleaved calls"),
        pytest.param([CallChunk(0, "", "c1", "n"), CallChunk(0, "", "c2", "n")], id="another id"),
    ],
)
def test_different_kinds_are_not_joined(said: list[Chunk]):
    assert list(joined(said)) == said


def test_a_failure_comes_after_the_text_before_it():
    def broken() -> Iterator[Chunk]:
        yield TextChunk("One ")
        yield TextChunk("two")
        raise ProviderError("gone", kind=FailureKind.DROPPED)

    chunks = joined(broken())
    assert next(chunks) == TextChunk("One two")
    with pytest.raises(ProviderError, match="gone"):
        next(chunks)


def test_the_end_is_delivered_without_waiting_for_more():
    def endless() -> Iterator[Chunk]:
        yield STOP
        raise AssertionError("no more was requested")

    assert next(joined(endless())) == STOP
