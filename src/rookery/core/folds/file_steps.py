"""What a task did to files, step by step, as its log tells."""

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.facts import (
    Answered,
    Asked,
    CheckpointSaved,
    CommandDetached,
    CommandEnded,
    Ending,
    Event,
    FilesChanged,
    FilesRestored,
    TaskReopened,
    ToolFinished,
    ToolStarted,
)


class Unsettled(Struct, frozen=True):
    """A call that was started after a checkpoint, and whose changes nobody has recorded.
    `paths` are the files it was about, if that is known."""

    call_id: str
    checkpoint: str
    since: int
    paths: tuple[str, ...] | None = None


def steps_since(events: Iterable[Event], to: int) -> list[tuple[str, str]]:
    """The checkpoints before and after everything that was done to files after event `to`,
    oldest first. Rewinding a conversation undoes no file, so every event counts."""
    steps: list[tuple[str, str]] = []
    for event in events:
        match event.fact:
            case FilesChanged(before=before, after=after, since=since) if since > to:
                steps.append((before, after))
            case FilesRestored(before=before, after=after) if event.seq > to:
                steps.append((before, after))
            case _:
                pass
    return steps


def unsettled(events: Iterable[Event]) -> Unsettled | None:
    """The last call that began to change files, if its process died before it could tell what
    it had changed."""
    saved: Unsettled | None = None
    last: Unsettled | None = None
    for event in events:
        match event.fact:
            case CheckpointSaved(id=id, call_id=call_id):
                saved, last = Unsettled(call_id, id, event.seq), None
            case ToolStarted(call_id=call_id, changes=changes) if saved:
                if saved.call_id == call_id:
                    last = replace(saved, paths=tuple(c.path for c in changes) or None)
            case FilesChanged(call_id=call_id) if last and last.call_id == call_id:
                last = None
            case _:
                pass
    return last


def commands_running_on(events: Iterable[Event]) -> dict[str, str]:
    """The commands that run on behind their calls, by those calls, oldest first."""
    running: dict[str, str] = {}
    for event in events:
        match event.fact:
            case CommandDetached(call_id=call_id, command=command):
                running[call_id] = command
            case CommandEnded(call_id=call_id):
                running.pop(call_id, None)
            case TaskReopened():
                running.clear()
            case _:
                pass
    return running


def was_started(events: Sequence[Event], call_id: str) -> bool:
    """Whether the call of that id, or the last of them, was let through and begun."""
    for event in reversed(events):
        match event.fact:
            case ToolStarted(call_id=started) if started == call_id:
                return True
            case ToolFinished(call_id=denied, ending=Ending.DENIED) if denied == call_id:
                return False
            case _:
                pass
    return False


def approved_by_user(events: Sequence[Event], call_id: str) -> bool:
    """Whether a person answered yes to the question about this call, or the last of that id."""
    agreed: set[str] = set()
    for event in reversed(events):
        match event.fact:
            case Answered(ask_id=ask_id, reply="yes", by="user"):
                agreed.add(ask_id)
            case Asked(ask_id=ask_id, call_id=asked) if asked == call_id:
                return ask_id in agreed
            case _:
                pass
    return False


def running_on(events: Iterable[Event]) -> str:
    """The call whose command was the last to run on, if it still does."""
    return next(reversed(commands_running_on(events)), "")


def named_checkpoints(events: Iterable[Event]) -> set[str]:
    """Every checkpoint that the log names, without which nothing could be taken back."""
    named: set[str] = set()
    for event in events:
        match event.fact:
            case CheckpointSaved(id=id):
                named.add(id)
            case (
                FilesChanged(before=before, after=after) | FilesRestored(before=before, after=after)
            ):
                named |= {before, after}
            case _:
                pass
    return named
