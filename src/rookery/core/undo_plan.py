"""What must be done to take steps back, without taking back what somebody else did.

A state of the files is a map from paths to versions, folders included. A step is known by what
it did to each path. Taking steps back therefore needs no order and knows no renames: every
path goes from what the last step left there to what the first one found.
"""

import stat
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from rookery.core.facts import Effect, Version

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


def folder_with(rights: int) -> Version:
    """A folder, whatever is in it: that is said by the paths below."""
    return Version(EMPTY_TREE, stat.S_IFDIR | rights)


class Plan(Struct, frozen=True):
    """`changes` lead from what is there now to what shall be there. `kept` is left alone, as
    somebody else has changed it since, or in between. `unsaved` was changed too, but no
    checkpoint holds what was there before.
    """

    changes: tuple[Effect, ...] = ()
    kept: tuple[str, ...] = ()
    unsaved: tuple[str, ...] = ()


class _Course(Struct, frozen=True):
    """What the steps together did to a path; `broken` if they were not the only ones."""

    first: Version | None
    last: Version | None
    broken: bool = False


def plan(
    steps: Sequence[Iterable[Effect]],
    current: Callable[[str], Version | None],
    *,
    overwrite: bool = False,
) -> Plan:
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
    return Plan(tuple(changes), tuple(kept), tuple(unsaved))


def only_takes_back(done: Iterable[Effect], steps: Sequence[Iterable[Effect]]) -> bool:
    """Whether all that was done leads to what the first of the steps found."""
    courses = _courses(steps)
    return all(e.path in courses and e.after == courses[e.path].first for e in done)


def is_folder(version: Version | None) -> bool:
    return version is not None and stat.S_ISDIR(version.mode)


def is_leaf(version: Version | None) -> bool:
    """Whether it is a file or a link."""
    return version is not None and not stat.S_ISDIR(version.mode)


def is_unknown(version: Version | None) -> bool:
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
