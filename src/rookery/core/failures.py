"""The ways a request to a model can fail, and what is tried after each.

This is the whole retry policy: providers only say which kind a failure is, `next_step` only
looks it up here. A kind that is absent from `RETRIES` is never tried again unasked.
"""

from enum import StrEnum

from msgspec import Struct


class FailureKind(StrEnum):
    BUSY = "busy"
    """The provider asks to wait, is overloaded or broke: 408, 409, 425, 429, 5xx."""
    DROPPED = "dropped"
    """The connection broke or stalled before the answer was complete."""
    KEEPALIVE_ONLY = "keepalive_only"
    """Bytes came, but nothing that carried an answer."""
    MISPLACED = "misplaced"
    """What answered is no provider: a captive portal, a proxy's page, an oversized event."""
    OFFLINE = "offline"
    """Nobody could be reached under that address."""
    OVERFLOW = "overflow"
    """The request is too long for the model, or too large for the provider."""
    BROKEN_HISTORY = "broken_history"
    """The provider does not accept the conversation as it was sent."""
    EMPTY = "empty"
    """The answer held neither words nor a tool call."""
    NO_CREDIT = "no_credit"
    NO_MODEL = "no_model"
    BAD_KEY = "bad_key"
    REFUSED = "refused"
    """The provider or the model declined on grounds of content."""
    REJECTED = "rejected"
    """Any other answer that would be the same next time."""


KEY_NOT_ACCEPTED = "rejected the key"
KEY_NOT_GIVEN = "needs a key, and none was given"
"""Words by which a client that has only the sentence of a failure knows `BAD_KEY`."""


class Retry(Struct, frozen=True):
    """How often a kind is tried again, and how many of those tries come without a wait."""

    attempts: int
    at_once: int = 0


RETRIES: dict[FailureKind, Retry] = {
    FailureKind.BUSY: Retry(attempts=8),
    FailureKind.DROPPED: Retry(attempts=8, at_once=1),
    FailureKind.KEEPALIVE_ONLY: Retry(attempts=1, at_once=1),
    FailureKind.MISPLACED: Retry(attempts=1, at_once=1),
    FailureKind.OFFLINE: Retry(attempts=4),
    FailureKind.EMPTY: Retry(attempts=1),
}

BASE_SECONDS = 1.0
CAP_SECONDS = 60.0
LONGEST_WAIT = 600.0


def delay_before_retry(kind: FailureKind, failed: int, retry_after: float | None) -> float | None:
    """Seconds until the next try after `failed` failures in a row, or None: do not try, ask.

    The figure is the longest wait; whoever waits draws a random part of it, unless the
    server named the time itself.
    """
    retry = RETRIES.get(kind)
    if retry is None or failed > retry.attempts:
        return None
    if retry_after is not None and retry_after > 0:
        return retry_after if retry_after <= LONGEST_WAIT else None
    if failed <= retry.at_once:
        return 0.0
    return min(BASE_SECONDS * 2.0 ** (failed - retry.at_once - 1), CAP_SECONDS)
