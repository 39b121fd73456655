"""Regular expressions over paths with bounded running time.

A project may contain expressions on which `re` runs forever. This matcher never backtracks: it
moves all reachable positions along at once, as the bits of an integer. `re` is used only for single
characters and positions.
"""

import re
import warnings
from collections.abc import Iterable
from functools import lru_cache
from typing import TypeAlias

from msgspec import Struct

LONGEST = 1000
DEEPEST = 40
MOST_REPEATS = 1000
MOST_STEPS = 20_000
"""More than any sensible path expression needs."""

_FLAGS = re.compile(r"\(\?([a-zA-Z]+)\)")
_KNOWN_FLAGS = {"i": re.IGNORECASE, "s": re.DOTALL, "u": re.UNICODE}
_TOKEN = re.compile(
    r"(?P<open>\((?:\?(?::|=|!|<=|<!|P<\w+>))?(?!\?))"
    r"|(?P<close>\))"
    r"|(?P<either>\|)"
    r"|(?P<repeat>(?:[*+?]|\{\d+\}|\{\d*,\d*\})(?P<kind>[?+]?))"
    r"|(?P<place>[\^$]|\\[bBAZ])"
    r"|(?P<character>\[\^?\]?(?:\\.|[^\]\\])*\]|\\x..|\\u.{4}|\\[^\dNpPkK]|[^\\()|*+?])",
    re.DOTALL,
)


class _Character(Struct, frozen=True):
    expression: re.Pattern[str]


class _Position(Struct, frozen=True):
    expression: re.Pattern[str]


class _Sequence(Struct, frozen=True):
    parts: "tuple[_Node, ...]"


class _Either(Struct, frozen=True):
    choices: "tuple[_Node, ...]"


class _Repeat(Struct, frozen=True):
    part: "_Node"
    least: int
    most: int | None


class _Look(Struct, frozen=True):
    part: "_Node"
    ahead: bool
    wanted: bool


_Node: TypeAlias = _Character | _Position | _Sequence | _Either | _Repeat | _Look


class PathPattern:
    """An expression that may match anywhere in a path."""

    def __init__(self, node: _Node) -> None:
        self._node = node

    def found_in(self, path: str, *, unclear: bool = False) -> bool:
        """`unclear` is returned if matching takes too many steps."""
        try:
            return bool(_PositionWalk(path).forward(self._node, (2 << len(path)) - 1))
        except _TooManySteps:
            return unclear


@lru_cache(maxsize=256)
def path_pattern(source: str) -> PathPattern:
    """Raises `ValueError` with the reason if the expression is invalid or not supported."""
    if len(source) > LONGEST:
        raise ValueError(f"it is longer than {LONGEST} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(source)
            return PathPattern(_ExpressionReader(source).whole())
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"it is not a regular expression ({error})") from error


class _TooManySteps(Exception):
    pass


