"""Which part of a conversation to leave out when it no longer fits.

Whatever is proposed here is tried on the conversation itself before it is believed: what
counts is the weight of what would be sent. So a proposal fits, or nothing would.
"""

from bisect import bisect_left
from collections.abc import Sequence

from rookery.core.facts import AssistantSpoke, Condensed, Event, live, next_event
from rookery.core.folds.history import history
from rookery.core.folds.task_state import fold
from rookery.core.shortened_blocks import SHORTEST
from rookery.core.tokens import weight

LENGTHS = (0, 24_000, 8_000, 2_000, 600, SHORTEST)
"""How much of a single text is kept, tried in this order; 0 is all of it."""


def fitting(events: Sequence[Event], most: int) -> Condensed:
    """The mildest cut after which the conversation weighs at most `most` bytes; if there is
    none, the one that leaves least."""
    *places, everything = cut_points(events)
    for longest in LENGTHS:

        def fits(upto: int, longest: int = longest) -> bool:
            return weight_after(events, Condensed(upto=upto, longest=longest)) <= most

        if places and fits(places[-1]):
            at = bisect_left(places, True, key=fits)
            return Condensed(upto=places[at], longest=longest)
    last = Condensed(upto=everything, longest=LENGTHS[-1])
    if weight_after(events, last) <= most:
        return last
    return Condensed(upto=everything, words=everything, longest=LENGTHS[-1])


def cut_points(events: Sequence[Event]) -> list[int]:
    """The events up to which something can be left out. Calls are never parted from their
    results: each but the last lies right before an answer, or before everything. An answer whose
    calls have no result yet stays, or that result would be told to nobody."""
    counted = live(events)
    cut = max((e.fact.upto for e in counted if isinstance(e.fact, Condensed)), default=0)
    answers = [
        event.seq - 1
        for event in counted
        if isinstance(event.fact, AssistantSpoke) and not event.fact.interrupted
    ]
    everything = answers[-1] if answers and fold(events).pending else events[-1].seq
    return [cut, *(answer for answer in answers if answer > cut), max(everything, cut)]


def weight_after(events: Sequence[Event], cut: Condensed) -> int:
    """What the conversation would weigh if this happened now."""
    last = events[-1]
    return weight(history([*events, next_event(last, cut, last.ts)]))
