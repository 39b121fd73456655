"""What changes from request to request, looked up and told at the very end of one.

Whatever stands before it is the same as in the request before, so that a provider's cache holds.
"""

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from rookery.core.facts import Todo
from rookery.core.instructions import quoted
from rookery.engine.ports.workspace import Files
from rookery.errors import ToolError

_BRANCH = re.compile(r"ref: refs/heads/(?P<name>[^\s\x00-\x1f~^:?*\[\\]{1,200})")
_COMMIT = re.compile(r"[0-9a-f]{40,64}")
_ELSEWHERE = re.compile(r"gitdir: (?P<folder>[^\n\x00]{1,4000})")
_MOST = 4096

_Mark: TypeAlias = tuple[int, ...] | None
_STATUS = {"pending": "Pending", "in_progress": "In progress", "completed": "Completed"}
_NO_LIST = (
    "There is no todo list yet. Make one with update_todo_list if the work has several steps."
)
_KEEP_LIST = "Keep it up to date with update_todo_list as the work goes on."


class ModifiedFiles:
    """Tells which files that the model knows were changed by somebody else. A file is hashed
    only when it looks different from the last time, and told once for each change."""

    def __init__(self, root: Path, files: Files) -> None:
        self._root = root
        self._files = files
        self._looked: dict[str, tuple[str, _Mark]] = {}
        self._told: dict[str, tuple[str, str]] = {}

    async def since(self, known: Mapping[str, str]) -> list[str]:
        """`known` is the hash of each file as the model last knew it."""
        changed: list[str] = []
        for path, sha in known.items():
            state = sha, _mark(self._root / path)
            if sha and self._looked.get(path) != state:
                self._looked[path] = state
                if await self._differs(path, sha):
                    changed.append(path)
        return sorted(changed)

    async def _differs(self, path: str, sha: str) -> bool:
        now = ""
        with suppress(ToolError):
            now = await self._files.sha(path)
        if now == sha or self._told.get(path) == (sha, now):
            return False
        self._told[path] = sha, now
        return True


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


def moment(now: int, zone: str = "") -> str:
    """A moment, given in milliseconds, to the minute: in UTC, and what the user's clock shows."""
    at = datetime.fromtimestamp(now / 1000, UTC).replace(second=0, microsecond=0)
    local = at.astimezone()
    offset = local.strftime("%z")
    named = zone or local.tzname() or "UTC"
    away = f"UTC{offset[:3]}:{offset[3:]}"
    return f"{at.strftime('%Y-%m-%dT%H:%MZ')} (the user's time zone: {named}, {away})"


def git_branch(root: Path) -> str:
    """The branch that a folder is on, in words; nothing if it is no repository. No git is run:
    that would read a configuration nobody may have agreed to. Nor is a repository elsewhere read
    just because the folder names it: it must name the folder as its worktree."""
    folder = root / ".git"
    if found := _ELSEWHERE.match(_beginning(folder)):
        folder = root / found["folder"].strip()
    folder, root = _real(folder), _real(root)
    if not folder.is_relative_to(root) and not _is_worktree(folder, root):
        return ""
    head = _beginning(folder / "HEAD").strip()
    if branch := _BRANCH.fullmatch(head):
        return f"branch {branch['name']}"
    return f"no branch, at {head[:12]}" if _COMMIT.fullmatch(head) else ""


def environment_details(details: EnvironmentDetails) -> str:
    return quoted("environment_details", "\n\n".join(_sections(details)))


def _is_worktree(folder: Path, root: Path) -> bool:
    """Whether a repository keeps `folder` for its worktree `root`."""
    repository = folder.parent.parent
    if (folder.parent.name, repository.name) != ("worktrees", ".git"):
        return False
    common, link = (_beginning(folder / name).strip() for name in ("commondir", "gitdir"))
    return (
        bool(common and link)
        and _real(folder / common) == repository
        and _real(folder / link) == root / ".git"
        and bool(_beginning(repository / "HEAD"))
        and all((repository / name).is_dir() for name in ("objects", "refs"))
    )


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _beginning(path: Path) -> str:
    """What a small regular file begins with; nothing if there is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (OSError, ValueError):
        return ""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        return os.read(descriptor, _MOST).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def _mark(path: Path) -> _Mark:
    try:
        there = path.stat()
    except OSError:
        return None
    return (there.st_mtime_ns, there.st_ctime_ns, there.st_size, there.st_ino)


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