class _PositionWalk:
    """Matches one text. Bit n of a position set is the position before character n."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._everywhere = (2 << len(text)) - 1
        self._where: dict[re.Pattern[str], int] = {}
        self._seen: dict[int, int] = {}
        self._steps = 0

    def forward(self, node: _Node, starts: int) -> int:
        """Where the node can end if it starts at one of these positions."""
        self._count()
        match node:
            case _Character(expression):
                return (starts & self._characters(expression)) << 1
            case _Sequence(parts):
                for part in parts:
                    starts = self.forward(part, starts) if starts else 0
                return starts
            case _Repeat():
                return self._repeated(node, starts, forward=True)
            case _Either(choices):
                return self._any(self.forward(choice, starts) for choice in choices)
            case _:
                return starts & self._allowed(node)

    def backward(self, node: _Node, ends: int) -> int:
        """Where the node can have started if it ends at one of these positions."""
        self._count()
        match node:
            case _Character(expression):
                return (ends >> 1) & self._characters(expression)
            case _Sequence(parts):
                for part in reversed(parts):
                    ends = self.backward(part, ends) if ends else 0
                return ends
            case _Repeat():
                return self._repeated(node, ends, forward=False)
            case _Either(choices):
                return self._any(self.backward(choice, ends) for choice in choices)
            case _:
                return ends & self._allowed(node)

    def _repeated(self, node: _Repeat, positions: int, *, forward: bool) -> int:
        move = self.forward if forward else self.backward
        for _ in range(node.least):
            moved = move(node.part, positions)
            if moved == positions:
                break
            positions = moved
        reached = fresh = positions
        more = MOST_STEPS if node.most is None else node.most - node.least
        while fresh and more:
            fresh = move(node.part, fresh) & ~reached
            reached |= fresh
            more -= 1
        return reached

    def _allowed(self, node: _Position | _Look) -> int:
        """The positions at which a zero-width node matches."""
        if isinstance(node, _Position):
            return self._places(node.expression)
        if id(node) not in self._seen:
            self._seen[id(node)] = self._looked(node)
        return self._seen[id(node)]

    def _looked(self, node: _Look) -> int:
        there = (
            self.backward(node.part, self._everywhere)
            if node.ahead
            else self.forward(node.part, self._everywhere)
        )
        return there if node.wanted else self._everywhere & ~there

    def _characters(self, expression: re.Pattern[str]) -> int:
        if expression not in self._where:
            fitting = {each for each in set(self._text) if expression.fullmatch(each)}
            self._where[expression] = _bits(each in fitting for each in self._text)
        return self._where[expression]

    def _places(self, expression: re.Pattern[str]) -> int:
        if expression not in self._where:
            positions = range(len(self._text) + 1)
            found = (expression.match(self._text, at) is not None for at in positions)
            self._where[expression] = _bits(found)
        return self._where[expression]

    def _count(self) -> None:
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise _TooManySteps

    @staticmethod
    def _any(results: Iterable[int]) -> int:
        reached = 0
        for each in results:
            reached |= each
        return reached


def _bits(values: Iterable[bool]) -> int:
    return int("".join("1" if each else "0" for each in values)[::-1] or "0", 2)


class _ExpressionReader:
    """Parses a valid expression."""

    def __init__(self, source: str) -> None:
        given = _FLAGS.match(source)
        self._flags = _flags(given[1]) if given else re.NOFLAG
        self._source = source
        self._at = given.end() if given else 0

    def whole(self) -> _Node:
        node = self._choices(depth=0)
        if self._at < len(self._source):
            raise ValueError("its brackets do not match")
        return node

    def _choices(self, depth: int) -> _Node:
        if depth > DEEPEST:
            raise ValueError(f"it is nested more than {DEEPEST} deep")
        choices = [self._row(depth)]
        while self._source.startswith("|", self._at):
            self._at += 1
            choices.append(self._row(depth))
        return choices[0] if len(choices) == 1 else _Either(tuple(choices))

    def _row(self, depth: int) -> _Node:
        parts: list[_Node] = []
        while self._at < len(self._source) and self._source[self._at] not in "|)":
            token = _TOKEN.match(self._source, self._at)
            if token is None:
                raise ValueError("it uses a back-reference or something else that is not supported")
            self._at = token.end()
            if token["repeat"]:
                parts[-1] = _repeat(parts[-1], token)
            elif token["open"]:
                parts.append(self._group(token["open"], depth))
            else:
                parts.append(self._atom(token))
        return _Sequence(tuple(parts))

    def _group(self, opening: str, depth: int) -> _Node:
        inner = self._choices(depth + 1)
        self._at += 1
        match opening:
            case "(?=" | "(?!":
                return _Look(inner, ahead=True, wanted=opening == "(?=")
            case "(?<=" | "(?<!":
                return _Look(inner, ahead=False, wanted=opening == "(?<=")
            case _:
                return inner

    def _atom(self, token: re.Match[str]) -> _Node:
        expression = re.compile(token[0], self._flags)
        return _Position(expression) if token["place"] else _Character(expression)


def _flags(letters: str) -> re.RegexFlag:
    if unknown := set(letters) - set(_KNOWN_FLAGS):
        raise ValueError(f"the flag {min(unknown)} is not supported")
    flags = re.NOFLAG
    for letter in letters:
        flags |= _KNOWN_FLAGS[letter]
    return flags


def _repeat(part: _Node, token: re.Match[str]) -> _Node:
    if token["kind"] == "+":
        raise ValueError("possessive repetition is not supported")
    said = token["repeat"].removesuffix("?") or "?"
    plain = {"*": (0, None), "+": (1, None), "?": (0, 1)}
    if said in plain:
        return _Repeat(part, *plain[said])
    least, comma, most = said.strip("{}").partition(",")
    bounds = int(least or 0), int(most) if most else None if comma else int(least)
    if max(bounds[0], bounds[1] or 0) > MOST_REPEATS:
        raise ValueError(f"it repeats something more than {MOST_REPEATS} times")
    return _Repeat(part, *bounds)
