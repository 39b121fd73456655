"""What the end of every request tells: looked up here, put into words in
`prompting.environment_details`.
"""

import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from rookery.engine.ports.files import Files
from rookery.errors import ToolError

_BRANCH = re.compile(r"ref: refs/heads/(?P<name>[^\s\x00-\x1f~^:?*\[\\]{1,200})")
_COMMIT = re.compile(r"[0-9a-f]{40,64}")
_ELSEWHERE = re.compile(r"gitdir: (?P<folder>[^\n\x00]{1,4000})")
_MOST = 4096

_Mark: TypeAlias = tuple[int, ...] | None


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
