"""Cron lines, also when clocks are put forward and back."""

import time
from collections.abc import Iterator
from datetime import datetime
from itertools import islice

import pytest

from rookery.manager.schedules.cron import CronLine, parse_cron

SUNDAY = "2026-03-01T00:00"


@pytest.fixture
def at_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Berlin: at 2:00 on 29 March clocks are put to 3:00, and at 3:00 on 25 October to 2:00."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def times(line: CronLine, since: str) -> Iterator[str]:
    at: int | None = int(datetime.fromisoformat(since).timestamp() * 1000)
    while at is not None and (at := line.next_after(at)) is not None:
        yield f"{datetime.fromtimestamp(at / 1000).astimezone():%m-%d %H:%M %z}"


@pytest.mark.parametrize(
    ("text", "since", "expected"),
    [
        ("*/20 9 * * *", SUNDAY, ["03-01 09:00", "03-01 09:20", "03-01 09:40", "03-02 09:00"]),
        ("5 9-17/4 * * 1-5", SUNDAY, ["03-02 09:05", "03-02 13:05", "03-02 17:05", "03-03 09:05"]),
        ("0 0 1,15 * *", SUNDAY, ["03-15 00:00", "04-01 00:00"]),
        ("0 0 13 * FRI", SUNDAY, ["03-06 00:00", "03-13 00:00", "03-20 00:00"]),
        ("0 0 * jan,Feb 7", SUNDAY, ["01-03 00:00", "01-10 00:00"]),
        ("30/10 8 * * *", SUNDAY, ["03-01 08:30", "03-01 08:40", "03-01 08:50", "03-02 08:30"]),
        ("0 12 29 2 *", SUNDAY, ["02-29 12:00"]),
        ("@weekly", SUNDAY, ["03-08 00:00", "03-15 00:00"]),
    ],
)
def test_the_times_of_a_line(at_home: None, text: str, since: str, expected: list[str]):
    found = islice(times(parse_cron(text), since), len(expected))
    assert [each[:11] for each in found] == expected


@pytest.mark.parametrize(
    ("text", "since", "expected"),
    [
        ("30 2 * * *", "2026-03-28T12:00", ["03-29 03:30 +0200", "03-30 02:30 +0200"]),
        (
            "0 * * * *",
            "2026-03-29T00:30",
            ["03-29 01:00 +0100", "03-29 03:00 +0200", "03-29 04:00 +0200"],
        ),
        ("30 2 * * *", "2026-10-24T12:00", ["10-25 02:30 +0200", "10-26 02:30 +0100"]),
        (
            "30 * * * *",
            "2026-10-25T01:40",
            ["10-25 02:30 +0200", "10-25 02:30 +0100", "10-25 03:30 +0100"],
        ),
    ],
    ids=["skipped-hour", "hourly-over-skipped-hour", "repeated-hour", "hourly-over-repeated-hour"],
)
def test_clocks_that_change_neither_lose_nor_repeat_a_daily_run(
    at_home: None, text: str, since: str, expected: list[str]
):
    assert list(islice(times(parse_cron(text), since), len(expected))) == expected


def test_many_times_of_a_line_take_little_more_than_one(at_home: None):
    line, start = parse_cron("* * * * *"), int(datetime.fromisoformat(SUNDAY).timestamp() * 1000)
    began = time.process_time()
    found = [*islice(line.after(start), 1000)]
    assert time.process_time() - began < 1  # one by one they took nine
    assert found == [start + 60_000 * (number + 1) for number in range(1000)]


def test_a_date_that_never_comes_has_no_next_time():
    assert parse_cron("0 0 31 2 *").next_after(0) is None


@pytest.mark.parametrize(
    "text",
    [
        *("", "* * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8"),
        *("*/0 * * * *", "5-1 * * * *", "a * * * *", "1,,2 * * * *", "-1 * * * *"),
        *("1-2-3 * * * *", "² * * * *", "*/x * * * *", "99999999999 * * * *", "* * * * * *"),
        *("@reboot", "* * * * *\x00"),
    ],
)
def test_a_line_that_means_nothing_is_refused_with_a_sentence(text: str):
    with pytest.raises(ValueError, match=r"\.$"):
        parse_cron(text)
