"""File patterns as models write them: `*.py`, `src/**/*.ts`, `*.{ts,tsx}`, `!*.lock`."""

import re
from collections.abc import Callable

from rookery.errors import BadArguments
from rookery.platform.patterns import LONGEST, FileRules, file_pattern

_BRACES = re.compile(r"\{([^{}]*)\}")
_MOST = 64


def file_filter(glob: str | None, start: str) -> Callable[[str], bool]:
    """Whether a file is wanted. A pattern with a slash may begin at the workspace or at `start`."""
    if not glob or not glob.strip():
        return lambda path: True
    if len(glob) > LONGEST:
        raise BadArguments(f"The file pattern is longer than {LONGEST} characters.")
    unwanted, pattern = glob.startswith("!"), glob.strip().removeprefix("!")
    try:
        patterns = [file_pattern(choice) for choice in _alternatives(pattern)]
    except ValueError as error:
        raise BadArguments(f"The file pattern {glob!r} cannot be used: {error}.") from error
    rules = FileRules(tuple(filter(None, patterns)))

    def wanted(path: str) -> bool:
        inner = path.removeprefix(f"{start}/")
        return (rules.cover(path) or rules.cover(inner)) is not unwanted

    return wanted


def _alternatives(pattern: str) -> list[str]:
    """The pattern for every choice that its braces leave."""
    finished, waiting = list[str](), [pattern]
    while waiting and len(finished) + len(waiting) <= _MOST:
        current = waiting.pop()
        if braces := _BRACES.search(current):
            before, after = current[: braces.start()], current[braces.end() :]
            waiting += [before + choice + after for choice in braces[1].split(",")]
        else:
            finished.append(current)
    if waiting:
        raise BadArguments(f"The file pattern {pattern!r} has too many alternatives.")
    return finished
