"""The pattern language of `owned_scope`: which paths an intent owns, and how two scopes relate.

A granting pattern is anchored at the governance root; a subtracting one (`!`) applies at any depth.
Patterns may come from an untrusted project, so matching must never take exponential time: a pattern
is a sequence of steps, one per path name, and no state is visited twice. `overlaps` and `within`
compare patterns, not files, so they hold for files that do not exist yet.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TypeAlias

from msgspec import Struct

from rookery.core.text.characters import caseless
from rookery.governance.scope.name_patterns import (
    ANY_NAME,
    STAR,
    Name,
    PatternError,
    Position,
    alternatives,
    can_reach,
    contains,
    intersects,
    matches,
    name_pattern,
)

LONGEST = 4096
DEEP = None
"""The step for `**`: any number of names, including none."""
Step: TypeAlias = Name | None
Steps: TypeAlias = tuple[Step, ...]
_DRIVE = re.compile(r"[A-Za-z]:|[A-Za-z][A-Za-z0-9+.-]*://|file:")


class ScopePattern(Struct, frozen=True):
    """`variants` has one sequence of steps per brace alternative; a path must match one.

    `readings` narrows each: a pattern without wildcards means the file or the folder of that name.
    """

    text: str
    negated: bool
    variants: tuple[Steps, ...]
    readings: tuple[tuple[Steps, ...], ...]
    ignore_case: bool = False

    def covers(self, path: str) -> bool:
        names = split(path, ignore_case=self.ignore_case)
        return any(_matches_path(steps, names) for steps in self.variants)


class Scope(Struct, frozen=True):
    granting: tuple[ScopePattern, ...]
    subtracting: tuple[ScopePattern, ...]

    def covers(self, path: str) -> bool:
        return bool(self.granting_pattern(path)) and not self.excluding_pattern(path)

    def granting_pattern(self, path: str) -> str:
        """The first pattern that grants the path; empty if none does."""
        return next((each.text for each in self.granting if each.covers(path)), "")

    def excluding_pattern(self, path: str) -> str:
        """The first pattern that excludes the path; empty if none does."""
        return next((each.text for each in self.subtracting if each.covers(path)), "")


@lru_cache(maxsize=4096)
def scope_pattern(text: str, *, ignore_case: bool = False, floating: bool = False) -> ScopePattern:
    """Parse a pattern. Raises `PatternError`. `floating` parses it like a subtracting one:
    without a `/` it applies at any depth, and always to everything below what it names."""
    negated = text.startswith("!")
    body = unicodedata.normalize("NFC", text[1:] if negated else text)
    _check(body)
    broad = negated or floating
    variants: list[Steps] = []
    readings: list[tuple[Steps, ...]] = []
    for spelling in alternatives(body):
        steps = _steps(spelling, ignore_case=ignore_case, broad=broad)
        variants.append(steps)
        readings.append(_readings(steps))
    return ScopePattern(text, negated, tuple(variants), tuple(readings), ignore_case)


def scope(texts: Iterable[str], *, ignore_case: bool = False) -> Scope:
    """Parse the patterns of a scope. Raises `PatternError` for the first invalid one."""
    patterns = [scope_pattern(text, ignore_case=ignore_case) for text in texts]
    return Scope(
        tuple(each for each in patterns if not each.negated),
        tuple(each for each in patterns if each.negated),
    )


def split(path: str, *, ignore_case: bool = False) -> tuple[str, ...]:
    """The names of a canonical path, normalized for matching."""
    spelled = caseless(path) if ignore_case else unicodedata.normalize("NFC", path)
    return tuple(spelled.split("/"))


def literal_folder(steps: Steps) -> tuple[str, ...]:
    """The literal names before the first step with a wildcard."""
    names: list[str] = []
    for step in steps:
        if step is DEEP or (literal := step.literal) is None:
            break
        names.append(literal)
    return tuple(names)


def overlaps(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether a path may be in both scopes; True if unclear."""
    a, b = scope(one), scope(other)
    excluded = [steps for each in (*a.subtracting, *b.subtracting) for steps in each.variants]
    left, right = _granted_variants(a, excluded), _granted_variants(b, excluded)
    return any(_intersects(mine, its) for mine in left for its in right)


def within(child: Sequence[str], parent: Sequence[str]) -> bool:
    """Whether everything the child owns certainly belongs to the parent."""
    return _is_within(child, parent, either_reading=False)


def may_be_within(child: Sequence[str], parent: Sequence[str]) -> bool:
    """Like `within`, but `src/a` may be read as a file or as a folder, not as both at once."""
    return _is_within(child, parent, either_reading=True)


def covers_workspace(text: str) -> bool:
    """Whether the pattern grants everything."""
    everything = scope_pattern("**").variants[0]
    pattern = scope_pattern(text)
    return not pattern.negated and any(_contains(steps, everything) for steps in pattern.variants)


def _check(body: str) -> None:
    if not body.strip():
        raise PatternError("a pattern may not be empty", "remove it, or name a file or folder")
    if len(body) > LONGEST:
        raise PatternError(f"a pattern may have {LONGEST} characters", "shorten it")
    if "\0" in body:
        raise PatternError("a pattern may not contain NUL", "remove the character")
    if body.startswith("~"):
        raise PatternError("~ is not expanded here", "use a path relative to the workspace root")
    if _DRIVE.match(body) or body.startswith(("//", "\\\\")):
        raise PatternError(
            "a pattern may not be absolute", "use a path relative to the workspace root"
        )


