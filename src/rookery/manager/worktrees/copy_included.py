"""Giving a new worktree the files that git does not bring: copies of the project's own."""

import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from rookery.manager.worktrees.contents import open_plain
from rookery.manager.worktrees.included_files import included_files
from rookery.manager.worktrees.worktree_project import Project
from rookery.manager.worktrees.worktree_state import git_of
from rookery.manager.worktrees.worktree_values import Copied, Worktree

_CHUNK = 1024 * 1024


def copy_included(
    project: Project, worktree: Worktree, progress: Callable[[int, int], None]
) -> Copied:
    """Nothing that is there is overwritten. `progress` hears how many of how many are done."""
    target = git_of(project, worktree).folder
    paths = included_files(project, project.git)
    copied: list[str] = []
    skipped: list[str] = []
    for at, path in enumerate(paths, 1):
        (copied if _copied(project.folder / path, target, path) else skipped).append(path)
        progress(at, len(paths))
    return Copied(paths=tuple(copied), skipped=tuple(skipped))


def _copied(source: Path, root: Path, path: str) -> bool:
    if not _made_way(root, path):
        return False
    try:
        opened = open_plain(source)
    except OSError:
        return False  # a link, or nothing that we may read
    with opened as file:
        there = os.fstat(file.fileno())
        return stat.S_ISREG(there.st_mode) and _written(file, root / path, there.st_mode & 0o777)


def _written(file: BinaryIO, target: Path, mode: int) -> bool:
    unfinished = target.with_name(f".copy-{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        with open(os.open(unfinished, flags, mode), "wb") as to:
            while data := file.read(_CHUNK):
                to.write(data)
        os.link(unfinished, target)  # unlike a rename it never replaces what is there
    except FileExistsError:
        return False
    finally:
        unfinished.unlink(missing_ok=True)
    return True


def _made_way(root: Path, path: str) -> bool:
    """Make the folders above a file; False if something else is in their place, such as a link
    that leads out of the worktree."""
    at = root
    for name in Path(path).parts[:-1]:
        at = at / name
        if at.is_symlink() or (at.exists() and not at.is_dir()):
            return False
        at.mkdir(exist_ok=True)
    return True
