"""How two lists of scope patterns lie to each other: whether they share a path, and whether one
lies inside the other. Decided on the patterns alone, so for files that are not there yet too."""

from collections.abc import Iterable, Sequence

from rookery.governance.scope.name_patterns import ANY_NAME, Name, contains, meet
from rookery.governance.scope.scope_patterns import DEEP, Scope, Way, scope, scope_pattern


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
