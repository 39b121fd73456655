"""A worktree made again from what was kept of it."""

import os
from pathlib import Path

from msgspec.structs import replace

from rookery.manager.worktrees.contents import LINK, MODULE, PROGRAM, Stored, tree_of
from rookery.manager.worktrees.create import check_out, new_worktree, noted
from rookery.manager.worktrees.free_names import free_name
from rookery.manager.worktrees.keep import STAGED
from rookery.manager.worktrees.names import folder_name
from rookery.manager.worktrees.worktree_git import Git, InTheWay
from rookery.manager.worktrees.worktree_project import Project
from rookery.manager.worktrees.worktree_state import git_of
from rookery.manager.worktrees.worktree_values import KEEP_REFS, Code, Created, Worktree


def bring_back(project: Project, ref: str, *, branch: str, label: str = "") -> Created:
    """A new worktree with a new branch: files and index as they were. The reference stays."""
    with project.alone():
        kept = project.git.commit(ref) if ref.startswith(KEEP_REFS) else ""
        if not kept:
            raise InTheWay(Code.BRANCH_NOT_FOUND, f"Nothing is kept as {ref}.")
        parents = project.git.said("rev-list", "--parents", "-n", "1", kept).split()[1:]
        base = parents[0] if parents else kept
        project.make_place()
        name = free_name(project, branch)
        folder = project.place / folder_name(name)
        check_out(project, folder, name, commit=base)
        worktree = replace(
            new_worktree(project, folder, name),
            label=label,
            parent_branch=project.current_branch,
            branch_owned=True,
        )
        noted(project, worktree)
        _fill(project, worktree, kept, base)
        _stage(project, worktree, parents[1:])
        return Created(worktree=worktree, base=base)


def _fill(project: Project, worktree: Worktree, kept: str, base: str) -> None:
    git = git_of(project, worktree)
    wanted, there = tree_of(git, kept), tree_of(git, base)
    for path in there.keys() - wanted.keys():
        (git.folder / path).unlink(missing_ok=True)
        _drop_empty((git.folder / path).parent, git.folder)
    for path, held in wanted.items():
        if there.get(path) != held and held.mode != MODULE:
            _write(git, git.folder / path, held)


def _write(git: Git, place: Path, held: Stored) -> None:
    """The bytes as they were: no conversion has a say."""
    data = git.run("cat-file", "blob", held.id).out
    place.unlink(missing_ok=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    if held.mode == LINK:
        place.symlink_to(os.fsdecode(data))
        return
    place.write_bytes(data)
    if held.mode == PROGRAM:
        place.chmod(0o755)


def _drop_empty(folder: Path, root: Path) -> None:
    while folder != root and folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent


def _stage(project: Project, worktree: Worktree, others: list[str]) -> None:
    git = git_of(project, worktree)
    said = [(each, git.said("log", "-1", "--format=%s", each)) for each in others[:1]]
    for commit, about in said:
        if about == STAGED:
            git.run("read-tree", commit)
