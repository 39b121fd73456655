"""Coming back to a worktree: it is used as it is, made again, or the answer is no."""

from pathlib import Path

from msgspec.structs import replace

from rookery import faults
from rookery.manager.worktrees.create import check_out, noted
from rookery.manager.worktrees.keep import keep
from rookery.manager.worktrees.uncommitted import without_files
from rookery.manager.worktrees.worktree_git import InTheWay
from rookery.manager.worktrees.worktree_project import Project
from rookery.manager.worktrees.worktree_state import (
    Registered,
    first_name,
    git_of,
    half_removed,
    holder_of,
    registered_at,
    state_of,
)
from rookery.manager.worktrees.worktree_values import Code, Keep, Resumed, State, Worktree


def resume(project: Project, worktree: Worktree) -> Resumed:
    """Raises `InTheWay` where nothing can be worked in; no other folder ever takes its place."""
    with project.alone():
        if state_of(project, worktree) is not State.MISSING:
            git_of(project, worktree)
            return Resumed(worktree=worktree, recreated=False)
        return _made_again(project, worktree)


def _made_again(project: Project, worktree: Worktree) -> Resumed:
    folder = Path(worktree.path)
    if worktree.imported:
        raise InTheWay(
            Code.MISSING, f"The imported worktree {folder} is gone; make it again yourself."
        )
    if folder.parent != project.place or folder.parent.is_symlink():
        raise InTheWay(Code.OUTSIDE, f"{folder} is not in {project.place}; nothing is made there.")
    if holder := holder_of(project, worktree.branch):
        raise InTheWay(
            Code.BRANCH_CHECKED_OUT, f"{worktree.branch} is checked out in {holder}; free it there."
        )
    notes: tuple[str, ...] = ()
    if found := registered_at(project, folder):
        kept = dismissed(project, found)
        notes = (kept.told,) if kept else ()
    project.make_place()
    check_out(project, folder, worktree.branch)
    again = noted(project, replace(worktree, path=str(folder)))
    return Resumed(worktree=again, recreated=True, notes=notes)


def dismissed(project: Project, found: Registered) -> Keep | None:
    """Have git forget a worktree whose folder is gone, once what was staged there is kept."""
    if any(first_name(each) == found.folder for each in half_removed(project)):
        raise InTheWay(
            Code.UNFINISHED, f"The removal of {found.folder} was broken off; recover it first."
        )
    if found.locked:
        raise InTheWay(Code.LOCKED, f"{found.folder} is locked; `git worktree unlock` frees it.")
    git = project.git.at(found.admin, found.folder)
    work = without_files(project, git)
    about = f"What was staged in {found.folder.name}, whose folder was gone"
    kept = keep(git, found.folder.name, about, work) if work else None
    faults.kp("worktree.dismissing")
    project.git.run("worktree", "remove", "--force", "--", str(found.folder))
    return kept
