"""The moments of a session that one can go back to, as a list shows them."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.facts import Event, FilesChanged
from rookery.core.folds.points import Point, points
from rookery.core.instructions import revealed
from rookery.manager.shown_rows import CheckpointRow

LONGEST_TITLE = 300


class Moment(Struct, frozen=True, kw_only=True):
    """`steps` are the checkpoints between which files changed that nobody named beforehand."""

    row: CheckpointRow
    steps: tuple[tuple[str, str], ...] = ()

    def having_changed(self, paths: Sequence[str]) -> CheckpointRow:
        return replace(self.row, paths=tuple(paths))


def moments(events: Sequence[Event]) -> list[Moment]:
    """In the order in which things happened: what the user said, calls that may have changed
    files, and what was gone back to before."""
    known, changes = points(events), _Changes(events)
    ends = [later.to for _, later in pairwise(known)]
    return [
        Moment(
            row=_row(point, _when(place, point)),
            steps=changes.between(point.to, end) if _unnamed(point) else (),
        )
        for place, (point, end) in enumerate(zip(known, [*ends, len(events)], strict=True))
    ]


def _when(place: int, point: Point) -> str:
    """Whoever goes back there undoes what the moment is named after, but for the task itself."""
    if place == 0 and point.by_user:
        return "at the start: "
    return "before you said: " if point.by_user else "before "


def _unnamed(point: Point) -> bool:
    return point.changed_files and not point.paths


def _row(point: Point, when: str) -> CheckpointRow:
    paths = tuple(map(_shown, point.paths)) if point.changed_files else ()
    return CheckpointRow(seq=point.to, ts=point.ts, title=_title(when + point.what), paths=paths)


def _title(text: str) -> str:
    line = _shown(" ".join(text.split()))
    return line if len(line) <= LONGEST_TITLE else f"{line[: LONGEST_TITLE - 1]}…"


def _shown(text: str) -> str:
    return revealed(text)[0]


class _Changes:
    """What was done to files, by where it began."""

    def __init__(self, events: Sequence[Event]) -> None:
        found = (event.fact for event in events if isinstance(event.fact, FilesChanged))
        self._found = sorted(found, key=lambda change: change.since)
        self._since = [change.since for change in self._found]

    def between(self, after: int, until: int) -> tuple[tuple[str, str], ...]:
        """The checkpoints of what began after one event and no later than another."""
        first, last = bisect_right(self._since, after), bisect_right(self._since, until)
        steps = ((change.before, change.after) for change in self._found[first:last])
        return tuple((before, now) for before, now in steps if before != now)
