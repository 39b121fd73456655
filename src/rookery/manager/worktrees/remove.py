"""Removes worktrees without losing uncommitted work.

A folder being removed has one of two names. `.removing-…`: git still knows the worktree, and its
work may not be saved yet. `.deleting-…`: everything is saved. So `recover` knows what is left to do
after a crash.
"""

import os
import secrets
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from rookery import faults
from rookery.manager.worktrees.checkout_files import contents_of
from rookery.manager.worktrees.create import folder_name
from rookery.manager.worktrees.keep import keep, survey
from rookery.manager.worktrees.reuse import dismiss
from rookery.platform.git_folders import NOTE_OF_WORKTREE, is_folder
from rookery.platform.worktree_git import Git, InTheWay
from rookery.platform.worktree_project import (
    DELETING,
    REMOVING,
    Project,
    Registered,
    holder_of,
    interrupted_removals,
    original_path,
    registered_at,
    state_of,
)
from rookery.platform.worktree_values import (
    KEEP_REFS,
    BranchFate,
    Code,
    KeptWork,
    RecoveredWork,
    RemovalPlan,
    Removed,
    Worktree,
    WorktreeState,
)

_TRIES = 3


def plan_removal(project: Project, worktree: Worktree) -> RemovalPlan:
    """Find what a removal would save and lose, to ask the user. Changes nothing."""
    unmerged = _unmerged(project, worktree)
    if worktree.imported or state_of(project, worktree) in (
        WorktreeState.MISSING,
        WorktreeState.LOST,
    ):
        return RemovalPlan(worktree=worktree, to_keep=(), unmerged_commits=unmerged, left_out=())
    place = _removable(project, worktree)
    found = survey(project, project.git.at(place.admin, place.folder))
    return RemovalPlan(
        worktree=worktree,
        to_keep=found.work.paths,
        unmerged_commits=unmerged,
        left_out=found.left_out,
    )


def remove(
    project: Project, plan: RemovalPlan, fate: BranchFate = BranchFate.KEEP
) -> Removed | None:
    """Remove a worktree in which no process runs any more. Does nothing if more would be lost than
    the user agreed to in `plan`. Returns None for an imported worktree, whose files are kept."""
    worktree = plan.worktree
    with project.alone():
        found = registered_at(project, Path(worktree.path))
        if worktree.imported:
            if found:
                (found.admin / NOTE_OF_WORKTREE).unlink(missing_ok=True)
            return None
        if state_of(project, worktree) in (WorktreeState.MISSING, WorktreeState.LOST):
            kept = dismiss(project, found) if found else None
            removed = Removed(worktree=worktree, keep=kept)
        else:
            removed = _remove_folder(project, plan, _removable(project, worktree))
        return _delete_branch(project, removed) if fate is BranchFate.DELETE else removed


def recover(project: Project) -> RecoveredWork:
    """Finish interrupted removals: save what is not saved yet, then delete. Runs at every start."""
    keeps: list[KeptWork] = []
    deleted: list[str] = []
    trouble: list[str] = []
    with project.alone():
        for folder in interrupted_removals(project):
            try:
                if folder.name.startswith(REMOVING):
                    kept, folder = _resume_removal(project, folder)
                    keeps += [kept] if kept else []
                _forget_missing(project, original_path(folder))
                _delete(folder)
                deleted.append(str(folder))
            except InTheWay as error:
                trouble.append(str(error))
    return RecoveredWork(keeps=tuple(keeps), deleted=tuple(deleted), trouble=tuple(trouble))


def clear(removed: Removed) -> None:
    """Delete the folder that a removal left, which may take a while."""
    if removed.leftover:
        _delete(Path(removed.leftover))


def _delete(folder: Path) -> None:
    """Delete a `.deleting-…` folder. Raises `InTheWay` if some of it is left."""
    assert folder.name.startswith(DELETING)
    shutil.rmtree(folder, onerror=_make_writable)
    if os.path.lexists(folder):
        raise InTheWay(Code.LOCKED, f"{folder} could not be deleted; your work is saved.")


