"""The pattern language of `owned_scope`: which paths an intent owns, and how two scopes relate.

What grants is anchored at the governance root and narrow; what subtracts (`!`) floats and is
broad. A stranger may have written the patterns, so none may stall the process: a pattern is a row
of steps, one for each name of a path, and no way through it is tried twice. `overlaps` and `within`
decide on the patterns alone, so they also hold for files that do not exist yet.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
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
    alternatives,
    contains,
    fits,
    meet,
    name_pattern,
)

LONGEST = 4096
DEEP = None
"""The step that stands for any number of names, also for none."""
Step: TypeAlias = Name | None
Way: TypeAlias = tuple[Step, ...]
_DRIVE = re.compile(r"[A-Za-z]:|[A-Za-z][A-Za-z0-9+.-]*://|file:")


class ScopePattern(Struct, frozen=True):
    """`ways` are what the alternatives of its braces come to; a path fits if it fits one.

    `readings` are the same for somebody who takes a pattern without wildcards for either the file
    or the folder of that name, rather than for both."""

    text: str
    negated: bool
    ways: tuple[Way, ...]
    readings: tuple[tuple[Way, ...], ...]
    ignore_case: bool = False

    def covers(self, path: str) -> bool:
        names = split(path, ignore_case=self.ignore_case)
        return any(_leads(way, names) for way in self.ways)


class Scope(Struct, frozen=True):
    granting: tuple[ScopePattern, ...]
    subtracting: tuple[ScopePattern, ...]

    def covers(self, path: str) -> bool:
        return bool(self.owner(path)) and not self.excluder(path)

    def owner(self, path: str) -> str:
        """The first pattern that grants the path; empty if none does."""
        return next((each.text for each in self.granting if each.covers(path)), "")

    def excluder(self, path: str) -> str:
        """The first pattern that takes the path out again; empty if none does."""
        return next((each.text for each in self.subtracting if each.covers(path)), "")


@lru_cache(maxsize=4096)
def scope_pattern(text: str, *, ignore_case: bool = False, floating: bool = False) -> ScopePattern:
    """Raises `PatternError`. `floating` reads it the way a subtracting one is read: without a `/`
    it applies at any depth, and always to everything below what it names."""
    negated = text.startswith("!")
    said = unicodedata.normalize("NFC", text[1:] if negated else text)
    _check(said)
    broad = negated or floating
    ways: list[Way] = []
    readings: list[tuple[Way, ...]] = []
    for spelling in alternatives(said):
        steps = _steps(spelling, ignore_case=ignore_case, broad=broad)
        ways.append(steps)
        readings.append(_readings(steps))
    return ScopePattern(text, negated, tuple(ways), tuple(readings), ignore_case)


def scope(texts: Iterable[str], *, ignore_case: bool = False) -> Scope:
    """Raises `PatternError` at the first faulty pattern."""
    patterns = [scope_pattern(text, ignore_case=ignore_case) for text in texts]
    return Scope(
        tuple(each for each in patterns if not each.negated),
        tuple(each for each in patterns if each.negated),
    )


def split(path: str, *, ignore_case: bool = False) -> tuple[str, ...]:
    """The names of a canonical path as patterns compare them."""
    spelled = caseless(path) if ignore_case else unicodedata.normalize("NFC", path)
    return tuple(spelled.split("/"))


def literal_folder(way: Way) -> tuple[str, ...]:
    """The names a way begins with before anything in it can vary."""
    names: list[str] = []
    for step in way:
        if step is DEEP or (literal := step.literal) is None:
            break
        names.append(literal)
    return tuple(names)


def overlaps(one: Sequence[str], other: Sequence[str], *, ignore_case: bool = False) -> bool:
    """Whether some path may be in both. Never no where there is one; yes where it is unclear."""
    a, b = scope(one, ignore_case=ignore_case), scope(other, ignore_case=ignore_case)
    taken = [way for each in (*a.subtracting, *b.subtracting) for way in each.ways]
    left, right = _granted(a, taken), _granted(b, taken)
    return any(_meet(mine, its) for mine in left for its in right)


def within(child: Sequence[str], parent: Sequence[str]) -> bool:
    """Whether everything the child owns is the parent's for certain."""
    return _inside(child, parent, either_reading=False)


def inside(child: Sequence[str], parent: Sequence[str]) -> bool:
    """The same for a reader who knows that `src/a` is either a file or a folder, not both."""
    return _inside(child, parent, either_reading=True)


def whole_workspace(text: str) -> bool:
    """Whether the pattern grants everything."""
    everything = scope_pattern("**").ways[0]
    pattern = scope_pattern(text)
    return not pattern.negated and any(_holds(way, everything) for way in pattern.ways)


