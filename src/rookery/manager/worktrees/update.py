"""Brings the commits of its parent branch into a worktree, by a merge or a rebase.

Everything must be committed before. A merge is tried with `git merge-tree` first; a rebase that
meets a conflict is undone, and the commits from before a rebase stay under a reference. So after a
conflict the worktree is as it was.
"""

import secrets
import time

from rookery.manager.worktrees.create import folder_name
from rookery.manager.worktrees.merge import (
    Conflict,
    demand_committed,
    demand_no_conflict,
    demand_no_filter,
    merge_commit,
    merged_tree,
)
from rookery.platform.worktree_git import Git, GitCommandFailed, InTheWay
from rookery.platform.worktree_project import Project, demand_branch, git_of
from rookery.platform.worktree_values import KEEP_REFS, Code, Keep, Merged, Worktree


def update(project: Project, worktree: Worktree, *, rebase: bool = False) -> Merged:
    """Raises `InTheWay`, without changes, if that is not possible."""
    with project.alone():
        git = git_of(project, worktree)
        demand_branch(git, worktree)
        demand_no_conflict(git)
        demand_committed(git, worktree)
        tip = _parent_tip(project, git, worktree)
        kept = None
        if rebase:
            kept = _keep_head(git, worktree)
            _rebase(git, worktree, tip)
        else:
            _try_merge(git, worktree, tip)
            merge_commit(git, worktree.parent_branch, tip, into=worktree.branch)
        return Merged(commit=git.commit("HEAD"), into=worktree.branch, keep=kept)


def _parent_tip(project: Project, git: Git, worktree: Worktree) -> str:
    parent = worktree.parent_branch
    tip = project.git.commit(f"refs/heads/{parent}") if parent else ""
    if not tip:
        raise InTheWay(
            Code.BRANCH_NOT_FOUND,
            f"The base branch of {worktree.branch} is unknown or was removed.",
        )
    if git.succeeds("merge-base", "--is-ancestor", tip, "HEAD"):
        raise InTheWay(Code.NOTHING_TO_DO, f"{worktree.branch} already has all of {parent}.")
    return tip


def _try_merge(git: Git, worktree: Worktree, tip: str) -> None:
    try:
        tree = merged_tree(git, "HEAD", tip)
    except Conflict as error:
        raise _conflict(worktree, error.paths) from error
    demand_no_filter(git, git.names("diff", "--name-only", "--no-renames", "-z", "HEAD", tree))


def _rebase(git: Git, worktree: Worktree, tip: str) -> None:
    changed = git.names("diff", "--name-only", "--no-renames", "-z", "HEAD", tip)
    demand_no_filter(git, changed)
    try:
        git.run("rebase", "-q", "--no-verify", "--no-gpg-sign", "--no-autostash", tip)
    except GitCommandFailed as error:
        paths = git.names("diff", "--name-only", "--diff-filter=U", "-z")
        git.ask("rebase", "--abort")
        if paths:
            raise _conflict(worktree, paths) from error
        raise InTheWay(
            error.obstacle.code, f"{worktree.branch} was not rebased: {error.reason.rstrip(':')}."
        ) from error


def _conflict(worktree: Worktree, paths: "list[str] | tuple[str, ...]") -> InTheWay:
    return InTheWay(
        Code.CONFLICT,
        f"{worktree.parent_branch} and {worktree.branch} have a conflict in {', '.join(paths)}. "
        "Nothing was changed. Ask the agent to merge it, or do so in a terminal.",
        paths,
    )


def _keep_head(git: Git, worktree: Worktree) -> Keep:
    """Keep the commits that a rebase replaces."""
    head = git.commit("HEAD")
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    ref = f"{KEEP_REFS}{folder_name(worktree.branch)}-{stamp}-{secrets.token_hex(3)}"
    git.run("update-ref", ref, head)
    return Keep(ref=ref, commit=head, about=f"Commits of {worktree.branch} before the rebase")
