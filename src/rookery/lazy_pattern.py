"""Regular expressions that are compiled when they are first used.

Compiling one takes as long as loading a small module, and a run uses few of them. So the modules
that every run loads define their patterns with this; elsewhere `re.compile` is fine.
"""

import re
from typing import Any, AnyStr, cast


def lazy_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    return cast("re.Pattern[AnyStr]", _LazyPattern(pattern, flags))


class _LazyPattern:
    def __init__(self, *given: Any) -> None:
        self._given = given

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(*self._given), name)
        setattr(self, name, value)  # found at once from now on
        return value
