"""Lessons that a task earned: a check failed, something was changed, and the check passed.

A failure alone teaches nothing yet. What the host itself refused, such as a stale write, is no
check and never comes here.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from msgspec import Struct

from rookery.commands.wrappers import program_name
from rookery.governance.intents.lessons import Lesson, LessonType
from rookery.governance.ledger.by_products import is_by_product

MOST_NAMED = 5

_PROGRAMS = {
    **dict.fromkeys(("pytest", "tox", "nox", "jest", "vitest", "phpunit", "rspec"), "TEST"),
    **dict.fromkeys(("ruff", "flake8", "pylint", "eslint", "shellcheck", "clippy"), "LINT"),
    **dict.fromkeys(("mypy", "pyright", "tsc", "flow"), "TYPE"),
    **dict.fromkeys(("make", "cmake", "ninja", "javac", "webpack"), "BUILD"),
    **dict.fromkeys(("bandit", "semgrep"), "ANALYSIS"),
}
_RUNNERS = {"cargo", "go", "npm", "yarn", "pnpm", "mvn", "gradle", "dotnet", "just", "make"}
_DEEDS = {
    "test": "TEST",
    "lint": "LINT",
    "clippy": "LINT",
    "vet": "LINT",
    "typecheck": "TYPE",
    "check": "TYPE",
    "build": "BUILD",
    "compile": "BUILD",
}


class CheckRan(Struct, frozen=True):
    """A verification command and how it ended. `failure` is a line that says what was wrong."""

    command: str
    type: LessonType
    ok: bool
    failure: str = ""


class FileChanged(Struct, frozen=True):
    path: str


Happening: TypeAlias = CheckRan | FileChanged


def check_type(words: Sequence[str]) -> LessonType | None:
    """What kind of check a simple command is; None if it is none that is known."""
    names = [program_name(words[0]), *words[1:]] if words else []
    if names[:2] == ["python", "-m"] or names[:2] == ["python3", "-m"]:
        names = names[2:]
    if names[:1] == ["unittest"]:
        return LessonType.TEST
    if names[:1] and names[0] in _RUNNERS:
        for word in names[1:3]:
            if word in _DEEDS:
                return LessonType(_DEEDS[word])
    found = _PROGRAMS.get(names[0]) if names else None
    return LessonType(found) if found else None


def earned(happenings: Iterable[Happening], *, at: str, intent_id: str) -> tuple[Lesson, ...]:
    """From what happened in one task, in order: a lesson for each check that failed and passed
    again after files were changed."""
    failed: dict[str, CheckRan] = {}
    changed: dict[str, list[str]] = {}
    lessons: list[Lesson] = []
    for happening in happenings:
        match happening:
            case FileChanged(path) if is_by_product(path):
                pass  # the check itself may have left it
            case FileChanged(path):
                for paths in changed.values():
                    paths.append(path)
            case CheckRan(command, _, False, _):
                if command not in failed:
                    failed[command], changed[command] = happening, []
            case CheckRan(command) if command in failed:
                first, paths = failed.pop(command), changed.pop(command)
                if paths:
                    lessons.append(_lesson(first, paths, at=at, intent_id=intent_id))
    return tuple(lessons)


def _lesson(failure: CheckRan, paths: Sequence[str], *, at: str, intent_id: str) -> Lesson:
    files = list(dict.fromkeys(paths))
    more = len(files) - MOST_NAMED
    named = ", ".join(files[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    return Lesson(
        at=at,
        type=failure.type,
        failure=failure.failure or f"{failure.command} failed",
        intent_id=intent_id,
        file=files[0],
        fix=f"passed after a change of {named}",
    )
