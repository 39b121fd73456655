"""The order in which intents are listed."""

from collections.abc import Iterable

from rookery.governance.intents.intent import Intent, Status

ORDER = (
    Status.IN_PROGRESS,
    Status.PAUSED,
    Status.PENDING,
    Status.COMPLETED,
    Status.ABANDONED,
)


def in_order(intents: Iterable[Intent]) -> list[Intent]:
    """Those in progress first, closed ones last."""
    return sorted(intents, key=lambda each: (ORDER.index(each.status), each.id))
