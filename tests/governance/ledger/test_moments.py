"""Points in time as people type them."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.governance.ledger.ledger_reader import format_time, parse_time

NOW = datetime(2026, 2, 20, 13, 54, 31, 250_000, tzinfo=UTC)
MOMENTS = {
    "7d": "2026-02-13T13:54:31.250Z",
    "12h": "2026-02-20T01:54:31.250Z",
    "30 m": "2026-02-20T13:24:31.250Z",
    "2w": "2026-02-06T13:54:31.250Z",
    "2026-02-20": "2026-02-20T00:00:00.000Z",
    "2026-02-20T13:54:31Z": "2026-02-20T13:54:31.000Z",
    "2026-02-20 13:54": "2026-02-20T13:54:00.000Z",
    "2026-02-20T13:54:31+02:00": "2026-02-20T11:54:31.000Z",
}


@pytest.mark.parametrize(("text", "expected"), MOMENTS.items(), ids=MOMENTS)
def test_a_moment_is_told_as_records_tell_it(text: str, expected: str):
    assert parse_time(text, NOW) == expected


@pytest.mark.parametrize("text", ["", "yesterday", "7", "d7", "2026-13-01", "999999w", "-1d"])
def test_an_invalid_time_is_refused(text: str):
    with pytest.raises(ValueError, match=r".*"):
        parse_time(text, NOW)


@given(st.datetimes(timezones=st.just(UTC)), st.timedeltas(timedelta(0), timedelta(days=9)))
def test_later_moments_compare_as_later(when: datetime, more: timedelta):
    if when.year < 9999 and when.year >= 1000:
        assert format_time(when) <= format_time(when + more)
