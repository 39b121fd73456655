"""What a task did to files, step by step, and how to undo steps without undoing others' changes.

A state of the files is a map from paths to versions, folders included. A step is what changed at
each path. Undoing steps therefore needs no order and no renames: every path goes from what the last
step left there to what the first one found.
"""

import stat
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.event_list import newest, of_kind
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
    FormatterStarted,
    TaskReopened,
    ToolFinished,
    ToolStarted,
)

_OF_A_CHANGE = CheckpointSaved, ToolStarted, FormatterStarted, FilesChanged
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


class Unsettled(Struct, frozen=True):
    """A call that started after a checkpoint and whose changes are not recorded. `paths` are its
    files, if known. It was allowed to change the files in `edits`."""

    call_id: str
    checkpoint: str
    since: int
    paths: tuple[str, ...] | None = None
    edits: tuple[str, ...] = ()


class _Step(Struct, frozen=True):
    """A recorded change: its event, the event at its start, and the checkpoints around it."""

    seq: int
    since: int
    before: str
    after: str


def steps_since(events: Sequence[Event], to: int) -> list[tuple[str, str]]:
    """The checkpoints before and after every file change since event `to`, oldest first.
    Rewinding a conversation undoes no file, so every event counts."""
    steps: list[_Step] = []
    for event in of_kind(events, FilesChanged, FilesRestored, after=to):
        match event.fact:
            case FilesChanged(before=before, after=after, since=since):
                _add(steps, _Step(event.seq, since, before, after))
            case FilesRestored(before=before, after=after):
                steps.append(_Step(event.seq, event.seq, before, after))
            case _:
                pass
    return [(step.before, step.after) for step in steps if step.since > to]


def _add(steps: list[_Step], new: _Step) -> None:
    """Add a step. A background command's step can span steps of sub-tasks: then it is split into
    the parts before, between and after them."""
    began = len(steps)
    while began and steps[began - 1].seq > new.since:
        began -= 1
    beside = steps[began:] if began and steps[began - 1].seq == new.since else []
    del steps[len(steps) - len(beside) :]
    for step in beside:
        steps += [replace(new, after=step.before), step]
        new = replace(new, before=step.after)
    steps.append(new)


def recorded_since(events: Sequence[Event], since: int) -> list[tuple[str, str]]:
    """The checkpoints before and after the changes that were recorded after event `since`."""
    facts = (event.fact for event in of_kind(events, FilesChanged, after=since))
    return [(fact.before, fact.after) for fact in facts if isinstance(fact, FilesChanged)]


def unrecorded(effects: Sequence[Effect], recorded: Sequence[Sequence[Effect]]) -> Sequence[Effect]:
    """Leave out the effects that recorded changes explain."""
    left = {effect.path: effect.after for each in recorded for effect in each}
    return [e for e in effects if e.path not in left or e.after != left[e.path]]


def unsettled(events: Sequence[Event]) -> Unsettled | None:
    """The last call that started to change files, if its process died before recording the
    changes."""
    newest_save = next(newest(events, CheckpointSaved), None)
    since = newest_save.seq - 1 if newest_save else 0
    saved: Unsettled | None = None
    last: Unsettled | None = None
    for event in of_kind(events, *_OF_A_CHANGE, after=since):
        match event.fact:
            case CheckpointSaved(id=id, call_id=call_id):
                saved, last = Unsettled(call_id, id, event.seq), None
            case ToolStarted(call_id=call_id, changes=changes) if saved:
                if saved.call_id == call_id:
                    edits = tuple(c.path for c in changes)
                    last = replace(saved, paths=edits or None, edits=edits)
            case FormatterStarted(call_id=call_id) if last and last.call_id == call_id:
                last = replace(last, paths=None)
            case FilesChanged(call_id=call_id) if last and last.call_id == call_id:
                last = None
            case _:
                pass
    return last


def background_commands(events: Iterable[Event]) -> dict[str, str]:
    """The background commands by call, oldest first."""
    running: dict[str, str] = {}
    for event in of_kind(events, CommandDetached, CommandEnded, TaskReopened):
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
    """Whether the call with this id, or the last one, was permitted and started."""
    for event in newest(events, ToolStarted, ToolFinished):
        match event.fact:
            case ToolStarted(call_id=started) if started == call_id:
                return True
            case ToolFinished(call_id=denied, ending=Ending.DENIED) if denied == call_id:
                return False
            case _:
                pass
    return False


def approved_by_user(events: Sequence[Event], call_id: str) -> bool:
    """Whether a person approved the call with this id, or the last one."""
    agreed: set[str] = set()
    for event in newest(events, Asked, Answered):
        match event.fact:
            case Answered(ask_id=ask_id, reply="yes", by="user"):
                agreed.add(ask_id)
            case Asked(ask_id=ask_id, call_id=asked) if asked == call_id:
                return ask_id in agreed
            case _:
                pass
    return False


def was_formatted(events: Sequence[Event], call_id: str) -> bool:
    """Whether a formatter was started after the call with this id, or the last one, had written
    its files."""
    for event in newest(events, FormatterStarted, ToolStarted):
        match event.fact:
            case FormatterStarted(call_id=formatted) if formatted == call_id:
                return True
            case ToolStarted(call_id=started) if started == call_id:
                return False
            case _:
                pass
    return False


def background_call(events: Iterable[Event]) -> str:
    """The call of the newest background command, if it still runs."""
    return next(reversed(background_commands(events)), "")


def named_checkpoints(events: Iterable[Event]) -> set[str]:
    """Every checkpoint in the log; undo needs them."""
    named: set[str] = set()
    for event in of_kind(events, CheckpointSaved, FilesChanged, FilesRestored):
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
    """A folder, whatever its content: that is in the paths below."""
    return FileVersion(EMPTY_TREE, stat.S_IFDIR | rights)


class UndoPlan(Struct, frozen=True):
    """`changes` lead from the current files to the wanted ones. `kept` is skipped because
    someone else changed it since or in between. `unsaved` was changed too, but no checkpoint has
    its earlier content."""

    changes: tuple[Effect, ...] = ()
    kept: tuple[str, ...] = ()
    unsaved: tuple[str, ...] = ()


class _Course(Struct, frozen=True):
    """What the steps together did to a path; `broken` if others changed it in between."""

    first: FileVersion | None
    last: FileVersion | None
    broken: bool = False


def plan(
    steps: Sequence[Iterable[Effect]],
    current: Callable[[str], FileVersion | None],
    *,
    overwrite: bool = False,
) -> UndoPlan:
    """Undo the steps, oldest first. With `overwrite`, also over others' changes if a checkpoint
    can hold those."""
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


def only_undoes(done: Iterable[Effect], steps: Sequence[Iterable[Effect]]) -> bool:
    """Whether the changes lead exactly to what the first of the steps found."""
    courses = _courses(steps)
    return all(e.path in courses and e.after == courses[e.path].first for e in done)


def is_folder(version: FileVersion | None) -> bool:
    return version is not None and stat.S_ISDIR(version.mode)


def is_leaf(version: FileVersion | None) -> bool:
    """Whether it is a file or a link."""
    return version is not None and not stat.S_ISDIR(version.mode)


def is_unknown(version: FileVersion | None) -> bool:
    """Whether no checkpoint holds it, so that it could not be restored."""
    return version is not None and not version.blob


def relevant_effects(effects: Sequence[Effect]) -> tuple[Effect, ...]:
    """The effects without folders that appeared or disappeared only with their content."""
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
