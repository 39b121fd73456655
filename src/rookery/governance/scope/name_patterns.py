r"""Patterns over one name of a path: `*`, `?`, `[a-z]`, `[!a]`, `\` before a literal, and braces.

`alternatives` expands the braces of a whole pattern; `name_pattern` reads one name of what is left.
Wildcards match leading dots too.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TypeAlias

from msgspec import Struct

from rookery.core.text.characters import caseless

_PLAIN = re.compile(r"[^*?\[\\]*")
MOST_ALTERNATIVES = 64


class Star(Struct, frozen=True):
    """Any number of characters, also none."""


class Signs(Struct, frozen=True):
    """One character: inside of one of the ranges, or outside of all of them."""

    ranges: tuple[tuple[str, str], ...]
    unlike: bool = False
    ignore_case: bool = False

    def has(self, sign: str) -> bool:
        spellings = {sign, sign.lower(), sign.upper()} if self.ignore_case else {sign}
        within = any(a <= each <= b for a, b in self.ranges for each in spellings)
        return within is not self.unlike


Token: TypeAlias = str | Star | Signs
"""A text of one character is that character."""
STAR = Star()
ANY_SIGN = Signs((), unlike=True)


class Name(Struct, frozen=True):
    tokens: tuple[Token, ...]
    literal: str | None = None
    """The one name that fits, if there is only one."""


ANY_NAME = Name((STAR,))


class PatternError(ValueError):
    """Its text says what is wrong with a pattern; `fix` is one way to put it right."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


def name_pattern(text: str, *, ignore_case: bool = False) -> Name:
    """Raises `ValueError` with the reason if it is faulty."""
    if _PLAIN.fullmatch(text):
        plain = caseless(text) if ignore_case else text
        return Name(tuple(plain), plain)
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        sign = text[at]
        if sign == "*":
            tokens.append(STAR)
        elif sign == "?":
            tokens.append(ANY_SIGN)
        elif sign == "[":
            signs, at = _character_class(text, at, ignore_case=ignore_case)
            tokens.append(signs)
        elif sign == "\\":
            at += 1
            if at == len(text):
                raise ValueError("the pattern ends with a backslash")
            tokens += _literal(text[at], ignore_case=ignore_case)
        else:
            tokens += _literal(sign, ignore_case=ignore_case)
        at += 1
    spelled = [each for each in tokens if isinstance(each, str)]
    literal = "".join(spelled) if len(spelled) == len(tokens) else None
    return Name(tuple(tokens), caseless(literal) if literal and ignore_case else literal)


def text_pattern(text: str) -> Name:
    """A pattern in which only `*` means anything, over a text of any kind."""
    return Name(tuple(STAR if sign == "*" else sign for sign in text), None)


def fits(pattern: Name, name: str) -> bool:
    """Whether all of the name fits. After a star only the latest one need take more."""
    if pattern.literal is not None:
        return pattern.literal == name
    tokens = pattern.tokens
    at = done = 0
    free: tuple[int, int] | None = None
    while done < len(name):
        token = tokens[at] if at < len(tokens) else None
        if isinstance(token, Star):
            free = at, done
            at += 1
        elif token is not None and _is(token, name[done]):
            at, done = at + 1, done + 1
        elif free:
            free = free[0], free[1] + 1
            at, done = free[0] + 1, free[1]
        else:
            return False
    return all(isinstance(token, Star) for token in tokens[at:])


def meet(one: Name, other: Name) -> bool:
    """Whether some name may fit both."""
    if one.literal is not None and other.literal is not None:
        return one.literal == other.literal
    if one.literal is not None:
        return fits(other, one.literal)
    if other.literal is not None:
        return fits(one, other.literal)
    return _walk(one.tokens, other.tokens, both=True)


