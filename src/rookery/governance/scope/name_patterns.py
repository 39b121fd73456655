r"""Patterns for one name of a path: `*`, `?`, `[a-z]`, `[!a]`, `\` before a literal, and braces.

`alternatives` expands the braces of a whole pattern; `name_pattern` parses one name of the result.
Wildcards also match leading dots.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

from msgspec import Struct

from rookery.core.text.characters import caseless

_PLAIN = re.compile(r"[^*?\[\\]*")
MOST_ALTERNATIVES = 64


class Star(Struct, frozen=True):
    """Any number of characters, including none."""


class CharClass(Struct, frozen=True):
    """One character: in one of the ranges, or in none of them if `negated`."""

    ranges: tuple[tuple[str, str], ...]
    negated: bool = False
    ignore_case: bool = False

    def has(self, char: str) -> bool:
        spellings = {char, char.lower(), char.upper()} if self.ignore_case else {char}
        within = any(a <= each <= b for a, b in self.ranges for each in spellings)
        return within is not self.negated


Token: TypeAlias = str | Star | CharClass
"""A string is one literal character."""
STAR = Star()
ANY_CHAR = CharClass((), negated=True)


class Name(Struct, frozen=True):
    tokens: tuple[Token, ...]
    literal: str | None = None
    """The only name that matches, if there is just one."""


ANY_NAME = Name((STAR,))


class PatternError(ValueError):
    """An invalid pattern. The message says what is wrong; `fix` suggests a correction."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


def name_pattern(text: str, *, ignore_case: bool = False) -> Name:
    """Parse the pattern of one name. Raises `ValueError` with the reason if it is invalid."""
    if _PLAIN.fullmatch(text):
        plain = caseless(text) if ignore_case else text
        return Name(tuple(plain), plain)
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        char = text[at]
        if char == "*":
            tokens.append(STAR)
        elif char == "?":
            tokens.append(ANY_CHAR)
        elif char == "[":
            char_class, at = _character_class(text, at, ignore_case=ignore_case)
            tokens.append(char_class)
        elif char == "\\":
            at += 1
            if at == len(text):
                raise ValueError("the pattern ends with a backslash")
            tokens += _literal(text[at], ignore_case=ignore_case)
        else:
            tokens += _literal(char, ignore_case=ignore_case)
        at += 1
    spelled = [each for each in tokens if isinstance(each, str)]
    literal = "".join(spelled) if len(spelled) == len(tokens) else None
    return Name(tuple(tokens), caseless(literal) if literal and ignore_case else literal)


def text_pattern(text: str) -> Name:
    """A pattern for any text, in which only `*` is special."""
    return Name(tuple(STAR if char == "*" else char for char in text), None)


def matches(pattern: Name, name: str) -> bool:
    """Whether the whole name matches. Only the last star backtracks, which bounds the time."""
    if pattern.literal is not None:
        return pattern.literal == name
    tokens = pattern.tokens
    at = done = 0
    star: tuple[int, int] | None = None
    while done < len(name):
        token = tokens[at] if at < len(tokens) else None
        if isinstance(token, Star):
            star = at, done
            at += 1
        elif token is not None and _matches_char(token, name[done]):
            at, done = at + 1, done + 1
        elif star:
            star = star[0], star[1] + 1
            at, done = star[0] + 1, star[1]
        else:
            return False
    return all(isinstance(token, Star) for token in tokens[at:])


def intersects(one: Name, other: Name) -> bool:
    """Whether a name may match both patterns."""
    if one.literal is not None and other.literal is not None:
        return one.literal == other.literal
    if one.literal is not None:
        return matches(other, one.literal)
    if other.literal is not None:
        return matches(one, other.literal)
    return _match_tokens(one.tokens, other.tokens, both=True)


def contains(wide: Name, narrow: Name) -> bool:
    """Whether every name that matches `narrow` certainly matches `wide`."""
    if narrow.literal is not None:
        return matches(wide, narrow.literal)
    return wide in (narrow, ANY_NAME) or _match_tokens(wide.tokens, narrow.tokens, both=False)


def alternatives(text: str) -> list[str]:
    """Expand the braces of a pattern. Raises `PatternError` if there are too many alternatives."""
    if "{" not in text and "}" not in text:
        return [text]
    done, pending = list[str](), [text]
    while pending:
        current = pending.pop()
        braces = _first_braces(current)
        if braces is None:
            done.append(current)
        else:
            start, end, commas = braces
            edges = [start, *commas, end]
            bodies = [current[a + 1 : b] for a, b in pairwise(edges)]
            pending += [current[:start] + body + current[end + 1 :] for body in bodies]
        if len(done) + len(pending) > MOST_ALTERNATIVES:
            raise PatternError(
                f"a pattern can have at most {MOST_ALTERNATIVES} alternatives",
                "use several patterns",
            )
    return done[::-1]


