"""Merging a worktree's branch into its parent, if that can be done without a question."""

import os

from rookery import faults
from rookery.manager.worktrees.tree_merge import Conflict, merged_tree
from rookery.manager.worktrees.uncommitted import keep_files
from rookery.manager.worktrees.worktree_git import Git, GitFailed, InTheWay
from rookery.manager.worktrees.worktree_project import Project
from rookery.manager.worktrees.worktree_state import git_of, state_of
from rookery.manager.worktrees.worktree_values import Code, Merged, State, Worktree

_NO_OPTIONS = "NO_MERGE_OPTIONS"
_STATUS = ("status", "--porcelain", "-z", "--no-renames", "--untracked-files=")


def merge(project: Project, worktree: Worktree) -> Merged:
    """Raises `InTheWay` with what is to be done instead; then nothing was changed."""
    with project.alone():
        tip = project.git.commit(f"refs/heads/{worktree.branch}")
        if not tip:
            raise InTheWay(Code.BRANCH_NOT_FOUND, f"There is no branch {worktree.branch} any more.")
        if state_of(project, worktree) is State.READY:
            _demand_committed(git_of(project, worktree), worktree)
        _demand_parent(project, worktree)
        _demand_clean(project)
        paths = _try(project, worktree, tip)
        kept = keep_files(project, paths, f"Files before {worktree.branch} was merged")
        faults.kp("worktree.merging")
        _merge(project.git, worktree, tip)
        faults.kp("worktree.merged")
        return Merged(commit=project.git.commit("HEAD"), into=worktree.parent_branch, keep=kept)


def _demand_committed(git: Git, worktree: Worktree) -> None:
    changed = [line[3:] for line in git.names(*_STATUS[:-1], f"{_STATUS[-1]}all")]
    if changed:
        raise InTheWay(
            Code.UNCOMMITTED,
            f"{worktree.branch} has changes that are not committed; finish it first.",
            changed,
        )


def _demand_parent(project: Project, worktree: Worktree) -> None:
    on = project.current_branch
    if not worktree.parent_branch or on != worktree.parent_branch:
        parent = worktree.parent_branch or "the branch it belongs to"
        raise InTheWay(
            Code.CHANGED,
            f"The project is on {on or 'no branch'}; check out {parent} there, then run "
            f"`git merge {worktree.branch}`.",
        )


def _demand_clean(project: Project) -> None:
    changed = [line[3:] for line in project.git.names(*_STATUS[:-1], f"{_STATUS[-1]}no")]
    if changed:
        raise InTheWay(
            Code.UNCOMMITTED,
            "The project has changes that are not committed; commit them, then merge.",
            changed,
        )


def _try(project: Project, worktree: Worktree, tip: str) -> list[str]:
    """The files that a merge would write, by a dry run that writes none. Git would overwrite
    ignored files as well, which are in no commit, and those it was told to overlook."""
    git = project.git
    if git.succeeds("merge-base", "--is-ancestor", tip, "HEAD"):
        raise InTheWay(
            Code.NOTHING_TO_DO, f"{worktree.parent_branch} has all of {worktree.branch} already."
        )
    try:
        tree = merged_tree(git, "HEAD", tip)
    except Conflict as error:
        raise InTheWay(
            Code.CONFLICT,
            f"{worktree.branch} and {worktree.parent_branch} are in conflict over "
            f"{', '.join(error.paths)}; merge the parent in the worktree first.",
            error.paths,
        ) from error
    new = git.names("diff", "--name-only", "--no-renames", "--diff-filter=A", "-z", "HEAD", tree)
    there = [path for path in new if _is_there(project, path)]
    if there:
        raise InTheWay(
            Code.PATH_EXISTS,
            f"{there[0]} would be overwritten and is in no commit; move it away first.",
            there,
        )
    return git.names("diff", "--name-only", "--no-renames", "-z", "HEAD", tree)


def _is_there(project: Project, path: str) -> bool:
    """A file in the place of one of its folders counts too."""
    at = project.folder
    for name in path.split("/"):
        at = at / name
        if os.path.lexists(at) and (at.is_symlink() or not at.is_dir()):
            return True
    return os.path.lexists(at)


def _merge(git: Git, worktree: Worktree, tip: str) -> None:
    said = f"Merge branch '{worktree.branch}'"
    words = ("--no-edit", "--no-verify", "--no-gpg-sign", "--no-stat", "--no-overwrite-ignore")
    # with those that are set for a branch it may be another merge than the one that was tried
    plain = f"--config-env=branch.{worktree.parent_branch}.mergeOptions={_NO_OPTIONS}"
    try:
        told = ("merge", "-q", *words, "-m", said, tip)
        git.run(plain, *told, variables={_NO_OPTIONS: ""})
    except GitFailed as error:
        if (git.git_folder / "MERGE_HEAD").exists():
            git.ask("merge", "--abort")
        raise InTheWay(
            error.obstacle.code, f"{worktree.branch} was not merged: {error.reason.rstrip(':')}."
        ) from error
