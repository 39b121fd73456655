"""Search by vectors and words. The embedder of these tests knows the meaning of a few words."""

import math
import random
import threading
from collections.abc import Sequence

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.code_index.code_index import CodeIndex
from rookery.code_index.store import (
    WORTHWHILE,
    cosine,
    nearest_signatures,
    packed,
    signature,
    unpacked,
)
from rookery.core.indexed_code import fused
from rookery.core.limits import FailureKind
from rookery.errors import ProviderError

from .conftest import Shelf, ask, ask_until, paths

pytestmark = pytest.mark.anyio

MEANINGS = ({"car", "automobile", "vehicle"}, {"fruit", "banana", "apple"}, {"night", "dark"})


class SmallEmbedder:
    """One number for each meaning. It fails as long as it is `broken`."""

    def __init__(self, name: str = "small") -> None:
        self.name = name
        self.broken = False
        self.embedded: list[str] = []

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        if self.broken:
            raise ProviderError("The server is gone.", kind=FailureKind.OFFLINE)
        self.embedded += texts
        return [
            [0.01 + sum(word in text.lower() for word in words) for words in MEANINGS]
            for text in texts
        ]


@pytest.fixture
def stocked(shelf: Shelf) -> Shelf:
    shelf.put("wheels.py", "def drive(automobile):\n    return automobile\n")
    shelf.put("food.py", "def peel(banana):\n    return banana\n")
    return shelf


async def settled(shelf: Shelf, embedder: SmallEmbedder) -> None:
    """Have everything made vectors of."""
    index = shelf.open(embedder=embedder)
    await ask(index, "anything")
    index.close()


async def test_vectors_find_files_that_words_do_not(stocked: Shelf):
    assert (await ask(stocked.open(), "vehicle")).hits == ()
    embedder = SmallEmbedder()
    await settled(stocked, embedder)
    found = await ask(stocked.open(embedder=embedder), "vehicle")
    assert paths(found)[0] == "wheels.py"
    assert found.notes == ()


async def test_one_file_does_not_crowd_out_the_others(shelf: Shelf):
    part = "def drive_{0}(automobile):\n    return automobile, 'and more words on it', {0}\n\n\n"
    shelf.put("gen.py", "".join(part.format(n) * 8 for n in range(3 * WORTHWHILE)))
    shelf.put("real.py", "def fly(car, banana):\n    return car\n")
    embedder = SmallEmbedder()
    await settled(shelf, embedder)
    assert len(embedder.embedded) > 2 * WORTHWHILE
    found = await ask(shelf.open(embedder=embedder), "vehicle")
    assert sorted(hit.path for hit in found.hits) == ["gen.py"] * 3 + ["real.py"]


async def test_vectors_are_made_once(stocked: Shelf):
    embedder = SmallEmbedder()
    await settled(stocked, embedder)
    assert len(embedder.embedded) == 3
    await settled(stocked, embedder)
    assert embedder.embedded[3:] == ["anything"]
    stocked.put("food.py", "def peel(apple):\n    return apple\n")
    await settled(stocked, embedder)
    assert sorted(embedder.embedded[4:])[-1] == "food.py\ndef peel(apple):\n    return apple\n"
    assert len(embedder.embedded) == 6


async def test_making_vectors_gives_way_to_the_next_search(stocked: Shelf):
    class Slow(SmallEmbedder):
        def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
            if texts[0] not in ("banana", "zebra"):
                held.set()
                assert go_on.wait(60)
            return super().embed(texts)

    held, go_on = threading.Event(), threading.Event()
    index = stocked.open(embedder=Slow(), patience=0.3)
    found = await ask_until(index, "banana", "not all embeddings are ready.)")
    assert paths(found) == ["food.py"]
    assert found.notes == ("(Some code was searched by words only: not all embeddings are ready.)",)
    assert held.is_set()
    stocked.put("new.py", "zebra = 1\n")
    index._patience = 30
    async with anyio.create_task_group() as group:
        group.start_soon(_set_when_wanted, index, index._wanted + 1, go_on)
        assert paths(await ask(index, "zebra"))[0] == "new.py"


async def _set_when_wanted(index: CodeIndex, number: int, go_on: threading.Event) -> None:
    while index._wanted < number:
        await anyio.lowlevel.checkpoint()
    go_on.set()


async def test_another_model_makes_its_own_vectors(stocked: Shelf):
    await settled(stocked, SmallEmbedder("one"))
    other = SmallEmbedder("two")
    await settled(stocked, other)
    assert len(other.embedded) == 3


async def test_a_server_that_fails_leaves_the_search_by_words(stocked: Shelf):
    embedder = SmallEmbedder()
    embedder.broken = True
    index = stocked.open(embedder=embedder)
    found = await ask(index, "banana")
    assert paths(found) == ["food.py"]
    assert found.notes == ("(Searched by words only, at least in part: The server is gone.)",)
    index.close()
    embedder.broken = False
    await settled(stocked, embedder)
    assert paths(await ask(stocked.open(embedder=embedder), "fruit"))[0] == "food.py"


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=50))
def test_a_packed_vector_has_length_one_and_the_same_direction(vector: list[float]):
    kept = unpacked(packed(vector))
    length = math.sqrt(sum(number * number for number in vector))
    if length > 1e-3:
        assert cosine(kept, kept) == pytest.approx(1, abs=0.02)
        assert cosine(kept, [number / length for number in vector]) == pytest.approx(1, abs=0.02)


def test_signatures_find_the_neighbours_of_a_vector():
    chance = random.Random(3)
    wanted = [chance.gauss(0, 1) for _ in range(256)]
    others = [[chance.gauss(0, 1) for _ in range(256)] for _ in range(3 * WORTHWHILE)]
    near = [[number + chance.gauss(0, 0.7) for number in wanted] for _ in range(20)]
    known = [(id, signature(vector)) for id, vector in enumerate(others + near)]
    assert set(range(len(others), len(known))) <= set(nearest_signatures(signature(wanted), known))


def test_what_two_rankings_agree_on_comes_first():
    assert [id for id, _ in fused([[1, 2, 3], [4, 2, 5]])] == [2, 1, 4, 3, 5]
    assert fused([[7, 8]])[0] == (7, 1.0)
    assert fused([]) == []
