"""Which commit work began with, without asking git: it is looked up before every change."""

import re
from pathlib import Path

_NAME = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_LARGEST = 4 * 1024 * 1024


def git_base(root: Path) -> dict[str, str] | None:
    """The commit that is checked out; None where there is no repository, or none can be told."""
    for folder in (root, *root.parents):
        git = folder / ".git"
        if git.exists():
            revision = _revision(git)
            return {"type": "git", "revision": revision} if _NAME.fullmatch(revision) else None
    return None


def _revision(git: Path) -> str:
    try:
        if git.is_file():  # a worktree: the file says where its folder is
            git = git.parent / git.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
        head = (git / "HEAD").read_text(encoding="utf-8").strip()
        if not head.startswith("ref:"):
            return head
        name = head.removeprefix("ref:").strip()
        common = git / "commondir"
        shared = git / common.read_text(encoding="utf-8").strip() if common.exists() else git
        for place in (git, shared):
            if (place / name).is_file():
                return (place / name).read_text(encoding="utf-8").strip()
        return _packed(shared / "packed-refs", name)
    except (OSError, UnicodeDecodeError):
        return ""


def _packed(path: Path, name: str) -> str:
    if not path.is_file() or path.stat().st_size > _LARGEST:
        return ""
    lines = path.read_text(encoding="utf-8").splitlines()
    return next((line.split()[0] for line in lines if line.endswith(f" {name}")), "")
