"""The points of a task to which a user can go back, folded from its events."""

from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct

from rookery.core.facts import (
    Answered,
    Asked,
    CheckpointSaved,
    Condensed,
    Event,
    FilesChanged,
    FilesRestored,
    Rewound,
    TaskOpened,
    ToolFinished,
    ToolStarted,
    UserSpoke,
)
from rookery.core.modes import Level
from rookery.core.replies import restored_files

NOTHING_TO_UNDO = "Nothing to undo: no step is left that changed files."


class Point(Struct, frozen=True):
    """What happened after a point. Going back `to` it undoes that and everything later, except
    the opening of the task."""

    to: int
    ts: int
    what: str
    by_user: bool = False
    changed_files: bool = False
    paths: tuple[str, ...] = ()
    """The files it is about, if known in advance."""


def points(events: Iterable[Event]) -> list[Point]:
    """In order of events, including rewound ones: one can go back there too. Each is a message
    of the user, a call that may have changed files, or a rewind, a restore or a summary of the
    conversation. Calls are identified by checkpoint, because an id may repeat."""
    known = list(events)
    restores = {event.seq for event in known if _restored_files(event)}
    return _points(known, _changing(known, ()) | restores)


def last_change(events: Iterable[Event]) -> int | None:
    """The point before the last change that is not undone yet: repeating this goes back step by
    step."""
    return next(iter(standing_changes(events)), None)


def standing_changes(events: Iterable[Event]) -> list[int]:
    """Points before calls whose changes are not undone, newest first."""
    known = list(events)
    standing = _changing(known, _undone_ranges(known))
    found = {point.to for point in _points(known, standing) if point.changed_files}
    return sorted(found, reverse=True)


def _restored_files(event: Event) -> bool:
    fact = event.fact
    return isinstance(fact, FilesRestored) and bool(fact.kept or fact.before != fact.after)


def _points(events: Sequence[Event], changing: Collection[int]) -> list[Point]:
    """`changing` are the checkpoints and restores that changed files."""
    found: list[Point] = []
    asked: dict[str, int] = {}
    saved: dict[str, tuple[int, int]] = {}
    for event in events:
        before, ts = event.seq - 1, event.ts
        match event.fact:
            case TaskOpened(text=text):
                found.append(Point(event.seq, ts, text, by_user=True))
            case UserSpoke(text=text):
                found.append(Point(before, ts, text, by_user=True))
            case Answered(level=Level()):
                found.append(Point(before, ts, "(The plan was approved.)"))
            case Answered(by="user", reply="message", text=text) if text:
                found.append(Point(before, ts, text, by_user=True))
            case Asked(call_id=call_id) if call_id:
                asked.setdefault(call_id, before)
            case CheckpointSaved(call_id=call_id):
                saved[call_id] = asked.get(call_id, before), event.seq
            case ToolStarted(call_id=call_id, title=title, changes=changes) if call_id in saved:
                to, checkpoint = saved.pop(call_id)
                paths = tuple(change.path for change in changes)
                touched = checkpoint in changing
                found.append(Point(to, ts, title, changed_files=touched, paths=paths))
            case ToolStarted(call_id=call_id, title=title, child=child) if child:
                touched = event.seq in changing
                found.append(Point(asked.get(call_id, before), ts, title, changed_files=touched))
            case ToolFinished(call_id=call_id):
                asked.pop(call_id, None)
            case Condensed():
                found.append(Point(before, ts, "(The conversation was condensed.)"))
            case Rewound(to=to):
                asked.clear()
                found.append(Point(before, ts, f"(The conversation was rewound to {to}.)"))
            case FilesRestored() as restored if _restored_files(event):
                touched = event.seq in changing
                what, paths = f"({restored_files(restored)})", restored.paths
                found.append(Point(before, ts, what, changed_files=touched, paths=paths))
            case _:
                pass
    return sorted(found, key=lambda point: point.to)


def _changing(events: Sequence[Event], taken_back: Sequence[tuple[int, int]]) -> set[int]:
    """The checkpoints before calls or sub-tasks that changed files and are not undone. A call
    whose changes are not recorded yet counts."""
    saved: dict[str, list[int]] = {}
    unrecorded: set[int] = set()
    changing: set[int] = set()
    handed_on: set[int] = set()
    """Where a sub-task started: it saved the files itself."""
    for event in events:
        match event.fact:
            case CheckpointSaved(call_id=call_id):
                saved.setdefault(call_id, []).append(event.seq)
                unrecorded.add(event.seq)
            case ToolStarted(child=child) if child:
                handed_on.add(event.seq)
            case FilesChanged(since=since) as change if since in handed_on:
                if change.before != change.after and not _within(since, taken_back):
                    changing.add(since)
            case FilesChanged(call_id=call_id, since=since) as change if call_id in saved:
                earlier = [seq for seq in saved[call_id] if seq <= since]
                own = (earlier or saved[call_id])[-1]
                unrecorded.discard(own)
                if change.before != change.after and not _within(since, taken_back):
                    changing.add(own)
            case _:
                pass
    return changing | {seq for seq in unrecorded if not _within(seq, taken_back)}


def _undone_ranges(events: Sequence[Event]) -> list[tuple[int, int]]:
    """Ranges of events whose file changes were undone and stayed undone."""
    spans: list[tuple[int, int]] = []
    for event in reversed(events):
        match event.fact:
            case FilesRestored(to=to) if not _within(event.seq, spans):
                spans.append((to, event.seq))
            case _:
                pass
    return spans


def _within(seq: int, spans: Sequence[tuple[int, int]]) -> bool:
    return any(start < seq < end for start, end in spans)
