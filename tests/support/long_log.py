"""The events of long tasks, with a count of those that are read."""

from collections.abc import Iterable, Iterator, Sequence

from rookery.core.blocks import Text
from rookery.core.event_list import EventList
from rookery.core.facts import (
    AssistantSpoke,
    Event,
    Fact,
    RequestStarted,
    TaskOpened,
    ToolFinished,
    ToolStarted,
    Usage,
)

PAID = Usage(tokens_in=100, tokens_out=10, cache_reads=7, cost=0.25)


def turn(number: int) -> list[Fact]:
    """A request, its answer, and a call."""
    name, call = f"r{number}", f"c{number}"
    return [
        RequestStarted(request_id=name, model="m", window=1_000),
        AssistantSpoke(request_id=name, blocks=(Text(text=f"Step {number}"),), usage=PAID),
        ToolStarted(call_id=call, tool="read_file", title="Read a.txt", text="{}"),
        ToolFinished(call_id=call, text="1 | x"),
    ]


def turns(first: int, last: int) -> list[Fact]:
    return [fact for number in range(first, last) for fact in turn(number)]


def numbered(facts: Sequence[Fact]) -> list[Event]:
    return [Event(seq, 0, 1_000 * seq, fact) for seq, fact in enumerate(facts, 1)]


class Store:
    """Events outside memory, with a count of reads."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = events
        self.reads = 0

    def __call__(self, places: Iterable[int]) -> Iterator[Event]:
        for place in places:
            self.reads += 1
            yield self.events[place]


def long_log(*facts: Fact, count: int = 2_500) -> tuple[EventList, Store]:
    """A task of `count` turns, ending with these facts. No event is in memory."""
    events = numbered([TaskOpened(text="Go"), *turns(0, count), *facts])
    known, store = EventList(events), Store(events)
    known.let_go(0, store)
    return known, store
