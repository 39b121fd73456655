"""Which calls or happenings a group of hooks is for.

Most matchers are names. Others are regular expressions, of which those are refused that may take
for ever: a file of the project must not be able to hang whoever only asks whether it fits.
"""

import re
import warnings
from collections.abc import Iterable
from functools import lru_cache

from msgspec import Struct

LONGEST = 500
MOST_REPEATS = 3
"""Of one alternative. Each multiplies the steps by the length of a name."""
LONGEST_NAME = 128

_NAMES = re.compile(r"[A-Za-z0-9_\-|,]+")
_EVERYTHING = ("", "*")
_BETWEEN = re.compile(r"[|,]")
_NOT_REPEATED = ("", "(", "*", "+", "?", "}")
"""After these a question mark says something else."""
_SKIPPED = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)


class FaultyMatcher(ValueError):
    """Its text says what is wrong."""


class Matcher(Struct, frozen=True):
    text: str = ""

    def fits(self, names: Iterable[str]) -> bool:
        """Whether one of the names is meant. Without any name, only what is for everything fits."""
        if self.text in _EVERYTHING:
            return True
        if _NAMES.fullmatch(self.text):
            wanted = {name for name in _BETWEEN.split(self.text) if name}
            return not wanted.isdisjoint(names)
        pattern = _compiled(self.text)
        return any(pattern.search(name[:LONGEST_NAME]) for name in names)


def matcher(text: str) -> Matcher:
    """Raises `FaultyMatcher`."""
    if text not in _EVERYTHING and not _NAMES.fullmatch(text):
        if len(text) > LONGEST:
            raise FaultyMatcher(f"the matcher has more than {LONGEST} characters")
        try:
            _compiled(text)
        except (re.error, OverflowError, RecursionError) as error:
            raise FaultyMatcher(f"the matcher is no regular expression ({error})") from error
        if _may_take_for_ever(text):
            raise FaultyMatcher("the matcher repeats what repeats itself, which may take for ever")
    return Matcher(text)


@lru_cache(maxsize=256)
def _compiled(text: str) -> re.Pattern[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whoever wrote it is not the one who would read them
        return re.compile(text)


def _may_take_for_ever(text: str) -> bool:
    """A group that is repeated must not repeat or choose inside, and few repeats stand in a row."""
    plain = _SKIPPED.sub("x", text)
    busy = [False]
    repeats = 0
    for at, sign in enumerate(plain):
        if sign == "(":
            busy.append(False)
        elif sign == "|":
            busy[-1] = True
            repeats = 0 if len(busy) == 1 else repeats
        elif sign == ")" and len(busy) > 1:
            inner = busy.pop()
            if inner and plain[at + 1 : at + 2] in ("*", "+", "{"):
                return True
            busy[-1] = busy[-1] or inner
        elif sign in "*+{" or (sign == "?" and plain[at - 1 : at] not in _NOT_REPEATED):
            busy[-1] = True
            repeats += 1
        if repeats > MOST_REPEATS:
            return True
    return False
