"""Which part of a conversation to leave out when it no longer fits."""

from collections.abc import Iterable

from rookery.core.facts import AssistantSpoke, Event, Truncated, live


def cut_point(events: Iterable[Event]) -> int:
    """The event up to which the older half of the answers still sent is left out.

    Calls are never parted from their results: the cut lies right before an answer.
    """
    counted = live(events)
    cut = max((e.fact.upto for e in counted if isinstance(e.fact, Truncated)), default=0)
    answers = [
        event.seq
        for event in counted
        if isinstance(event.fact, AssistantSpoke) and not event.fact.interrupted and event.seq > cut
    ]
    return answers[len(answers) // 2] - 1
