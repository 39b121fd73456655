"""Which event of a log a row of its transcript stands for."""

from bisect import bisect_left
from collections.abc import Sequence

from rookery.core.facts import Event
from rookery.core.folds.transcript import Transcript


def event_of_row(events: Sequence[Event], ts: int) -> int | None:
    """The event with which the row of that time is complete; None if nothing had happened then.

    A row that was shown while it came has the time of its first word, which no log holds: it is
    complete with the first event after that. What is still coming is cut off at the last event.
    """
    if not events or ts < events[0].ts:
        return None
    transcript = Transcript()
    for event in events:
        transcript.add(event)
    position = transcript.messages.find(ts)
    if position is not None:
        return transcript.messages[position].seq
    place = bisect_left([event.ts for event in events], ts)
    return events[min(place, len(events) - 1)].seq
