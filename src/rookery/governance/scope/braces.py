"""Braces in patterns: `src/{a,b}` is two of them. They may be nested."""

from collections.abc import Iterable
from itertools import pairwise

MOST_ALTERNATIVES = 64


class PatternError(ValueError):
    """Its text says what is wrong with a pattern; `fix` is one way to put it right."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


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
                f"a pattern may stand for {MOST_ALTERNATIVES} alternatives at most",
                "use several patterns",
            )
    return done[::-1]


def _first_braces(text: str) -> tuple[int, int, list[int]] | None:
    """Where the first alternatives begin and end, and the commas between them."""
    depth, start = 0, -1
    commas: list[int] = []
    for at, sign in _signs(text):
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


def _signs(text: str) -> Iterable[tuple[int, str]]:
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
