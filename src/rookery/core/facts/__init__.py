"""Everything that can happen in a task, as small values.

Facts are in the past tense and never change. A task's log is the sequence of its facts. Its state,
its transcript and the history the model sees are folds over the log. A `Passing` fact is shown
while it is current, is never written to disk, and is always followed by a lasting one.

This module has a fact's place in the log, and the message queue.
"""

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.facts.session import *  # noqa: F403
from rookery.core.facts.session import QueueEdited, SessionFact, UserSpoke
from rookery.core.facts.work import *  # noqa: F403
from rookery.core.facts.work import WorkFact

Fact: TypeAlias = SessionFact | WorkFact


class Event(Struct, frozen=True):
    """A fact with its place in the log.

    `seq` numbers lasting facts without gaps; `sub` numbers the passing facts since the last one.
    `ts` is in milliseconds and strictly increasing, so it identifies what the event created.
    """

    seq: int
    sub: int
    ts: int
    fact: Fact


def next_event(last: Event | None, fact: Fact, now: int) -> Event:
    """The event for a fact after `last`, even if the clock stands still or goes back."""
    seq, sub, ts = (last.seq, last.sub, max(now, last.ts + 1)) if last else (0, 0, now)
    return Event(seq + 1, 0, ts, fact) if fact.lasting else Event(seq, sub + 1, ts, fact)


class QueueChange(Struct, frozen=True):
    """The last change of the queue, linked to the changes before it."""

    fact: UserSpoke | QueueEdited
    before: "QueueChange | None"


def queue_after(said: QueueChange | None) -> Mapping[str, UserSpoke]:
    facts: list[UserSpoke | QueueEdited] = []
    while said:
        facts.append(said.fact)
        said = said.before
    return queue_with({}, *reversed(facts))


def queue_with(
    waiting: Mapping[str, UserSpoke], *facts: UserSpoke | QueueEdited
) -> Mapping[str, UserSpoke]:
    known = dict(waiting)
    for fact in facts:
        _change_queue(known, fact)
    return known


def _change_queue(known: dict[str, UserSpoke], fact: UserSpoke | QueueEdited) -> None:
    match fact:
        case UserSpoke():
            known[fact.message_id] = fact
        case QueueEdited(text=None):
            known.pop(fact.message_id, None)
        case QueueEdited(message_id=message_id, text=str(text)) if message_id in known:
            known[message_id] = replace(known[message_id], text=text)
        case _:
            pass
