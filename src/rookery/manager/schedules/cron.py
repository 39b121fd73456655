"""Cron lines: five fields, in the local time of this machine.

When the clock is put forward, a time that does not exist runs an hour later, once. When it is put
back, a time that comes twice runs the first time, except that a line for every hour runs in both
hours.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime, timedelta
from itertools import chain

from msgspec import Struct

SHORTCUTS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_DAYS_AHEAD = 366 * 9
"""Between two 29ths of February there may be eight years."""
_LONGEST_LINE = 200
_HOURS = 24
"""Of a day."""


class CronField(Struct, frozen=True):
    name: str
    first: int
    last: int
    names: Mapping[str, int] = {}


_FIELDS = (
    CronField("minute", 0, 59),
    CronField("hour", 0, 23),
    CronField("day of the month", 1, 31),
    CronField("month", 1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    CronField("day of the week", 0, 7, {name: number for number, name in enumerate(_WEEKDAYS)}),
)


class CronLine(Struct, frozen=True):
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """0 is Sunday."""
    either_day: bool
    """Days of the month and of the week are both restricted, so one of them is enough."""

    def next_after(self, ts: int) -> int | None:
        """The next time in milliseconds, or None if it never comes."""
        return next(self.after(ts), None)

    def after(self, ts: int) -> Iterator[int]:
        """The times after this one, in order."""
        # where clocks are put back at midnight, a day comes twice
        first = datetime.fromtimestamp(ts / 1000).date() - timedelta(days=1)
        for ahead in range(_DAYS_AHEAD):
            day = first + timedelta(days=ahead)
            for at in sorted(self._times_of(day)) if self._has_day(day) else ():
                if at > ts:
                    yield at
                    ts = at

    def _has_day(self, day: date) -> bool:
        fits = (day.day in self.days, day.isoweekday() % 7 in self.weekdays)
        return day.month in self.months and (any(fits) if self.either_day else all(fits))

    def _times_of(self, day: date) -> Iterator[int]:
        folds = (0, 1) if len(self.hours) == _HOURS else (0,)
        for hour in self.hours:
            for minute in self.minutes:
                for fold in folds:
                    local = datetime(day.year, day.month, day.day, hour, minute, fold=fold)
                    yield int(local.timestamp()) * 1000


def parse_cron(text: str) -> CronLine:
    """Raises `ValueError` with a sentence."""
    if len(text) > _LONGEST_LINE:
        raise ValueError("The cron line is too long.")
    words = SHORTCUTS.get(text.strip().lower(), text).lower().split()
    if len(words) != len(_FIELDS):
        raise ValueError(
            "A cron line has five fields: minute, hour, day of the month, month, day of the "
            'week. "0 9 * * 1-5" is every weekday at 9:00.'
        )
    minutes, hours, days, months, weekdays = map(_values, _FIELDS, words)
    restricted = not words[2].startswith("*") and not words[4].startswith("*")
    week = frozenset(each % 7 for each in weekdays)
    return CronLine(minutes, hours, days, months, week, restricted)


def _values(field: CronField, text: str) -> frozenset[int]:
    return frozenset(chain.from_iterable(_part(field, part) for part in text.split(",")))


def _part(field: CronField, text: str) -> Iterable[int]:
    span, slash, step = text.partition("/")
    by = int(step) if slash and step.isdecimal() else 1
    first, dash, last = span.partition("-")
    if span == "*":
        low, high = field.first, field.last
    else:
        low = _number(field, first)
        high = _number(field, last) if dash else field.last if slash else low
    if (slash and not step.isdecimal()) or by < 1 or low > high:
        raise _invalid(field, text)
    return range(low, high + 1, by)


def _number(field: CronField, text: str) -> int:
    number = field.names.get(text, int(text) if text.isdecimal() and len(text) < 3 else -1)
    if not field.first <= number <= field.last:
        raise _invalid(field, text)
    return number


def _invalid(field: CronField, text: str) -> ValueError:
    return ValueError(
        f"{text[:20]!r} is no {field.name}: use {field.first} to {field.last}, lists, ranges and "
        "steps."
    )
