"""The wait a server names, in each of the ways it can."""

from datetime import UTC, datetime

import pytest

from rookery.providers.provider_errors import retry_delay
from support.each_row import each_row

NOON = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


@each_row(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "0"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "Thu, 01 Jan 2026 12:01:00 GMT"}, 60),
        ({"retry-after": "Thu, 01 Jan 2026 11:59:00 GMT"}, None),
        ({"retry-after": "Thu, 99 Jan 2026 11:59:00 GMT"}, None),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"x-ratelimit-reset-requests": "1m30s"}, 90),
        ({"x-ratelimit-reset-tokens": "20ms"}, 0.02),
        ({"x-ratelimit-reset-tokens": "6m0s", "x-ratelimit-reset-requests": "1s"}, 1),
        (
            {
                "x-ratelimit-reset-tokens": "6m0s",
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-requests": "1s",
                "x-ratelimit-remaining-requests": "12",
            },
            360,
        ),
        (
            {
                "x-ratelimit-reset-tokens": "6m0s",
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-requests": "1s",
                "x-ratelimit-remaining-requests": "0",
            },
            360,
        ),
        ({"anthropic-ratelimit-tokens-reset": "2026-01-01T12:00:30Z"}, 30),
        ({"anthropic-ratelimit-tokens-reset": "2026-01-01T11:00:30Z"}, None),
        ({"x-ratelimit-reset": "1767268810000"}, 10),
        ({"x-ratelimit-reset": "1767268810"}, 10),
        ({"x-ratelimit-reset": "never"}, None),
    ],
)
def test_a_header_is_read_as_seconds(headers: dict[str, str], seconds: float | None):
    assert retry_delay(headers, now=NOON) == (seconds and pytest.approx(seconds))


def test_a_delay_in_the_body_counts_when_no_header_says_more():
    assert retry_delay({}, ["17s"], now=NOON) == 17
    assert retry_delay({"retry-after": "3"}, ["17s"], now=NOON) == 3
    assert retry_delay({}, ["later", 5], now=NOON) is None
