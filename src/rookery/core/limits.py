"""The limits and timeouts that users can set, and the retry policy.

`RETRIES` is the whole retry policy: providers only classify failures, `next_step` looks them up
here. A kind that is not listed is never retried automatically.
"""

from enum import StrEnum
from typing import Literal, TypeAlias, get_args

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
    """The address could not be reached."""
    OVERFLOW = "overflow"
    """The request is too long for the model, or too large for the provider."""
    BROKEN_HISTORY = "broken_history"
    """The provider does not accept the conversation as it was sent."""
    EMPTY = "empty"
    """The answer had neither text nor a tool call."""
    NO_CREDIT = "no_credit"
    NO_MODEL = "no_model"
    BAD_KEY = "bad_key"
    REFUSED = "refused"
    """The provider or the model declined on grounds of content."""
    REJECTED = "rejected"
    """Any other failure that a retry would repeat."""


KEY_NOT_ACCEPTED = "rejected the key"
KEY_NOT_GIVEN = "needs a key, and none was given"
MEANS_BAD_KEY = (
    KEY_NOT_ACCEPTED,
    KEY_NOT_GIVEN,
    "did not accept the key",
    "wants a key and none was given",
)
"""Clients that have only the text of a failure recognise `BAD_KEY` by these. The last two are in
older journals."""
NO_MODEL_CHOSEN = "No model was chosen"
CHOOSE_A_MODEL = "Choose a model for"
"""Clients recognise by these beginnings that a run had no model."""


class Retry(Struct, frozen=True):
    """How often a kind of failure is retried, and how many retries come without a wait."""

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

FALLBACK_KINDS = frozenset(
    {
        FailureKind.BUSY,
        FailureKind.DROPPED,
        FailureKind.KEEPALIVE_ONLY,
        FailureKind.OFFLINE,
        FailureKind.NO_MODEL,
    }
)
"""Failures after which another model is tried."""

BASE_SECONDS = 1.0
CAP_SECONDS = 60.0
LONGEST_WAIT = 600.0


def delay_before_retry(kind: FailureKind, failed: int, retry_after: float | None) -> float | None:
    """Seconds before the next retry after `failed` failures in a row; None to ask the user.

    This is the longest wait. The caller draws a random part of it unless the server named the time.
    """
    retry = RETRIES.get(kind)
    if retry is None or failed > retry.attempts:
        return None
    if retry_after is not None and retry_after > 0:
        return retry_after if retry_after <= LONGEST_WAIT else None
    if failed <= retry.at_once:
        return 0.0
    return min(BASE_SECONDS * 2.0 ** (failed - retry.at_once - 1), CAP_SECONDS)


Effort: TypeAlias = Literal[
    "unspecified", "disabled", "none", "minimal", "low", "medium", "high", "xhigh"
]
EFFORTS: tuple[Effort, ...] = get_args(Effort)
NOT_AT_ALL = ("disabled", "none")
"""Both are in use and mean the same."""


def effort_word(effort: Effort) -> str:
    """The name most servers use; empty to leave it to the model."""
    if effort == "unspecified":
        return ""
    return "none" if effort in NOT_AT_ALL else effort


KIB = 1024
MIB = 1024 * KIB


class Limits(Struct, frozen=True, kw_only=True):
    """The user may set these; a project may only make them smaller."""

    mistakes: int = 3
    """Consecutive mistakes after which the user is asked; 0 means never."""
    requests: int = 200
    """Requests per approval after which the user is asked; 0 means never."""
    cost: float = 0.0
    """Dollars per approval after which the user is asked; 0 means never."""
    tokens: int = 0
    """Tokens, in and out, per approval after which the user is asked; 0 means never."""
    seconds: float = 0.0
    """Seconds of work per approval after which the user is asked; 0 means never."""
    repeats: int = 3
    """Identical calls in a row that are run; the next is answered with a warning."""
    calls_per_message: int = 20
    task_depth: int = 16
    """How deep sub-tasks may be nested."""
    agents_at_once: int = 4
    """Agents that work at the same time; the others wait."""
    agents: int = 50
    """Agents that one session may start."""
    continuations: int = 10
    """How often a provider may pause one answer."""
    fallbacks: int = 0
    """Number of models to fall back to."""
    fallback_after: float = 60.0
    """Seconds to retry a busy model before the next one takes over."""

    command_seconds: float = 1800.0
    """Seconds after which a command is killed."""
    command_soft_seconds: float = 120.0
    """Seconds after which a call returns while its command continues."""
    quiet_seconds: float = 10.0
    """Seconds without output after which a command may be waiting for input."""
    command_grace: float = 2.0
    """Seconds between SIGTERM and SIGKILL, and for which pipes may outlive a process."""
    command_text: int = 64 * KIB
    output_for_model: int = 16 * KIB
    output_head: int = 4 * KIB
    output_on_disk: int = 16 * MIB
    output_total: int = 1024 * MIB

    read_bytes: int = 256 * KIB
    read_lines: int = 2000
    read_line_length: int = 2000
    edit_bytes: int = 10 * MIB
    image_bytes: int = 5 * MIB
    arguments_bytes: int = 2 * MIB
    page_bytes: int = 5 * MIB
    page_characters: int = 20_000
    page_seconds: float = 30.0

    list_entries: int = 200
    search_matches: int = 300
    search_line_length: int = 500
    search_seconds: float = 20.0
    search_files: int = 500_000

    checkpoint_file_bytes: int = 20 * MIB
    checkpoint_files: int = 100_000
    checkpoint_seconds: float = 60.0
    checkpoint_bytes: int = 1024 * MIB
    """Size of a workspace's shadow repository above which the oldest checkpoints are removed."""

    connect_seconds: float = 15.0
    first_byte_seconds: float = 120.0
    first_byte_seconds_local: float = 600.0
    idle_seconds: float = 90.0
    progress_seconds: float = 300.0
    event_bytes: int = 16 * MIB
    response_bytes: int = 64 * MIB
