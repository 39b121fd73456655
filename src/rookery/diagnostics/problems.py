"""Problems that language servers report, and which of them an edit caused.

Problems are compared without their places, because an edit moves lines. Of several that say the
same, those on a line that was there before count as known.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from rookery.core.replies import NEW_PROBLEMS
from rookery.core.text.terminal_text import counted, shortened

ERROR, WARNING = 1, 2
"""Severities of the protocol; the others are hints and are left out."""
LONGEST_MESSAGE = 300
MOST_ERRORS, MOST_WARNINGS, MOST_ELSEWHERE = 10, 5, 3
MOST_READ = 2_000
"""Problems of one file that are looked at."""


class Diagnostic(Struct, frozen=True, kw_only=True):
    """One problem. `line` and `column` count from 1; `text` is the line without its blanks."""

    path: str
    line: int
    column: int
    severity: int
    message: str
    code: str = ""
    source: str = ""
    text: str = ""

    @property
    def says(self) -> tuple[int, str, str, str]:
        """What it says, wherever it is."""
        return self.severity, self.source, self.code, self.message

    def __str__(self) -> str:
        kind = "error" if self.severity == ERROR else "warning"
        origin = " ".join(filter(None, (self.source, self.code)))
        where = f"{self.path}:{self.line}:{self.column}"
        return f"{where}: {kind}: {self.message}{f' [{origin}]' if origin else ''}"


def read_problems(path: str, reported: Sequence[Any], text: str | None) -> tuple[Diagnostic, ...]:
    """The errors and warnings among what a server reported of a file. Malformed ones are left
    out."""
    lines = text.splitlines() if text is not None else []
    found = (_read_problem(path, each, lines) for each in reported[:MOST_READ])
    return tuple(each for each in found if each)


def _read_problem(path: str, reported: Any, lines: Sequence[str]) -> Diagnostic | None:
    match reported:
        case {
            "range": {"start": {"line": int(line), "character": int(column)}},
            "message": str(message),
        } if line >= 0 and column >= 0:
            severity = reported.get("severity", ERROR)
            if severity not in (ERROR, WARNING):
                return None
            code, source = reported.get("code"), reported.get("source")
            return Diagnostic(
                path=path,
                line=line + 1,
                column=column + 1,
                severity=severity,
                message=_on_one_line(message, LONGEST_MESSAGE),
                code=_on_one_line(str(code), 60) if isinstance(code, str | int) else "",
                source=_on_one_line(source, 30) if isinstance(source, str) else "",
                text=lines[line].strip() if line < len(lines) else "",
            )
    return None


def _on_one_line(text: str, longest: int) -> str:
    words = "".join(c if c.isprintable() else " " for c in text).split()
    return shortened(" ".join(words), longest)


def new_problems(
    before: Sequence[Diagnostic], after: Sequence[Diagnostic]
) -> tuple[Diagnostic, ...]:
    """The problems of a file that were not there before."""
    places = Counter((*each.says, each.text) for each in before)
    unknown: list[Diagnostic] = []
    for each in after:
        if places[(*each.says, each.text)]:
            places[(*each.says, each.text)] -= 1
        else:
            unknown.append(each)
    # the line of a known problem may have been edited without solving it
    left = Counter[tuple[int, str, str, str]]()
    for (*says, _), count in places.items():
        left[tuple(says)] += count  # type: ignore[index]
    new: list[Diagnostic] = []
    for each in unknown:
        if left[each.says]:
            left[each.says] -= 1
        else:
            new.append(each)
    return tuple(new)


def described_problems(
    new: Sequence[Diagnostic], elsewhere: Mapping[str, Sequence[Diagnostic]], *, solved: int = 0
) -> str:
    """What to tell the model about new problems; empty if there is nothing to tell."""
    parts = []
    if new:
        parts.append(f"{NEW_PROBLEMS}\n" + "\n".join(_listed(new)))
    errors = [each for found in elsewhere.values() for each in found if each.severity == ERROR]
    if errors:
        files = len({each.path for each in errors})
        many = f"{counted(len(errors), 'new error')} in {counted(files, 'other file')}:"
        parts.append("\n".join([many, *_capped(errors, MOST_ELSEWHERE, "error")]))
    if solved and not parts:
        parts.append(f"{counted(solved, 'problem')} fewer than before this edit.")
    return "\n".join(parts)


def _listed(problems: Sequence[Diagnostic]) -> list[str]:
    errors = [each for each in problems if each.severity == ERROR]
    warnings = [each for each in problems if each.severity == WARNING]
    return [
        *_capped(errors, MOST_ERRORS, "error"),
        *_capped(warnings, MOST_WARNINGS, "warning"),
    ]


def _capped(problems: Sequence[Diagnostic], most: int, kind: str) -> list[str]:
    left = len(problems) - most
    more = [f"and {counted(left, f'more {kind}')}"] if left > 0 else []
    return [*map(str, problems[:most]), *more]