def contains(wide: Name, narrow: Name) -> bool:
    """Whether every name that fits the narrow one fits the wide one, for certain."""
    if narrow.literal is not None:
        return fits(wide, narrow.literal)
    return wide in (narrow, ANY_NAME) or _walk(wide.tokens, narrow.tokens, both=False)


def alternatives(text: str) -> list[str]:
    """What a pattern's braces come to."""
    if "{" not in text and "}" not in text:
        return [text]
    done, open_ones = list[str](), [text]
    while open_ones:
        current = open_ones.pop()
        braces = _first_braces(current)
        if braces is None:
            done.append(current)
        else:
            start, end, commas = braces
            edges = [start, *commas, end]
            bodies = [current[a + 1 : b] for a, b in pairwise(edges)]
            open_ones += [current[:start] + body + current[end + 1 :] for body in bodies]
        if len(done) + len(open_ones) > MOST_ALTERNATIVES:
            raise PatternError(
                f"a pattern can have at most {MOST_ALTERNATIVES} alternatives",
                "use several patterns",
            )
    return done[::-1]


def _walk(one: Sequence[Token], other: Sequence[Token], *, both: bool) -> bool:
    """Through two rows of tokens at once, each pair of places once. Stars of the other row stand
    for something unknown unless the rows may `both` choose."""
    reached = {(0, 0)}
    open_pairs = [(0, 0)]
    while open_pairs:
        i, j = open_pairs.pop()
        if i == len(one) and j == len(other):
            return True
        mine = one[i] if i < len(one) else None
        its = other[j] if j < len(other) else None
        found: list[tuple[int, int]] = []
        if isinstance(mine, Star):
            found += [(i + 1, j), *([(i, j + 1)] if its is not None else [])]
        if isinstance(its, Star) and both:
            found += [(i, j + 1), *([(i + 1, j)] if mine is not None else [])]
        if _pair(mine, its, both=both):
            found.append((i + 1, j + 1))
        for pair in found:
            if pair not in reached:
                reached.add(pair)
                open_pairs.append(pair)
    return False


def _pair(mine: Token | None, its: Token | None, *, both: bool) -> bool:
    if mine is None or its is None or isinstance(mine, Star) or isinstance(its, Star):
        return False
    if isinstance(its, str):
        return _is(mine, its)
    if isinstance(mine, str):
        return both and its.has(mine)
    return _may_share(mine, its) if both else mine in (its, ANY_SIGN)


def _may_share(one: Signs, other: Signs) -> bool:
    """Yes where it is unclear."""
    if one.unlike or other.unlike or one.ignore_case or other.ignore_case:
        return True
    return any(a <= d and c <= b for a, b in one.ranges for c, d in other.ranges)


def _is(token: Token, sign: str) -> bool:
    return token == sign if isinstance(token, str) else isinstance(token, Signs) and token.has(sign)


def _literal(sign: str, *, ignore_case: bool) -> Sequence[str]:
    return tuple(caseless(sign)) if ignore_case else (sign,)


def _character_class(text: str, at: int, *, ignore_case: bool) -> tuple[Signs, int]:
    """The bracket that begins there, and where it ends."""
    start = at + 1
    unlike = text.startswith("!", start)
    start += unlike
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
    return Signs(tuple(ranges), unlike, ignore_case), end


def _first_braces(text: str) -> tuple[int, int, list[int]] | None:
    """Where the first alternatives begin and end, and the commas between them."""
    depth, start = 0, -1
    commas: list[int] = []
    for at, sign in _active_signs(text):
        if sign == "{":
            depth += 1
            start = at if depth == 1 else start
        elif sign == "}":
            depth -= 1
            if depth < 0:
                raise _unbalanced("brace")
            if depth == 0:
                return start, at, commas
        elif sign == "," and depth == 1:
            commas.append(at)
    if depth:
        raise _unbalanced("brace")
    return None


def _active_signs(text: str) -> Iterable[tuple[int, str]]:
    """The characters that mean something: neither behind a backslash nor in a bracket."""
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
