"""What a search in code finds, and how several rankings become one."""

from collections.abc import Sequence

from msgspec import Struct

_SMOOTHING = 60


class CodeHit(Struct, frozen=True):
    """Lines of a file. `score` is 1 for what every ranking puts first."""

    path: str
    start: int
    end: int
    text: str
    score: float


class CodeHits(Struct, frozen=True, kw_only=True):
    hits: tuple[CodeHit, ...] = ()
    notes: tuple[str, ...] = ()


def fused(rankings: Sequence[Sequence[int]]) -> list[tuple[int, float]]:
    """Reciprocal rank fusion: what several rankings put near the top comes first."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        for place, id in enumerate(ranking):
            share = (_SMOOTHING + 1) / (_SMOOTHING + 1 + place) / len(rankings)
            scores[id] = scores.get(id, 0.0) + share
    return sorted(scores.items(), key=lambda item: -item[1])