def _removable(project: Project, worktree: Worktree) -> Registered:
    folder = Path(worktree.path)
    within = folder.parent == project.place and not project.place.is_symlink()
    if not within or project.place.parent.is_symlink() or folder.name.startswith("."):
        raise InTheWay(Code.OUTSIDE, f"{folder} is not in {project.place}; it was not changed.")
    found = registered_at(project, folder)
    if not found or not is_folder(str(folder)):
        raise InTheWay(
            Code.BROKEN,
            f"{folder} is no longer a worktree of this project; it was not changed.",
        )
    if found.locked:
        raise InTheWay(Code.LOCKED, f"{folder} is locked; run `git worktree unlock` first.")
    return found


def _remove_folder(project: Project, plan: RemovalPlan, found: Registered) -> Removed:
    away = project.place / f"{REMOVING}{found.folder.name}-{secrets.token_hex(4)}"
    os.rename(found.folder, away)
    faults.kp("worktree.renamed")
    try:
        kept = _save(project, project.git.at(found.admin, away), found, plan)
    except BaseException:
        if not os.path.lexists(found.folder):
            os.rename(away, found.folder)
        raise
    gone = _mark_saved(away)
    _forget_missing(project, found.folder)
    faults.kp("worktree.pruned")
    return Removed(worktree=plan.worktree, keep=kept, leftover=str(gone))


def _save(
    project: Project, git: Git, found: Registered, plan: RemovalPlan | None
) -> KeptWork | None:
    """Save the work, again if something changed meanwhile."""
    newest: KeptWork | None = None
    for _ in range(_TRIES):
        now = survey(project, git)
        more = [path for path in now.left_out if plan and path not in plan.left_out]
        if more:
            raise InTheWay(
                Code.CHANGED, f"{more[0]} is new since you were asked; look again.", more
            )
        if now.work:
            about = f"{found.folder.name} when it was removed"
            newest = keep(git, found.folder.name, about, now.work)
        if contents_of(git.folder) == now.contents:
            return newest
    raise InTheWay(Code.CHANGED, f"Something still writes into {found.folder}; stop it first.")


def _mark_saved(away: Path) -> Path:
    gone = away.with_name(away.name.replace(REMOVING, DELETING, 1))
    os.rename(away, gone)
    faults.kp("worktree.deleting")
    return gone


def _resume_removal(project: Project, away: Path) -> tuple[KeptWork | None, Path]:
    place = original_path(away)
    found = registered_at(project, place)
    if not found:
        raise InTheWay(
            Code.BROKEN,
            f"{away} was being removed, and git no longer knows it; check it yourself.",
        )
    return _save(project, project.git.at(found.admin, away), found, None), _mark_saved(away)


def _forget_missing(project: Project, folder: Path) -> None:
    """Remove one worktree from git; other missing ones may be on a disk that is not mounted."""
    found = registered_at(project, folder)
    if found and not os.path.lexists(folder):
        if found.unfinished:
            project.git.run("worktree", "unlock", "--", str(folder))
        project.git.run("worktree", "remove", "--force", "--", str(folder))


def _delete_branch(project: Project, removed: Removed) -> Removed:
    """Delete the branch unless it is checked out; commits that only it contains are saved."""
    branch = removed.worktree.branch
    tip = project.git.commit(f"refs/heads/{branch}")
    if not tip or holder_of(project, branch):
        return removed
    others = [f"--exclude={branch}", "--branches", "--tags", "--remotes"]
    lone = project.git.output("rev-list", "--max-count=1", tip, "--not", *others)
    kept = removed.keep
    if lone:
        ref = f"{KEEP_REFS}{folder_name(branch)}-branch-{secrets.token_hex(4)}"
        project.git.run("update-ref", ref, tip, "")
        kept = kept or KeptWork(ref=ref, commit=tip, about=f"The branch {branch}")
    faults.kp("worktree.branch")
    project.git.run("update-ref", "-d", f"refs/heads/{branch}", tip)
    return replace(removed, keep=kept, branch_deleted=True)


def _unmerged(project: Project, worktree: Worktree) -> int:
    tip = project.git.commit(f"refs/heads/{worktree.branch}")
    parent = project.git.commit(f"refs/heads/{worktree.parent_branch}")
    if not tip or not parent:
        return 0
    return int(project.git.output("rev-list", "--count", f"{parent}..{tip}"))


def _make_writable(function: Callable[[str], object], path: str, _: object) -> None:
    """Retry with write permission, which some tools remove from folders."""
    for each in (os.path.dirname(path), path):
        if not os.path.islink(each) and os.path.isdir(each):
            os.chmod(each, stat.S_IRWXU)
    try:
        function(path)
    except OSError:
        return  # `_delete` checks what is left