Position: TypeAlias = tuple[int, int]


def can_reach(end: Position, next_positions: Callable[[int, int], Iterable[Position]]) -> bool:
    """Whether steps from (0, 0) lead to `end`. Each pair of positions is visited once."""
    reached = {(0, 0)}
    pending = [(0, 0)]
    while pending:
        at = pending.pop()
        if at == end:
            return True
        new = {each for each in next_positions(*at) if each not in reached}
        reached |= new
        pending += new
    return False


def _match_tokens(one: Sequence[Token], other: Sequence[Token], *, both: bool) -> bool:
    """Match two token lists against each other.

    With `both`, a star of either list may match anything (do they intersect?); without it only
    stars of the first may (does the first contain the second?).
    """

    def next_positions(i: int, j: int) -> Iterator[Position]:
        left = one[i] if i < len(one) else None
        right = other[j] if j < len(other) else None
        if isinstance(left, Star):
            yield i + 1, j
            if right is not None:
                yield i, j + 1
        if isinstance(right, Star) and both:
            yield i, j + 1
            if left is not None:
                yield i + 1, j
        if _match_pair(left, right, both=both):
            yield i + 1, j + 1

    return can_reach((len(one), len(other)), next_positions)


def _match_pair(left: Token | None, right: Token | None, *, both: bool) -> bool:
    if left is None or right is None or isinstance(left, Star) or isinstance(right, Star):
        return False
    if isinstance(right, str):
        return _matches_char(left, right)
    if isinstance(left, str):
        return both and right.has(left)
    return _may_intersect(left, right) if both else left in (right, ANY_CHAR)


def _may_intersect(one: CharClass, other: CharClass) -> bool:
    """Whether two character classes may intersect; True if unclear."""
    if one.negated or other.negated or one.ignore_case or other.ignore_case:
        return True
    return any(a <= d and c <= b for a, b in one.ranges for c, d in other.ranges)


def _matches_char(token: Token, char: str) -> bool:
    return token.has(char) if isinstance(token, CharClass) else token == char


def _literal(char: str, *, ignore_case: bool) -> Sequence[str]:
    return tuple(caseless(char)) if ignore_case else (char,)


def _character_class(text: str, at: int, *, ignore_case: bool) -> tuple[CharClass, int]:
    """Parse the character class at `at`. Returns it and the position of its closing bracket."""
    start = at + 1
    negated = text.startswith("!", start)
    start += negated
    if text.startswith("^", start):
        raise ValueError("[^…] can be read in two ways; write [!…] for any other character")
    end = text.find("]", start + 1)
    if end < 0:
        raise ValueError("a bracket is not balanced")
    ranges: list[tuple[str, str]] = []
    body = text[start:end]
    while body:
        first, last = (body[0], body[2]) if len(body) > 2 and body[1] == "-" else (body[0], body[0])
        body = body[3:] if len(body) > 2 and body[1] == "-" else body[1:]
        if first > last:
            raise ValueError(f"the range {first}-{last} is empty")
        ranges.append((first, last))
    return CharClass(tuple(ranges), negated, ignore_case), end


def _first_braces(text: str) -> tuple[int, int, list[int]] | None:
    """The positions of the first brace group: start, end, and its top-level commas."""
    depth, start = 0, -1
    commas: list[int] = []
    for at, char in _unescaped_chars(text):
        if char == "{":
            depth += 1
            start = at if depth == 1 else start
        elif char == "}":
            depth -= 1
            if depth < 0:
                raise _unbalanced("brace")
            if depth == 0:
                return start, at, commas
        elif char == "," and depth == 1:
            commas.append(at)
    if depth:
        raise _unbalanced("brace")
    return None


def _unescaped_chars(text: str) -> Iterable[tuple[int, str]]:
    """The characters with their positions, without escaped ones and those in brackets."""
    at = 0
    while at < len(text):
        if text[at] == "\\":
            at += 1
        elif text[at] == "[":
            end = text.find("]", at + (3 if text.startswith("[!", at) else 2))
            at = max(at, end)
        else:
            yield at, text[at]
        at += 1


def _unbalanced(what: str) -> PatternError:
    return PatternError(f"a {what} is not balanced", "close it, or put a backslash in front of it")