def _steps(spelling: str, *, ignore_case: bool, broad: bool) -> Steps:
    names = [name for name in spelling.split("/") if name not in ("", ".")]
    if not names:
        raise PatternError(
            "a pattern may not be empty", 'name a file or folder, or use "**" for everything'
        )
    steps = _collapse([_step(name, spelling, ignore_case=ignore_case) for name in names])
    if steps == [DEEP]:
        return (DEEP, ANY_NAME)
    floats = broad and "/" not in spelling.rstrip("/")
    start = [DEEP] if floats and steps[0] is not DEEP else []
    literal = all(step is not DEEP and step.literal is not None for step in steps)
    if steps[-1] is DEEP or spelling.endswith("/"):
        below: list[Step] = [ANY_NAME] if steps[-1] is DEEP else [DEEP, ANY_NAME]
        return (*start, *steps, *below)
    return (*start, *steps, *([DEEP] if literal or broad else []))


def _step(name: str, spelling: str, *, ignore_case: bool) -> Step:
    if name == "**":
        return DEEP
    try:
        step = name_pattern(name, ignore_case=ignore_case)
    except ValueError as error:
        raise PatternError(str(error), "close it, or put a backslash in front of it") from error
    if "**" in name and any(a is STAR and b is STAR for a, b in pairwise(step.tokens)):
        raise PatternError("** must stand alone between slashes", 'write e.g. "**/*.py"')
    if step.literal == "..":
        rest = "/".join(each for each in spelling.split("/") if each not in ("", ".", "..")) or "**"
        raise PatternError(
            "a pattern may not climb above the workspace",
            f'use a path relative to the workspace root, e.g. "{rest}"',
        )
    return step


def _collapse(steps: Iterable[Step]) -> list[Step]:
    kept: list[Step] = []
    for step in steps:
        if not (step is DEEP and kept and kept[-1] is DEEP):
            kept.append(step)
    return kept


def _readings(steps: Steps) -> tuple[Steps, ...]:
    """The steps as they are, and the file alone and the folder alone if they mean both."""
    if len(steps) > 1 and steps[-1] is DEEP:
        return (steps, steps[:-1], (*steps, ANY_NAME))
    return (steps,)


def _matches_path(steps: Steps, names: Sequence[str]) -> bool:
    """Whether the steps match all names. Only the last `**` is backtracked to: an earlier one
    cannot match more than the last one can."""
    at = done = 0
    deep: tuple[int, int] | None = None
    while done < len(names):
        if at < len(steps) and steps[at] is DEEP:
            deep = at, done
            at += 1
        elif at < len(steps) and (step := steps[at]) is not DEEP and matches(step, names[done]):
            at, done = at + 1, done + 1
        elif deep:
            deep = deep[0], deep[1] + 1
            at, done = deep[0] + 1, deep[1]
        else:
            return False
    return all(step is DEEP for step in steps[at:])


def _granted_variants(owner: Scope, excluded: Sequence[Steps]) -> list[Steps]:
    """The granting variants that no subtracting pattern excludes completely."""
    variants = [steps for pattern in owner.granting for steps in pattern.variants]
    return [each for each in variants if not any(_contains(one, each) for one in excluded)]


def _is_within(child: Sequence[str], parent: Sequence[str], *, either_reading: bool) -> bool:
    mine, its = scope(child), scope(parent)
    theirs = [steps for pattern in its.granting for steps in pattern.variants]
    spared = [steps for pattern in mine.subtracting for steps in pattern.variants]
    forbidden = [
        steps
        for pattern in its.subtracting
        for steps in pattern.variants
        if not any(_contains(own, steps) for own in spared)
    ]
    return all(
        any(
            any(_contains(steps, reading) for steps in theirs)
            and not any(_intersects(reading, steps) for steps in forbidden)
            for reading in (readings if either_reading else readings[:1])
        )
        for pattern in mine.granting
        for readings in pattern.readings
    )


def _intersects(one: Steps, other: Steps) -> bool:
    """Whether a path may match both."""

    def next_positions(i: int, j: int) -> Iterator[Position]:
        mine = one[i] if i < len(one) else ()
        its = other[j] if j < len(other) else ()
        if mine is DEEP:
            yield i + 1, j
            if its != () and its is not DEEP:
                yield i, j + 1
        if its is DEEP:
            yield i, j + 1
            if mine != () and mine is not DEEP:
                yield i + 1, j
        if isinstance(mine, Name) and isinstance(its, Name) and intersects(mine, its):
            yield i + 1, j + 1

    return can_reach((len(one), len(other)), next_positions)


def _contains(wide: Steps, narrow: Steps) -> bool:
    """Whether every path that matches `narrow` certainly matches `wide`."""
    if _covers_steps(wide, narrow):
        return True
    # `**/*` and `*/**` match the same paths, but comparing steps may only succeed for one of them
    return wide[-2:] == (DEEP, ANY_NAME) and _covers_steps((*wide[:-2], ANY_NAME, DEEP), narrow)


def _covers_steps(wide: Steps, narrow: Steps) -> bool:
    """Whether `wide` can match each step of `narrow`."""

    def next_positions(i: int, j: int) -> Iterator[Position]:
        if i == len(wide):
            return
        mine = wide[i]
        if mine is DEEP:
            yield i + 1, j
            if j < len(narrow):
                yield i, j + 1
        elif j < len(narrow) and (its := narrow[j]) is not DEEP and contains(mine, its):
            yield i + 1, j + 1

    return can_reach((len(wide), len(narrow)), next_positions)
