"""Points in time as people type them, in the form that records are compared in."""

import re
from datetime import UTC, datetime, timedelta

_AGO = re.compile(r"(\d{1,6})\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
EXAMPLES = "7d, 12h, 2026-02-20 or 2026-02-20T13:54:31Z"


def moment(text: str, now: datetime) -> str:
    """`7d` is seven days ago; a date is its beginning; what names no zone is UTC.

    Raises ValueError for what is no point in time.
    """
    if ago := _AGO.fullmatch(text.strip()):
        try:
            return written(now - timedelta(seconds=int(ago[1]) * _SECONDS[ago[2]]))
        except OverflowError as error:
            raise ValueError(f"{text} is too long ago") from error
    found = datetime.fromisoformat(text.strip())
    return written(found if found.tzinfo else found.replace(tzinfo=UTC))


def written(when: datetime) -> str:
    """As records say it: UTC, with milliseconds."""
    there = when.astimezone(UTC)
    return f"{there:%Y-%m-%dT%H:%M:%S}.{there.microsecond // 1000:03}Z"