def _check(said: str) -> None:
    if not said.strip():
        raise PatternError("a pattern may not be empty", "remove it, or name a file or folder")
    if len(said) > LONGEST:
        raise PatternError(f"a pattern may have {LONGEST} characters", "shorten it")
    if "\0" in said:
        raise PatternError("a pattern may not contain NUL", "remove the character")
    if said.startswith("~"):
        raise PatternError("~ is not expanded here", "use a path relative to the workspace root")
    if _DRIVE.match(said) or said.startswith(("//", "\\\\")):
        raise PatternError(
            "a pattern may not be absolute", "use a path relative to the workspace root"
        )


def _steps(spelling: str, *, ignore_case: bool, broad: bool) -> Way:
    names = [name for name in spelling.split("/") if name not in ("", ".")]
    if not names:
        raise PatternError(
            "a pattern may not be empty", 'name a file or folder, or use "**" for everything'
        )
    steps = _collapsed([_step(name, spelling, ignore_case=ignore_case) for name in names])
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


def _collapsed(steps: Iterable[Step]) -> list[Step]:
    kept: list[Step] = []
    for step in steps:
        if not (step is DEEP and kept and kept[-1] is DEEP):
            kept.append(step)
    return kept


def _readings(steps: Way) -> tuple[Way, ...]:
    """As it is; or the file alone, or what is below the folder alone, where it means both."""
    if len(steps) > 1 and steps[-1] is DEEP:
        return (steps, steps[:-1], (*steps, ANY_NAME))
    return (steps,)


def _leads(way: Way, names: Sequence[str]) -> bool:
    """Whether the steps lead through all of the names. Where they fail, only the latest stretch
    of free names need grow: whatever an earlier one could gain, the latest can gain too."""
    at = done = 0
    free: tuple[int, int] | None = None
    while done < len(names):
        if at < len(way) and way[at] is DEEP:
            free = at, done
            at += 1
        elif at < len(way) and (step := way[at]) is not DEEP and fits(step, names[done]):
            at, done = at + 1, done + 1
        elif free:
            free = free[0], free[1] + 1
            at, done = free[0] + 1, free[1]
        else:
            return False
    return all(step is DEEP for step in way[at:])


def _granted(owner: Scope, taken: Sequence[Way]) -> list[Way]:
    """The ways of a scope that are not wholly taken out again by somebody."""
    ways = [way for pattern in owner.granting for way in pattern.ways]
    return [way for way in ways if not any(_holds(gone, way) for gone in taken)]


def _inside(child: Sequence[str], parent: Sequence[str], *, either_reading: bool) -> bool:
    mine, its = scope(child), scope(parent)
    theirs = [way for pattern in its.granting for way in pattern.ways]
    spared = [way for pattern in mine.subtracting for way in pattern.ways]
    forbidden = [
        way
        for pattern in its.subtracting
        for way in pattern.ways
        if not any(_holds(own, way) for own in spared)
    ]
    return all(
        any(
            any(_holds(way, reading) for way in theirs)
            and not any(_meet(reading, way) for way in forbidden)
            for reading in (readings if either_reading else readings[:1])
        )
        for pattern in mine.granting
        for readings in pattern.readings
    )


def _meet(one: Way, other: Way) -> bool:
    """Whether some path fits both."""
    reached = {(0, 0)}
    open_pairs = [(0, 0)]
    while open_pairs:
        i, j = open_pairs.pop()
        if i == len(one) and j == len(other):
            return True
        for pair in _next_pairs(one, other, i, j):
            if pair not in reached:
                reached.add(pair)
                open_pairs.append(pair)
    return False


def _next_pairs(one: Way, other: Way, i: int, j: int) -> Iterable[tuple[int, int]]:
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
    if isinstance(mine, Name) and isinstance(its, Name) and meet(mine, its):
        yield i + 1, j + 1


def _holds(wide: Way, narrow: Way) -> bool:
    """Whether every path that fits the narrow one fits the wide one, for certain."""
    if _leads_along(wide, narrow):
        return True
    # the same paths, said the other way round: some things can be seen in only one of the two
    return wide[-2:] == (DEEP, ANY_NAME) and _leads_along((*wide[:-2], ANY_NAME, DEEP), narrow)


def _leads_along(wide: Way, narrow: Way) -> bool:
    """Whether the wide one can take every step the narrow one takes."""
    reached = {(0, 0)}
    open_pairs = [(0, 0)]
    while open_pairs:
        i, j = open_pairs.pop()
        if i == len(wide) and j == len(narrow):
            return True
        found: list[tuple[int, int]] = []
        if i < len(wide) and wide[i] is DEEP:
            found.append((i + 1, j))
            if j < len(narrow):
                found.append((i, j + 1))
        elif i < len(wide) and j < len(narrow):
            mine, its = wide[i], narrow[j]
            if mine is not DEEP and its is not DEEP and contains(mine, its):
                found.append((i + 1, j + 1))
        for pair in found:
            if pair not in reached:
                reached.add(pair)
                open_pairs.append(pair)
    return False
