"""The points of a task one may want to go back to, folded from its events."""

from collections.abc import Iterable

from rookery.core.facts import (
    Answered,
    Asked,
    CheckpointSaved,
    Event,
    FilesChanged,
    FilesRestored,
    Rewound,
    TaskOpened,
    ToolStarted,
    UserSpoke,
)
from rookery.core.replies import restored_files
from rookery.core.values import record


@record
class Point:
    """What came next at a point. Going back `to` it undoes that and everything after it; only
    the task itself stays, without which there is nothing.
    """

    to: int
    ts: int
    what: str
    by_user: bool = False
    changed_files: bool = False


def points(events: Iterable[Event]) -> list[Point]:
    """In the order in which things happened, what was rewound included: one can go back there
    too. Each is one thing the user said, or one call that may have changed files."""
    found: list[Point] = []
    asked: dict[str, int] = {}
    saved: dict[str, int] = {}
    known = list(events)
    changed = {
        event.fact.call_id
        for event in known
        if isinstance(event.fact, FilesChanged) and event.fact.before != event.fact.after
    }
    for event in known:
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
                saved[call_id] = asked.get(call_id, before)
            case ToolStarted(call_id=call_id, title=title) if call_id in saved:
                touched = call_id in changed
                found.append(Point(saved[call_id], ts, title, changed_files=touched))
            case Rewound(to=to):
                found.append(Point(before, ts, f"(The conversation went back to {to}.)"))
            case FilesRestored() as restored:
                found.append(Point(before, ts, f"({restored_files(restored)})", changed_files=True))
            case _:
                pass
    return found
