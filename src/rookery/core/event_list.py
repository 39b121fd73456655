"""The lasting events of a task, of which a long one has more than fit into memory.

Only the newest events are kept decoded. The others are one byte each, the kind of their fact, and
are read again from where they are stored. Most questions concern few kinds, so they read few
events. Event `seq` is at place `seq - 1`.
"""

from abc import abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import merge
from itertools import accumulate
from typing import TypeAlias, get_args, overload

from msgspec.structs import replace

from rookery.core.facts import (
    Event,
    Fact,
    PromptRefused,
    QueueEdited,
    Rewound,
    TaskOpened,
    UserSpoke,
)

KIND_CODES: dict[type, int] = {cls: code for code, cls in enumerate(get_args(Fact))}
_BLOCK = 256

ReadPlaces: TypeAlias = Callable[[Iterable[int]], Iterable[Event]]
"""Reads the stored events at these places."""


class CodedEvents(Sequence[Event]):
    """Events that are found by their kind without reading the others."""

    @property
    @abstractmethod
    def codes(self) -> bytes | bytearray:
        """The kind of each event's fact."""

    @abstractmethod
    def read(self, places: Iterable[int]) -> Iterable[Event]:
        """The events at these places, in this order."""

    @abstractmethod
    def place_after(self, seq: int) -> int:
        """The place of the first event after event `seq`."""

    def __len__(self) -> int:
        return len(self.codes)

    @overload
    def __getitem__(self, place: int) -> Event: ...
    @overload
    def __getitem__(self, place: slice) -> list[Event]: ...
    def __getitem__(self, place: int | slice) -> Event | list[Event]:
        if isinstance(place, slice):
            return list(self.read(range(*place.indices(len(self)))))
        if not -len(self) <= place < len(self):
            raise IndexError(place)
        (event,) = self.read([place % len(self)])
        return event

    def __iter__(self) -> Iterator[Event]:
        return iter(self.read(range(len(self))))

    def __reversed__(self) -> Iterator[Event]:
        for end in range(len(self), 0, -_BLOCK):
            yield from reversed(list(self.read(range(max(0, end - _BLOCK), end))))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(self) != len(other):
            return False
        return all(mine == its for mine, its in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def places(self, *kinds: type[Fact], after: int = 0) -> Iterator[int]:
        """The places of the facts of these kinds after event `after`, oldest first."""
        start = self.place_after(after)
        return merge(*(self._ascending(KIND_CODES[kind], start) for kind in kinds))

    def newest(self, *kinds: type[Fact]) -> Iterator[Event]:
        """The facts of these kinds, newest first."""
        falling = merge(*(self._descending(KIND_CODES[kind]) for kind in kinds), reverse=True)
        return (self[place] for place in falling)

    def _ascending(self, code: int, start: int) -> Iterator[int]:
        while (start := self.codes.find(code, start)) >= 0:
            yield start
            start += 1

    def _descending(self, code: int) -> Iterator[int]:
        end = len(self.codes)
        while (end := self.codes.rfind(code, 0, end)) >= 0:
            yield end


class EventList(CodedEvents):
    """The events of one log, in order. The first `stored` ones are read from where they are."""

    def __init__(
        self,
        events: Iterable[Event] = (),
        *,
        codes: bytes | bytearray = b"",
        stored: ReadPlaces | None = None,
    ) -> None:
        """`events` are the newest. `codes` are the kinds of those before, which `stored` reads."""
        self._newest = list(events)
        self._first = len(codes)
        self._stored = stored
        self._codes = bytearray(codes)
        self._codes += bytes(KIND_CODES[type(event.fact)] for event in self._newest)

    def append(self, event: Event) -> None:
        self._newest.append(event)
        self._codes.append(KIND_CODES[type(event.fact)])

    @property
    def codes(self) -> bytearray:
        return self._codes

    @property
    def in_memory(self) -> int:
        return len(self._newest)

    def copy(self) -> "EventList":
        return EventList(self._newest, codes=self.codes[: self._first], stored=self._stored)

    def let_go(self, kept: int, stored: ReadPlaces) -> None:
        """Keep only the newest events in memory; the others can be read."""
        self._first = max(self._first, len(self.codes) - kept)
        self._stored = stored
        self._newest = self._newest[len(self._newest) - (len(self.codes) - self._first) :]

    def remember(self, kept: int) -> None:
        """Read the newest events into memory."""
        first = max(0, min(self._first, len(self.codes) - kept))
        self._newest = self[first:]
        self._first = first

    def place_after(self, seq: int) -> int:
        return min(seq, len(self._codes))

    def read(self, places: Iterable[int]) -> Iterable[Event]:
        if isinstance(places, range) and places.step == 1 and places.start >= self._first:
            return self._newest[places.start - self._first : places.stop - self._first]
        if isinstance(places, range) and places.step == 1 and places.stop <= self._first:
            return self._stored(places) if self._stored else ()
        return self._mixed(places)

    def _mixed(self, places: Iterable[int]) -> Iterator[Event]:
        wanted, first, newest = list(places), self._first, self._newest
        older = [place for place in wanted if place < first]
        stored = iter(self._stored(older)) if self._stored and older else iter(())
        for place in wanted:
            yield newest[place - first] if place >= first else next(stored)


class _Branch(CodedEvents):
    """The events of a list that a rewind has left."""

    def __init__(self, events: CodedEvents, ranges: Sequence[range]) -> None:
        self._events = events
        self._ranges = ranges
        self._ends = list(accumulate(map(len, ranges)))
        self._codes = b"".join(events.codes[each.start : each.stop] for each in ranges)

    @property
    def codes(self) -> bytes:
        return self._codes

    def read(self, places: Iterable[int]) -> Iterable[Event]:
        return self._events.read(map(self._origin, places))

    def place_after(self, seq: int) -> int:
        return sum(len(range(each.start, min(each.stop, seq))) for each in self._ranges)

    def _origin(self, place: int) -> int:
        at = bisect_right(self._ends, place)
        return self._ranges[at].stop - (self._ends[at] - place)


def of_kind(events: Iterable[Event], *kinds: type[Fact], after: int = 0) -> Iterator[Event]:
    """The events with facts of these kinds, oldest first, after event `after`."""
    if isinstance(events, CodedEvents):
        return iter(events.read(events.places(*kinds, after=after)))
    return (each for each in events if each.seq > after and isinstance(each.fact, kinds))


def newest(events: Sequence[Event], *kinds: type[Fact]) -> Iterator[Event]:
    """The same, newest first."""
    if isinstance(events, CodedEvents):
        return events.newest(*kinds)
    return (each for each in reversed(events) if isinstance(each.fact, kinds))


def events_after(events: Sequence[Event], seq: int, before: int = 1 << 62) -> Sequence[Event]:
    """The events after event `seq`, and before another."""
    if isinstance(events, CodedEvents):
        return events[events.place_after(seq) : events.place_after(before - 1)]
    first = bisect_right(events, seq, key=_seq)
    return events[first : bisect_left(events, before, lo=first, key=_seq)]


def first_events(events: CodedEvents, count: int) -> CodedEvents:
    """The first events, without reading them."""
    return _Branch(events, [range(count)])


def _seq(event: Event) -> int:
    return event.seq


def live(events: Iterable[Event]) -> Sequence[Event]:
    """The events that still count: all but rewound and refused ones.

    Every event builds on the one before it. A rewind builds on the event it went back to, on
    whichever branch that is.
    """
    if not isinstance(events, CodedEvents):
        return _without_refused(_branch_of(list(events)))
    ranges: list[range] = []
    end = len(events)
    rewinds = {place: events[place].fact for place in events.places(Rewound)}
    for place, fact in reversed(rewinds.items()):
        assert isinstance(fact, Rewound)
        if place < end and fact.to <= place:
            ranges.append(range(place, end))
            end = fact.to
    if not ranges:
        return _without_refused(events)
    return _without_refused(_Branch(events, [range(end), *reversed(ranges)]))


def _branch_of(known: list[Event]) -> list[Event]:
    if not any(isinstance(event.fact, Rewound) for event in known):
        return known
    place: dict[int, int] = {}
    follows: list[int] = []
    for index, event in enumerate(known):
        before = index - 1
        if isinstance(event.fact, Rewound) and event.fact.to < event.seq:
            before = place.get(event.fact.to, -1)
        follows.append(before)
        place[event.seq] = index
    kept: list[Event] = []
    at = len(known) - 1
    while at >= 0:
        kept.append(known[at])
        at = follows[at]
    return kept[::-1]


def _without_refused(events: Sequence[Event]) -> Sequence[Event]:
    """Without messages that a hook refused. A task whose opening was refused stays open."""
    facts = (event.fact for event in of_kind(events, PromptRefused))
    refused = {fact.of for fact in facts if isinstance(fact, PromptRefused)}
    if not refused:
        return events
    edited = {_message(event.fact) for event in events if event.seq in refused} - {""}
    kept: list[Event] = []
    for event in events:
        if isinstance(event.fact, TaskOpened) and event.seq in refused:
            kept.append(replace(event, fact=replace(event.fact, text="", images=())))
        elif event.seq not in refused and _message(event.fact) not in edited:
            kept.append(event)
    return kept


def _message(fact: Fact) -> str:
    """The id of the queued message that a fact is about."""
    return fact.message_id if isinstance(fact, UserSpoke | QueueEdited) else ""
