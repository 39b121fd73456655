"""Commits a worktree's changes to its branch, merges the branch into its parent, and brings the
commits of the parent into the worktree.

A merge is tried with `git merge-tree` first, which touches no checkout. It is done only without
conflicts and if no uncommitted file would be overwritten. A worktree is updated only if everything
in it is committed; a rebase that meets a conflict is undone, and the commits from before a rebase
stay under a reference.
"""

import os
import secrets
import time
from collections.abc import Sequence

from msgspec.structs import replace

from rookery import faults
from rookery.manager.worktrees.checkout_files import contents_of, index_of
from rookery.manager.worktrees.create import folder_name
from rookery.manager.worktrees.keep import keep, keep_files, uncommitted
from rookery.platform.worktree_git import Git, GitCommandFailed, InTheWay
from rookery.platform.worktree_project import Project, demand_branch, git_of, state_of
from rookery.platform.worktree_values import (
    KEEP_REFS,
    Code,
    Finished,
    KeptWork,
    Worktree,
    WorktreeState,
)

_CONFLICT = 1

_NO_OPTIONS = "NO_MERGE_OPTIONS"
_STATUS = ("status", "--porcelain", "-z", "--no-renames")


class Conflict(InTheWay):
    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__(Code.CONFLICT, f"Conflict in {', '.join(paths)}.", paths)


def stage(project: Project, worktree: Worktree) -> Finished:
    """Stage everything for a later commit. Staged versions that differ from the files are saved
    first. The result's `commit` is empty."""
    with project.alone():
        return _stage(project, git_of(project, worktree), worktree)


def finish(project: Project, worktree: Worktree, message: str = "") -> Finished:
    """Commit everything. Raises `InTheWay` if there is nothing to commit or a conflict."""
    with project.alone():
        git = git_of(project, worktree)
        found = _stage(project, git, worktree)
        faults.kp("worktree.staged")
        if not found.files:
            raise InTheWay(Code.NOTHING_TO_DO, f"Nothing is left to commit in {worktree.branch}.")
        said = (message or f"chore: {worktree.label or worktree.branch}").encode()
        git.run("commit", "-q", "--no-verify", "--no-gpg-sign", "-F", "-", given=said)
        faults.kp("worktree.committed")
        return replace(found, commit=git.commit("HEAD"))


def staged(project: Project, worktree: Worktree) -> list[str]:
    """Files that are staged and not committed."""
    return _staged(git_of(project, worktree))


def _stage(project: Project, git: Git, worktree: Worktree) -> Finished:
    demand_branch(git, worktree)
    demand_no_conflict(git)
    kept = _save_staged(project, worktree, git)
    notes = stage_all(git)
    return Finished(commit="", files=len(_staged(git)), keep=kept, notes=notes)


def _staged(git: Git) -> list[str]:
    return git.names("diff", "--cached", "--name-only", "--no-renames", "-z")


def stage_all(git: Git, **variables: str) -> tuple[str, ...]:
    """Add everything to the index (see `variables`). Return notes about what was left out."""
    nested = contents_of(git.folder).nested
    tracked = {*git.names("ls-files", "-z")}
    ours = [each for each in nested if each not in tracked]
    changed = git.names("ls-files", "-m", "-o", "-d", "--exclude-standard", "-z")
    paths = [path for path in dict.fromkeys(changed) if not _is_below(path, nested)]
    demand_no_filter(git, paths)
    git.add(paths, **variables)
    return tuple(f"{each} is a nested repository and was left out." for each in ours)


def demand_no_filter(git: Git, paths: Sequence[str]) -> None:
    """Refuse files with a git filter: filters are programs and are not run here, so the wrong
    bytes would be committed."""
    said = git.names("check-attr", "-z", "--stdin", "filter", given=paths)
    rows = zip(said[::3], said[2::3], strict=False)
    found = [path for path, held in rows if held not in ("unspecified", "unset")]
    if found:
        raise InTheWay(
            Code.FILTERED,
            f"{found[0]} needs a git filter, which is not run here; commit it yourself.",
            found,
        )


def demand_no_conflict(git: Git) -> None:
    index = index_of(git)
    sides = sorted({path for stage, side in index.items() if stage for path in side})
    if sides:
        raise InTheWay(
            Code.UNFINISHED,
            f"{sides[0]} has a conflict in {git.folder}; resolve it first.",
            sides,
        )


def merged_tree(git: Git, ours: str, theirs: str) -> str:
    """The tree of a merge. Raises `Conflict`."""
    tried = git.ask("merge-tree", "--write-tree", "--name-only", "-z", ours, theirs)
    tree, *names = tried.text.split("\0\0", 1)[0].split("\0")
    if tried.status == _CONFLICT:
        raise Conflict(list(dict.fromkeys(filter(None, names))))
    if tried.status:
        raise GitCommandFailed(("merge-tree",), tried.status, tried.errors)
    return tree.strip()


