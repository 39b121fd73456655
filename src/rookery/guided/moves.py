"""What to do next in a guided task, decided from its record alone."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from rookery.guided.checks import (
    check_commands,
    commands_in,
    example_checks,
    expected_output,
    failure,
    is_unusable,
)
from rookery.guided.choice import (
    SMALL_PROJECT,
    files_to_read,
    identifiers,
    new_paths,
    readable,
    rename_in,
    renamed,
)
from rookery.guided.record import (
    LIST,
    PATCH,
    READ,
    RESTORING,
    RUN,
    SEARCH,
    WRITE,
    Attempt,
    CommandRun,
    Record,
)

CHECK_SECONDS = 60
_NOT_MADE = "The change was not made, so I stopped"

_VERBS = (
    "add|adapt|adjust|bump|change|convert|correct|create|delete|disable|drop|edit|enable|extend|"
    "extract|fix|give|handle|implement|improve|insert|let|make|migrate|modify|move|port|put|read|"
    "refactor|remove|rename|repair|replace|rewrite|save|set|sort|split|store|support|swap|"
    "translate|turn|update|upgrade|use|validate|wrap|write"
)
_CHANGE = re.compile(
    rf"(?:^|[.!?:\n]\s*|\b(?:and|then|please|to|must|should)\s+)(?:{_VERBS})\b", re.IGNORECASE
)
_ASKS = re.compile(
    r"\s*(?:please\s+)?(?:(?:in |on |of |at )?(?:what|which|where|who|why|when|how)|is|are|does|do|"
    r"did|can you (?:explain|tell|show)|explain|describe|tell|show|list|count|find|name|say|"
    r"summari[sz]e|hi|hello|hey|thanks?)\b(?!\()",
    re.IGNORECASE,
)
_HOW_TO = re.compile(r"\s*(?:how|why|what|which|where)\b[^.?!\n]*\?\s*$", re.IGNORECASE)
_COUNTS = re.compile(
    r"\b(?:how many|count|number of|total|sum of|list (?:all|every)|largest|longest|smallest|most|"
    r"(?:which|what) files?)\b",
    re.IGNORECASE,
)
_DATA = (".txt", ".csv", ".md", ".json")


class Approach(Struct, frozen=True):
    """One way to solve a task. Approaches differ in more than the temperature."""

    planned: bool
    temperature: float
    focused: bool = True
    """Whether only files and definitions that the task names may change, if it names any."""


APPROACHES = (
    Approach(planned=True, temperature=0.0),
    Approach(planned=False, temperature=0.2),
    Approach(planned=True, temperature=0.6, focused=False),
    Approach(planned=False, temperature=0.8),
    Approach(planned=True, temperature=0.9),
)


class GuidedCall(Struct, frozen=True):
    tool: str
    arguments: Mapping[str, Any]


class Look(Struct, frozen=True):
    """Make calls that need no model."""

    calls: Sequence[GuidedCall]
    words: str = ""


class FindCommand(Struct, frozen=True):
    """Let the model write a command that finds out what the task asks."""


class AnswerInWords(Struct, frozen=True):
    """Let the model answer in words."""


class RenameAll(Struct, frozen=True):
    """Make the change without the model: it is a rename."""

    edits: Mapping[str, str | None]


class Try(Struct, frozen=True):
    """Let the model make the change, beginning with this approach."""

    approach: int
    error: str = ""


class Finish(Struct, frozen=True):
    words: str


Move: TypeAlias = Look | FindCommand | AnswerInWords | RenameAll | Try | Finish


def next_move(record: Record, tools: Collection[str]) -> Move:
    if not record.listed and LIST in tools:
        return Look([GuidedCall(LIST, {"path": ".", "recursive": True})])
    if record.attempts:
        return _after_attempt(record, record.attempts[-1])
    if calls := [*_searching(record, tools), *_first_runs(record, tools)]:
        return Look(calls)
    if not record.read and READ in tools and (paths := files_to_read(record)):
        return Look([GuidedCall(READ, {"files": [{"path": path} for path in paths]})])
    wants_answer = asks(record.task) or WRITE not in tools
    if RUN in tools and not record.runs and _wants_count(record, wants_answer=wants_answer):
        return FindCommand()
    if wants_answer:
        return AnswerInWords()
    rename = rename_in(record.task)
    originals = {path: record.original(path) or "" for path in record.files}
    edits = renamed(rename, originals) if rename else {}
    return RenameAll(edits) if edits and not edits.keys() & set(record.fixed) else Try(0)


def asks(task: str) -> bool:
    """Whether the task is a question."""
    if _HOW_TO.match(task):
        return True
    allowed = re.sub(r"(?:do not|don't|without|never)\s+\w+", "", task, flags=re.IGNORECASE)
    return bool(_ASKS.match(task)) and not _CHANGE.search(allowed)


def _wants_count(record: Record, *, wants_answer: bool) -> bool:
    """Models count badly; programs do not."""
    if not _COUNTS.search(record.task):
        return False
    return wants_answer or any(
        path.endswith(_DATA) for path in new_paths(record.task, record.paths)
    )


def _searching(record: Record, tools: Collection[str]) -> list[GuidedCall]:
    """Search a project that is too large to be read whole."""
    words = identifiers(record.task)
    large = len(readable(record.paths)) > SMALL_PROJECT
    if record.searched or not (large and words and SEARCH in tools):
        return []
    found = "|".join(re.escape(word) for word in words)
    return [GuidedCall(SEARCH, {"path": ".", "regex": found})]


def _first_runs(record: Record, tools: Collection[str]) -> list[GuidedCall]:
    """Run the checks before any change. Their output names relevant files."""
    if record.read or record.searched or record.runs or RUN not in tools:
        return []
    if asks(record.task):
        return [_run(command) for command in commands_in(record.task)]
    return [_run(command) for command in check_commands(record.task, {}, record.paths)]


def _run(command: str) -> GuidedCall:
    return GuidedCall(RUN, {"command": command, "timeout": CHECK_SECONDS})


def checks_after(record: Record, edits: Mapping[str, str | None]) -> list[GuidedCall]:
    """The calls that check an attempt. A check that cannot work here is left out."""
    files = {**record.files, **edits}
    there = {path: text for path, text in files.items() if text is not None}
    useless = {run.command for run in record.runs if is_unusable(run.output) or run.code == 127}
    commands = check_commands(record.task, there, [*record.paths, *there])
    wanted = [command for command in commands if command not in useless]
    examples = example_checks(record.task, there, record.files)
    return [_run(command) for command in [*wanted, *examples]]


def edit_calls(record: Record, edits: Mapping[str, str | None]) -> list[GuidedCall]:
    """The calls that restore the files of earlier attempts, write these, and delete those that
    are None. Files that are already so are left alone."""
    now = {path: record.original(path) for path in record.files}
    for attempt in record.attempts:
        now |= attempt.edits
    wanted = {**{path: record.original(path) for path in now}, **edits}
    changed = {path: text for path, text in wanted.items() if text != now.get(path)}
    calls = [
        GuidedCall(WRITE, {"path": path, "content": text})
        for path, text in changed.items()
        if text is not None
    ]
    if gone := [path for path, text in changed.items() if text is None]:
        lines = "\n".join(f"*** Delete File: {path}" for path in gone)
        calls.append(GuidedCall(PATCH, {"patch": f"*** Begin Patch\n{lines}\n*** End Patch"}))
    return calls


def _changed(record: Record) -> list[str]:
    """The files that are not as they were before the first attempt."""
    now = {path: text for attempt in record.attempts for path, text in attempt.edits.items()}
    return sorted(path for path, text in now.items() if text != record.original(path))


def problem_of(run: CommandRun, task: str) -> str:
    """Why a check does not pass, as one line; empty if it passes."""
    if run.code != 0:
        return failure(run.command, run.output)
    wanted = expected_output(task, run.command)
    if "".join(wanted.split()) in "".join(run.output.split()):
        return ""
    got = " ".join(run.output.split())
    return f"`{run.command}` printed {got[:80] or 'nothing'}."


def _after_attempt(record: Record, last: Attempt) -> Move:
    if last.lost and not last.refusal:
        return _once_more(record, last)
    if any(run.lost for run in last.checks):
        return Look([_run(run.command) for run in last.checks])
    if last.restores:
        return Finish(_gave_up(record))
    if last.refusal:
        calls = edit_calls(record, {})
        return Look(calls, f"{_NOT_MADE}. {RESTORING}") if calls else Finish(f"{_NOT_MADE}.")
    failed = [run for run in last.checks if problem_of(run, record.task)]
    if not failed:
        return Finish(_done(last))
    error = problem_of(failed[0], record.task)
    if last.number < len(APPROACHES):
        return Try(last.number, error)
    if restoring := edit_calls(record, {}):
        return Look(restoring, f"None of the attempts passed the checks. {RESTORING}")
    return Finish(_gave_up(record))


def _once_more(record: Record, last: Attempt) -> Move:
    """Make the edits of an attempt that a kill interrupted."""
    if last.restores:
        return Look(edit_calls(record, {}), RESTORING)
    edits = {**last.edits, **last.lost}
    checks = checks_after(record, edits) if last.checks else []
    title = f"Attempt {last.number}" if last.number else "Renaming"
    return Look([*edit_calls(record, edits), *checks], f"{title} again: it was interrupted.")


def _done(attempt: Attempt) -> str:
    changed = ", ".join(attempt.edits)
    if not attempt.checks:
        return f"Changed {changed}. There was no check to run."
    return f"Changed {changed}. Passed: {', '.join(run.command for run in attempt.checks)}"


def _gave_up(record: Record) -> str:
    runs = [run for attempt in record.attempts for run in attempt.checks]
    problems = [problem_of(run, record.task) for run in runs]
    why = next((f" The last check: {problem}" for problem in reversed(problems) if problem), "")
    left = ", ".join(_changed(record))
    files = f"these files could not be restored: {left}" if left else "the files are as they were"
    return f"I could not do this; {files}.{why}"
