"""The environment details: the state of the workspace and the session, sent to the model.

They stand at the end of a request and stay in the conversation, so that the next request begins
with the same bytes and the provider's cache stays valid. For the same reason a section is sent
only if it changed. The cost is left out, because it changes with every request.
"""

import os
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
from rookery.first_use import lazy_pattern

_BRANCH = lazy_pattern(r"ref: refs/heads/(?P<name>[^\s\x00-\x1f~^:?*\[\\]{1,200})")
_COMMIT = lazy_pattern(r"[0-9a-f]{40,64}")
_GITDIR = lazy_pattern(r"gitdir: (?P<folder>[^\n\x00]{1,4000})")
_MOST_BYTES = 4096

MODIFIED = "Changed by others since you saw them (read again before editing)"
FILES = "Files in the workspace"
TIME = "Current time"
TODOS = "Todo list"
_OCCASIONAL = (MODIFIED, FILES, TIME, TODOS)
"""Sections that are sent only sometimes: a missing one does not mean that it ended."""
_NONE = "none"

_Mark: TypeAlias = tuple[int, ...] | None
_STATUS = {"pending": "Pending", "in_progress": "In progress", "completed": "Completed"}
_NO_LIST = (
    "There is no todo list yet. Make one with update_todo_list if the work has several steps."
)
PLAN_FIRST = (
    "The user wants a plan before anything is changed: only read, then submit the plan with "
    "present_plan."
)
_KEEP_LIST = "Keep it up to date with update_todo_list as the work goes on."


class ModifiedFiles:
    """Finds files that changed since the model saw them. A file is hashed only if its timestamps
    or size changed, and each change is reported once."""

    def __init__(self, root: Path, files: Files) -> None:
        self._root = root
        self._files = files
        self._checked: dict[str, tuple[str, _Mark]] = {}
        self._reported: dict[str, tuple[str, str]] = {}
        self._unsent: set[str] = set()

    async def since(self, known: Mapping[str, str], *, sent: bool) -> list[str]:
        """Return the changed files. `known` is the hash of each file as the model last saw it;
        `sent` says whether the files returned before were sent to the model."""
        if sent:
            self._unsent.clear()
        for path, sha in known.items():
            state = sha, _mark(self._root / path)
            if sha and self._checked.get(path) != state:
                self._checked[path] = state
                if await self._differs(path, sha):
                    self._unsent.add(path)
        return sorted(self._unsent)

    async def _differs(self, path: str, sha: str) -> bool:
        now = ""
        with suppress(ToolError):
            now = await self._files.sha(path)
        if now == sha or self._reported.get(path) == (sha, now):
            return False
        self._reported[path] = sha, now
        return True


class EnvironmentDetails(Struct, frozen=True, kw_only=True):
    """The current state; empty fields are left out."""

    mode: str
    mode_name: str = ""
    modified: Sequence[str] = ()
    """Files that others changed since the model saw them."""
    running: Mapping[str, str] = {}
    """Background commands by call."""
    time: str = ""
    git: str = ""
    files: str = ""
    """A listing of the workspace."""
    intent: str = ""
    """The active intent, if governance requires one."""
    plan: str = ""
    """The plan that the user accepted."""
    planning: bool = False
    """Whether the user wants a plan before anything is changed."""
    todos: Sequence[Todo] | None = None
    rules: Mapping[str, str] = {}
    """Rules for the files that the model has seen, by title."""


def format_time(now: int) -> str:
    """Format a time in milliseconds to the minute: in UTC, with the user's time zone."""
    at = datetime.fromtimestamp(now / 1000, UTC).replace(second=0, microsecond=0)
    local = at.astimezone()
    offset = local.strftime("%z")
    named = local.tzname() or "UTC"
    away = f"UTC{offset[:3]}:{offset[3:]}"
    return f"{at.strftime('%Y-%m-%dT%H:%MZ')} (the user's time zone: {named}, {away})"


def git_branch(root: Path) -> str:
    """Describe the branch a folder is on; empty if it is not a repository. It does not run git,
    which would read configuration that may not be trusted. A repository outside the folder is
    read only if it lists the folder as its worktree."""
    folder = root / ".git"
    if not os.path.lexists(folder):
        return ""
    if found := _GITDIR.match(_read_start(folder)):
        folder = root / found["folder"].strip()
    folder, root = _real(folder), _real(root)
    if not folder.is_relative_to(root) and not _is_worktree(folder, root):
        return ""
    head = _read_start(folder / "HEAD").strip()
    if branch := _BRANCH.fullmatch(head):
        return f"branch {branch['name']}"
    return f"no branch, at {head[:12]}" if _COMMIT.fullmatch(head) else ""


def changed_sections(
    details: EnvironmentDetails, already_sent: Mapping[str, str]
) -> dict[str, str]:
    """The sections that differ from those the model has, by title. Modified files are always sent,
    because the same file can change again."""
    sections = dict(_sections(details))
    gone = [title for title in already_sent if title not in sections and title not in _OCCASIONAL]
    sections |= dict.fromkeys(gone, _NONE)
    known = {title: text for title, text in already_sent.items() if title != MODIFIED}
    return {title: text for title, text in sections.items() if known.get(title) != text}


def _is_worktree(folder: Path, root: Path) -> bool:
    """Whether `folder` is the git folder that a repository keeps for its worktree `root`."""
    repository = folder.parent.parent
    if (folder.parent.name, repository.name) != ("worktrees", ".git"):
        return False
    common, link = (_read_start(folder / name).strip() for name in ("commondir", "gitdir"))
    return (
        bool(common and link)
        and _real(folder / common) == repository
        and _real(folder / link) == root / ".git"
        and bool(_read_start(repository / "HEAD"))
        and all((repository / name).is_dir() for name in ("objects", "refs"))
    )


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _read_start(path: Path) -> str:
    """Read the start of a regular file; empty if there is none. Symlinks are not followed."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (OSError, ValueError):
        return ""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        return os.read(descriptor, _MOST_BYTES).decode("utf-8", "replace")
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


def _sections(details: EnvironmentDetails) -> Iterator[tuple[str, str]]:
    if details.modified:
        yield MODIFIED, "\n".join(details.modified)
    if details.running:
        rows = (f"- {call_id}: {command}" for call_id, command in details.running.items())
        yield "Running commands", "\n".join(rows)
    if details.time:
        yield TIME, details.time
    if details.git:
        yield "Git", details.git
    yield "Current mode", _mode(details)
    if details.files:
        yield FILES, details.files
    yield from details.rules.items()
    if details.intent:
        yield "Intent", details.intent
    if details.planning:
        yield "Plan first", PLAN_FIRST
    if details.plan:
        yield "Plan that the user has accepted", quoted("plan", details.plan)
    if details.todos is not None:
        yield TODOS, _list(details.todos)


def _mode(details: EnvironmentDetails) -> str:
    facts = {"slug": details.mode, "name": details.mode_name}
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