def merge(project: Project, worktree: Worktree) -> KeptWork | None:
    """Merge the branch into its parent; return the files that were saved before. Raises `InTheWay`,
    without changes, if that is not possible."""
    with project.alone():
        tip = project.git.commit(f"refs/heads/{worktree.branch}")
        if not tip:
            raise InTheWay(Code.BRANCH_NOT_FOUND, f"The branch {worktree.branch} was removed.")
        if state_of(project, worktree) is WorktreeState.READY:
            demand_committed(git_of(project, worktree), worktree)
        _demand_parent(project, worktree)
        _demand_clean(project)
        paths = _dry_run(project, worktree, tip)
        kept = keep_files(project, paths, f"Files before {worktree.branch} was merged")
        faults.kp("worktree.merging")
        merge_commit(project.git, worktree.branch, tip, into=worktree.parent_branch)
        faults.kp("worktree.merged")
        return kept


def _save_staged(project: Project, worktree: Worktree, git: Git) -> KeptWork | None:
    """Save what is staged in another version than the file."""
    index = index_of(git).get(0, {})
    work = uncommitted(project, git, contents_of(git.folder), index.__contains__)
    there = {**work.committed, **work.changed}
    staged_only = [
        path
        for path, held in work.staged.items()
        if work.committed.get(path) != held and (path in work.gone or there.get(path) != held)
    ]
    if not staged_only:
        return None
    about = f"Staged changes of {worktree.branch} before everything was staged"
    return keep(git, folder_name(worktree.branch), about, work)


def _is_below(path: str, folders: Sequence[str]) -> bool:
    return any(path.rstrip("/") == each or path.startswith(f"{each}/") for each in folders)


def demand_committed(git: Git, worktree: Worktree) -> None:
    if changed := [line[3:] for line in git.names(*_STATUS, "--untracked-files=all")]:
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
    if changed := [line[3:] for line in project.git.names(*_STATUS, "--untracked-files=no")]:
        raise InTheWay(
            Code.UNCOMMITTED,
            "The project has changes that are not committed; commit them, then merge.",
            changed,
        )


def _dry_run(project: Project, worktree: Worktree, tip: str) -> list[str]:
    """Dry run that returns the files a merge would write. Refuses to overwrite ignored files and
    those marked unchanged, which git would do."""
    git = project.git
    if git.succeeds("merge-base", "--is-ancestor", tip, "HEAD"):
        raise InTheWay(
            Code.NOTHING_TO_DO, f"{worktree.parent_branch} already has all of {worktree.branch}."
        )
    try:
        tree = merged_tree(git, "HEAD", tip)
    except Conflict as error:
        raise InTheWay(
            Code.CONFLICT,
            f"{worktree.branch} and {worktree.parent_branch} have a conflict in "
            f"{', '.join(error.paths)}; merge the parent in the worktree first.",
            error.paths,
        ) from error
    new = git.names("diff", "--name-only", "--no-renames", "--diff-filter=A", "-z", "HEAD", tree)
    there = [path for path in new if _exists(project, path)]
    if there:
        raise InTheWay(
            Code.PATH_EXISTS,
            f"{there[0]} would be overwritten and is not committed; move it away first.",
            there,
        )
    return git.names("diff", "--name-only", "--no-renames", "-z", "HEAD", tree)


def _exists(project: Project, path: str) -> bool:
    """Whether something exists at the path, or a file at one of its parent folders."""
    at = project.folder
    for name in path.split("/"):
        at = at / name
        if os.path.lexists(at) and (at.is_symlink() or not at.is_dir()):
            return True
    return os.path.lexists(at)


def merge_commit(git: Git, branch: str, tip: str, *, into: str) -> None:
    """Merge a commit of a branch into the branch that is checked out, or change nothing."""
    said = f"Merge branch '{branch}'"
    words = ("--no-edit", "--no-verify", "--no-gpg-sign", "--no-stat", "--no-overwrite-ignore")
    # options configured for the branch could make this another merge than the one tried
    plain = f"--config-env=branch.{into}.mergeOptions={_NO_OPTIONS}"
    try:
        command = ("merge", "-q", *words, "-m", said, tip)
        git.run(plain, *command, variables={_NO_OPTIONS: ""})
    except GitCommandFailed as error:
        if (git.git_folder / "MERGE_HEAD").exists():
            git.ask("merge", "--abort")
        raise InTheWay(
            error.code, f"{branch} was not merged: {error.reason.rstrip(':')}."
        ) from error


def update(project: Project, worktree: Worktree, *, rebase: bool = False) -> KeptWork | None:
    """Bring the parent's commits into the branch; return the commits that a rebase replaced. Raises
    `InTheWay`, without changes, if that is not possible."""
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
        return kept


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
            error.code, f"{worktree.branch} was not rebased: {error.reason.rstrip(':')}."
        ) from error


def _conflict(worktree: Worktree, paths: "list[str] | tuple[str, ...]") -> InTheWay:
    return InTheWay(
        Code.CONFLICT,
        f"{worktree.parent_branch} and {worktree.branch} have a conflict in {', '.join(paths)}. "
        "Nothing was changed. Ask the agent to merge it, or do so in a terminal.",
        paths,
    )


def _keep_head(git: Git, worktree: Worktree) -> KeptWork:
    """Keep the commits that a rebase replaces."""
    head = git.commit("HEAD")
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    ref = f"{KEEP_REFS}{folder_name(worktree.branch)}-{stamp}-{secrets.token_hex(3)}"
    git.run("update-ref", ref, head)
    return KeptWork(ref=ref, commit=head, about=f"Commits of {worktree.branch} before the rebase")
