"""What may be done about a tool call, and who wins when opinions differ."""

from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.asks import IntentQuestion

if TYPE_CHECKING:
    from rookery.core.refusals import Refusal


class Decision(IntEnum):
    """From no opinion to the strictest. The greatest of several decisions is the one that holds."""

    NONE = 0
    ALLOW = 1
    ASK = 2
    DENY = 3


class Ruling(Struct, frozen=True):
    """`notes` are for whoever is asked, whoever's opinion leads to that. `refusals` are what the
    model reads if it comes to nothing, `question` what governance wants to know."""

    decision: Decision = Decision.NONE
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    refusals: "tuple[Refusal, ...]" = ()
    question: IntentQuestion | None = None
    told: tuple[str, ...] = ()
    """What the model reads with the result, if the call is made."""


def allow() -> Ruling:
    return Ruling(Decision.ALLOW)


def ask(reason: str) -> Ruling:
    return Ruling(Decision.ASK, (reason,))


def deny(reason: str) -> Ruling:
    return Ruling(Decision.DENY, (reason,))


def joined(rulings: Iterable[Ruling]) -> Ruling:
    """Several opinions as one: the gravest decision, the reasons of those who share it, and
    everybody's notes. Where the gravest refuse with a code, the model learns of every problem."""
    opinions = list(rulings)
    gravest = max((ruling.decision for ruling in opinions), default=Decision.NONE)
    reasons = tuple(
        reason for ruling in opinions if ruling.decision is gravest for reason in ruling.reasons
    )
    coded = any(ruling.refusals for ruling in opinions if ruling.decision is gravest)
    return Ruling(
        gravest,
        reasons,
        tuple(note for ruling in opinions for note in ruling.notes),
        tuple(each for ruling in opinions for each in ruling.refusals) if coded else (),
        next((ruling.question for ruling in opinions if ruling.question), None),
        tuple(text for ruling in opinions for text in ruling.told),
    )


def strictest(rulings: Iterable[Ruling]) -> Ruling:
    """What holds after all opinions were heard.

    Nobody having an opinion means asking: what no rule allows is not allowed.
    """
    ruling = joined(rulings)
    return ruling if ruling.decision else replace(ruling, decision=Decision.ASK)
