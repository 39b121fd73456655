"""What would be lost with a checkout, and what of it is nobody's loss."""

import os
from collections.abc import Callable, Collection
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from rookery.manager.worktrees.contents import (
    MODULE,
    Contents,
    changed_files,
    contents_at,
    contents_of,
    id_of,
    index_of,
    tree_of,
)
from rookery.manager.worktrees.included_files import included_files
from rookery.manager.worktrees.keep import Uncommitted, keep, lone_commits
from rookery.manager.worktrees.worktree_git import Git, InTheWay
from rookery.manager.worktrees.worktree_project import Project
from rookery.manager.worktrees.worktree_values import Code, Keep

_IGNORED = "!! "


class Survey(Struct, frozen=True, kw_only=True):
    work: Uncommitted
    left_out: tuple[str, ...]
    """Folders that git ignores as a whole, such as those of installed packages."""
    contents: Contents


def survey(project: Project, git: Git) -> Survey:
    """Of a worktree, whose files may have been moved. Raises `InTheWay` if something in it can
    neither be kept nor be done without."""
    contents = contents_of(git.folder)
    if contents.nested:
        raise InTheWay(
            Code.NOT_KEPT,
            f"{contents.nested[0]} is a repository of its own; move it out of the worktree first.",
            contents.nested,
        )
    if contents.unreadable:
        raise InTheWay(
            Code.NOT_KEPT,
            f"{contents.unreadable[0]} cannot be read; give yourself access to it first.",
            contents.unreadable,
        )
    ignored = _ignored(git)
    folders = tuple(path for path in ignored if path.endswith("/"))
    wanted = _wanted(project, git, ignored)
    work = uncommitted(project, git, contents, wanted)
    return Survey(work=work, left_out=folders, contents=contents)


def uncommitted(
    project: Project, git: Git, contents: Contents, wanted: Callable[[str], bool]
) -> Uncommitted:
    head = git.commit("HEAD")
    committed = tree_of(git, head)
    index = index_of(git)
    algorithm = project.object_format
    return Uncommitted(
        head=head,
        committed=committed,
        changed=changed_files(git.folder, contents, committed, wanted, algorithm),
        gone=tuple(
            path
            for path, held in committed.items()
            if path not in contents.files and held.mode != MODULE
        ),
        staged=index.pop(0, {}) if index else committed,
        conflicts=index,
        commits=lone_commits(git),
    )


def without_files(project: Project, git: Git) -> Uncommitted:
    """Of a worktree whose folder is gone: what git still has of it."""
    none = Contents(files={}, nested=(), unreadable=())
    found = uncommitted(project, git, none, lambda _: False)
    return replace(found, changed={}, gone=())


def keep_files(
    project: Project,
    paths: Collection[str],
    about: str,
    *,
    git: Git | None = None,
    name: str = "project",
) -> Keep | None:
    """Keep files that are about to be written, if they are in no commit as they are: of a
    checkout, usually the project itself."""
    git = git or project.git
    found = uncommitted(project, git, contents_at(git.folder, paths), {*paths}.__contains__)
    others = {path: held for path, held in found.committed.items() if path not in paths}
    work = replace(
        found,
        gone=tuple(path for path in found.gone if path in paths),
        staged=others | {path: held for path, held in found.staged.items() if path in paths},
        commits=(),
    )
    return keep(git, name, about, work) if work else None


def _ignored(git: Git) -> list[str]:
    words = ("--porcelain", "-z", "--no-renames", "--ignored=matching", "--untracked-files=all")
    lines = git.names("status", *words)
    return [line.removeprefix(_IGNORED) for line in lines if line.startswith(_IGNORED)]


def _wanted(project: Project, git: Git, ignored: Collection[str]) -> Callable[[str], bool]:
    """Whether a file that is in no commit is to be kept: not in folders that are ignored as a
    whole, unless it was brought there; and not if the project has the very same file."""
    folders = tuple(path for path in ignored if path.endswith("/"))
    included = {*included_files(project, git)}
    single = {path for path in ignored if not path.endswith("/")} | included

    def wanted(path: str) -> bool:
        if path.startswith(folders) and path not in included:
            return False
        return path not in single or not _same(project, git.folder, path)

    return wanted


def _same(project: Project, folder: Path, path: str) -> bool:
    mine, other = folder / path, project.folder / path
    if mine.is_symlink() or other.is_symlink() or not other.is_file() or not mine.is_file():
        return False
    if any((project.folder / parent).is_symlink() for parent in Path(path).parents):
        return False
    if os.stat(mine).st_size != os.stat(other).st_size:
        return False
    ids = {id_of(each, "", project.object_format) for each in (mine, other)}
    return len(ids) == 1
