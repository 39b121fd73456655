"""What a task did to files, step by step, and how to undo steps without undoing what others did.

A state of the files is a map from paths to versions, folders included. A step is known by what
it did to each path. Undoing steps therefore needs no order and knows no renames: every path goes
from what the last step left there to what the first one found.
"""

import stat
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.facts import (
    Answered,
    Asked,
    CheckpointSaved,
    CommandDetached,
    CommandEnded,
    Effect,
    Ending,
    Event,
    FilesChanged,
    FilesRestored,
    FileVersion,
    TaskReopened,
    ToolFinished,
    ToolStarted,
)

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


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


def folder_with(rights: int) -> FileVersion:
    """A folder, whatever is in it: that is said by the paths below."""
    return FileVersion(EMPTY_TREE, stat.S_IFDIR | rights)


class UndoPlan(Struct, frozen=True):
    """`changes` lead from what is there now to what shall be there. `kept` is left alone, as
    somebody else has changed it since, or in between. `unsaved` was changed too, but no
    checkpoint holds what was there before.
    """

    changes: tuple[Effect, ...] = ()
    kept: tuple[str, ...] = ()
    unsaved: tuple[str, ...] = ()


class _Course(Struct, frozen=True):
    """What the steps together did to a path; `broken` if they were not the only ones."""

    first: FileVersion | None
    last: FileVersion | None
    broken: bool = False


def plan(
    steps: Sequence[Iterable[Effect]],
    current: Callable[[str], FileVersion | None],
    *,
    overwrite: bool = False,
) -> UndoPlan:
    """Take back the steps, oldest first. With `overwrite` also over what others have done, if
    a checkpoint could hold that.
    """
    changes: list[Effect] = []
    kept: list[str] = []
    unsaved: list[str] = []
    for path, course in sorted(_courses(steps).items()):
        now = current(path)
        if is_unknown(course.first):
            unsaved.append(path)
        elif now == course.first:
            continue
        elif (course.broken or now != course.last) and (is_unknown(now) or not overwrite):
            kept.append(path)
        else:
            changes.append(Effect(path, now, course.first))
    return UndoPlan(tuple(changes), tuple(kept), tuple(unsaved))


def only_takes_back(done: Iterable[Effect], steps: Sequence[Iterable[Effect]]) -> bool:
    """Whether all that was done leads to what the first of the steps found."""
    courses = _courses(steps)
    return all(e.path in courses and e.after == courses[e.path].first for e in done)


def is_folder(version: FileVersion | None) -> bool:
    return version is not None and stat.S_ISDIR(version.mode)


def is_leaf(version: FileVersion | None) -> bool:
    """Whether it is a file or a link."""
    return version is not None and not stat.S_ISDIR(version.mode)


def is_unknown(version: FileVersion | None) -> bool:
    """Something is there that no checkpoint holds, so that none could bring it back."""
    return version is not None and not version.blob


def worth_telling(effects: Sequence[Effect]) -> tuple[Effect, ...]:
    """The effects without folders that came or went only with what is in them."""
    telling = {effect.path for effect in effects}
    above = {path[:at] for path in telling for at, character in enumerate(path) if character == "/"}
    return tuple(effect for effect in effects if _has_content(effect) or effect.path not in above)


def _has_content(effect: Effect) -> bool:
    return is_leaf(effect.before) or is_leaf(effect.after)


def _courses(steps: Sequence[Iterable[Effect]]) -> dict[str, _Course]:
    courses: dict[str, _Course] = {}
    for step in steps:
        for effect in step:
            before = courses.get(effect.path)
            if before is None:
                courses[effect.path] = _Course(effect.before, effect.after)
            else:
                broken = before.broken or before.last != effect.before
                courses[effect.path] = _Course(before.first, effect.after, broken)
    return courses
