"""What changes from request to request, told at the very end of one.

Whatever stands before it is the same as in the request before, so that a provider's cache holds.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from rookery.core.facts import Todo
from rookery.core.instructions import quoted

_STATUS = {"pending": "Pending", "in_progress": "In progress", "completed": "Completed"}
_NO_LIST = (
    "There is no todo list yet. Make one with update_todo_list if the work has several steps."
)
_KEEP_LIST = "Keep it up to date with update_todo_list as the work goes on."


class CommandNote(Struct, frozen=True, kw_only=True):
    """A command behind the conversation; `output` is what was not yet told of it."""

    id: str
    command: str
    folder: str = ""
    output: str = ""


class EnvironmentDetails(Struct, frozen=True, kw_only=True):
    """Only what is known is told. `time` and `git` come as `prompting.environment`
    gives them; `files` is a listing of the workspace, for the first turn. `todos` is None where
    there are to be none."""

    mode: str
    mode_name: str = ""
    model: str = ""
    modified: Sequence[str] = ()
    """Files that somebody else has changed since the model saw them."""
    running: Sequence[CommandNote] = ()
    finished: Sequence[CommandNote] = ()
    time: str = ""
    git: str = ""
    cost: float | None = None
    files: str = ""
    intent: str = ""
    """What the changes are made for, where that must be said."""
    plan: str = ""
    """What the user has accepted as the plan."""
    todos: Sequence[Todo] | None = None


def environment_details(details: EnvironmentDetails) -> str:
    return quoted("environment_details", "\n\n".join(_sections(details)))


def _sections(details: EnvironmentDetails) -> Iterator[str]:
    if details.modified:
        rows = "\n".join(details.modified)
        yield f"# Changed by others since you saw them (read again before editing)\n{rows}"
    yield from _commands("Running commands", details.running)
    yield from _commands("Ended commands with new output", details.finished)
    if details.time:
        yield f"# Current time\n{details.time}"
    if details.git:
        yield f"# Git\n{details.git}"
    if details.cost is not None:
        yield f"# Cost so far\n${details.cost:.2f}"
    yield f"# Current mode\n{_mode(details)}"
    if details.files:
        yield f"# Files in the workspace\n{details.files}"
    if details.intent:
        yield f"# Intent\n{details.intent}"
    if details.plan:
        yield "# Plan that the user has accepted\n" + quoted("plan", details.plan)
    if details.todos is not None:
        yield f"# Todo list\n{_list(details.todos)}"


def _commands(title: str, notes: Sequence[CommandNote]) -> Iterator[str]:
    if notes:
        yield "\n".join([f"# {title}", *(row for note in notes for row in _command(note))])


def _command(note: CommandNote) -> Iterator[str]:
    where = f" in {note.folder}" if note.folder else ""
    yield f"- {note.id}{where}: {note.command}"
    if note.output.strip():
        yield quoted("output", note.output)


def _mode(details: EnvironmentDetails) -> str:
    facts = {"slug": details.mode, "name": details.mode_name, "model": details.model}
    return "\n".join(f"<{name}>{fact}</{name}>" for name, fact in facts.items() if fact)


def _list(todos: Sequence[Todo]) -> str:
    if not todos:
        return _NO_LIST
    rows = [
        f"| {number} | {_cell(todo.content)} | {_STATUS[todo.status]} |"
        for number, todo in enumerate(todos, start=1)
    ]
    return "\n".join(["| # | What | Status |", "|---|---|---|", *rows, "", _KEEP_LIST])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
