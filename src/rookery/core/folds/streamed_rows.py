"""The rows of a log that is too long to keep in memory.

A `Transcript` keeps every row, so that it can rewind. Here the log is read twice: once to find out
which events a rewind left out, once to make rows. When a request starts, no earlier row can change
any more, so the rows up to there are handed out and forgotten.
"""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.facts import (
    Event,
    ModelSwitched,
    RequestStarted,
    Rewound,
    StepCancelled,
    ToolFinished,
)
from rookery.core.folds.transcript import Transcript
from rookery.core.message import Message


class RowsOfStep(Struct, frozen=True):
    """The rows of one request, and the results of its calls by id."""

    rows: tuple[Message, ...]
    results: Mapping[str, ToolFinished]


class LogOutline(Struct, frozen=True):
    """What has to be known of a log before its rows are made: the events that count, as
    ascending ranges, and the model of the last request."""

    counting: tuple[range, ...]
    model: str


def outline(events: Iterable[Event]) -> LogOutline:
    rewinds: dict[int, int] = {}
    models: list[tuple[int, str]] = []
    last = 0
    for event in events:
        last = event.seq
        match event.fact:
            case Rewound(to=to) if to < event.seq:
                rewinds[event.seq] = to
            case RequestStarted(model=model) | ModelSwitched(model=model):
                if not models or models[-1][1] != model:
                    models.append((event.seq, model))
            case _:
                pass
    counting = _counting(rewinds, last)
    used = [model for seq, model in models if any(seq in each for each in counting)]
    return LogOutline(counting, used[-1] if used else "")


def _counting(rewinds: Mapping[int, int], last: int) -> tuple[range, ...]:
    """The events that still count: a rewind goes on from the event it went back to."""
    found: list[range] = []
    for seq in sorted(rewinds, reverse=True):
        if seq <= last:
            found.append(range(seq, last + 1))
            last = rewinds[seq]
    return tuple(filter(None, (range(1, last + 1), *reversed(found))))


def streamed_rows(events: Iterable[Event], counting: Iterable[range]) -> Iterator[RowsOfStep]:
    """The rows of the events that count, one request at a time."""
    transcript, results = Transcript(), dict[str, ToolFinished]()
    for event in _only(events, counting):
        transcript.add(event)
        if isinstance(event.fact, ToolFinished):
            results[event.fact.call_id] = event.fact
        elif isinstance(event.fact, RequestStarted):
            yield RowsOfStep(tuple(transcript.messages[:-1]), results)
            transcript, results = Transcript(), {}
            transcript.add(event)
    yield RowsOfStep(tuple(transcript.messages), results)


def _only(events: Iterable[Event], counting: Iterable[range]) -> Iterator[Event]:
    ranges = iter(counting)
    current = next(ranges, range(0))
    for event in events:
        while current and event.seq >= current.stop:
            current = next(ranges, range(0))
        if event.seq not in current:
            continue
        # a rewind only stops what was under way at the event it went back to
        rewound = isinstance(event.fact, Rewound)
        yield replace(event, fact=StepCancelled()) if rewound else event
