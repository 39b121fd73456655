"""How long a provider says to wait before the next request."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_SPAN = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:([\d.]+)s)?(?:([\d.]+)ms)?")
_RESETS = (
    ("anthropic-ratelimit-requests-reset", "anthropic-ratelimit-requests-remaining"),
    ("anthropic-ratelimit-tokens-reset", "anthropic-ratelimit-tokens-remaining"),
    ("x-ratelimit-reset-requests", "x-ratelimit-remaining-requests"),
    ("x-ratelimit-reset-tokens", "x-ratelimit-remaining-tokens"),
    ("x-ratelimit-reset", "x-ratelimit-remaining"),
)


def retry_delay(
    headers: Mapping[str, str], delays: Sequence[object] = (), *, now: datetime | None = None
) -> float | None:
    """Seconds to wait; None if no usable time is given. Times in the past are not usable.

    `delays` are durations such as "17s" from the body.
    """
    now = now or datetime.now(UTC)
    if (milliseconds := _number(headers.get("retry-after-ms", ""))) is not None:
        return milliseconds / 1000
    if (named := _seconds(headers.get("retry-after", ""), now)) is not None:
        return named
    if spans := _known(_span(str(delay)) for delay in delays):
        return max(spans)
    exhausted = [reset for reset, left in _RESETS if headers.get(left, "").strip() == "0"]
    candidates = exhausted or [reset for reset, _ in _RESETS]
    resets = _known(_moment_or_span(headers.get(reset, ""), now) for reset in candidates)
    if not resets:
        return None
    return max(resets) if exhausted else min(resets)


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _seconds(text: str, now: datetime) -> float | None:
    if text.strip()[:1].isalpha():
        return _until(text, now)
    return _number(text)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value < float("inf") else None


def _until(text: str, now: datetime) -> float | None:
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    return _ahead(moment, now)


def _ahead(moment: datetime, now: datetime) -> float | None:
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    seconds = (aware - now).total_seconds()
    return seconds if seconds > 0 else None


def _moment_or_span(text: str, now: datetime) -> float | None:
    if (number := _number(text)) is not None:
        return _epoch_or_seconds(number, now)
    if (span := _span(text)) is not None:
        return span
    try:
        return _ahead(datetime.fromisoformat(text), now)
    except ValueError:
        return None


def _epoch_or_seconds(number: float, now: datetime) -> float | None:
    """Some servers give a timestamp, in seconds or milliseconds; others the remaining seconds."""
    if number > 1e11:
        number /= 1000
    if number > 1e9:
        number -= now.timestamp()
    return number if number > 0 else None


def _span(text: str) -> float | None:
    """Seconds of "1h2m3.5s" or "20ms"."""
    match = _SPAN.fullmatch(text.strip())
    if match is None or not any(match.groups()):
        return None
    try:
        hours, minutes, seconds, milliseconds = (float(part or 0) for part in match.groups())
    except ValueError:
        return None
    total = hours * 3600 + minutes * 60 + seconds + milliseconds / 1000
    return total if total > 0 else None
