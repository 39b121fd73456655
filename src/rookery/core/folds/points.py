"""The points of a task one may want to go back to, folded from its events."""

from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct

from rookery.core.facts import (
    Answered,
    Asked,
    CheckpointSaved,
    Event,
    FilesChanged,
    FilesRestored,
    Rewound,
    TaskOpened,
    ToolFinished,
    ToolStarted,
    UserSpoke,
)
from rookery.core.replies import restored_files

NOTHING_TO_UNDO = "Nothing to undo: no step is left that changed files."


class Point(Struct, frozen=True):
    """What came next at a point. Going back `to` it undoes that and everything after it; only
    the task itself stays, without which there is nothing.
    """

    to: int
    ts: int
    what: str
    by_user: bool = False
    changed_files: bool = False
    paths: tuple[str, ...] = ()
    """The files it was about, where that is known beforehand."""


def points(events: Iterable[Event]) -> list[Point]:
    """In the order in which things happened, what was rewound included: one can go back there
    too. Each is one thing the user said, or one call that may have changed files. Calls are
    told apart by their checkpoints, as the same id may come again."""
    known = list(events)
    restores = {event.seq for event in known if _restored_files(event)}
    return _points(known, _changing(known, ()) | restores)


def last_change(events: Iterable[Event]) -> int | None:
    """Where the last call that changed files can be undone, of those that nobody has taken back
    already: to go there again and again goes back step by step."""
    return next(iter(standing_changes(events)), None)


def standing_changes(events: Iterable[Event]) -> list[int]:
    """Where calls that changed files can be undone, the last one first."""
    known = list(events)
    standing = _changing(known, _taken_back(known))
    found = {point.to for point in _points(known, standing) if point.changed_files}
    return sorted(found, reverse=True)


def _restored_files(event: Event) -> bool:
    fact = event.fact
    return isinstance(fact, FilesRestored) and bool(fact.kept or fact.before != fact.after)


def _points(events: Sequence[Event], changing: Collection[int]) -> list[Point]:
    """`changing` are the checkpoints and the restores with which files changed."""
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
    """The checkpoints before calls that changed files, or where a child began that did, but for
    what was taken back; what a call did that nobody has recorded yet counts as a change."""
    saved: dict[str, list[int]] = {}
    unrecorded: set[int] = set()
    changing: set[int] = set()
    handed_on: set[int] = set()
    """Where a child began to work: it saved the files itself."""
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


def _taken_back(events: Sequence[Event]) -> list[tuple[int, int]]:
    """Between which events what was done to files was undone, and stayed so."""
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
