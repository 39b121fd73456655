"""Problems as a person reads them in a terminal."""

from collections.abc import Sequence

from rookery.core.findings import Problem, Severity
from rookery.governance.intents.intent import IntentFile

_QUOTES = ("'", '"')


def rendered(problem: Problem) -> str:
    """The place, the line with a mark under what is meant, and a way out. A warning needs no
    mark: its message names what it is about."""
    place = f"{problem.file}:{problem.line}:{problem.column}" if problem.line else problem.file
    element = " ".join(filter(None, (problem.intent_id, problem.path)))
    head = f"{place}  {problem.severity} {problem.code}  {element}".rstrip()
    if problem.severity is Severity.WARNING or not problem.text:
        lines = [head, f"    {problem.message}"]
    else:
        lines = [head, f"    {problem.text.strip()}", f"    {_mark(problem)} {problem.message}"]
    return "\n".join([*lines, *([f"  fix: {problem.fix}"] if problem.fix else [])])


def _mark(problem: Problem) -> str:
    indent = len(problem.text) - len(problem.text.lstrip())
    at = max(0, problem.column - 1)
    inside_quotes = problem.text[at : at + 1] in _QUOTES
    return " " * max(0, at - indent + inside_quotes) + "^"


def summary(file: IntentFile, problems: Sequence[Problem] | None = None) -> str:
    """How many problems there are, and which intents they leave usable. `problems` if more is
    known than reading the file told."""
    problems = file.problems if problems is None else problems
    errors = sum(each.severity is Severity.ERROR for each in problems)
    warnings = len(problems) - errors
    if not problems:
        return "No problems."
    counted = f"{_count(errors, 'error')}, {_count(warnings, 'warning')}."
    if not file.usable:
        return f"{counted} No intent can be selected until the file is mended."
    broken = [each.id for each in file.intents if each.id in file.broken]
    if not broken:
        return counted
    good = [each.id for each in file.intents if each.id not in file.broken]
    stays = f"{_listed(good)} {'stays' if len(good) == 1 else 'stay'} usable; " if good else ""
    return f"{counted} {stays}{_listed(broken)} cannot be selected."


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
