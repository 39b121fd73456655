"""Which names for branches and folders are taken."""

import os

from rookery.core.worktree_names import free_branch, free_for_versions
from rookery.core.worktrees import Code
from rookery.workspace.worktrees.git import InTheWay
from rookery.workspace.worktrees.project import Project
from rookery.workspace.worktrees.state import registered


def taken_folders(project: Project) -> list[str]:
    """What lies in the place for worktrees, whatever it is, and what git says should."""
    there = os.listdir(project.place) if project.place.is_dir() else []
    known = (each.folder for each in registered(project))
    return there + [folder.name for folder in known if folder.parent == project.place]


def demand_name(project: Project, branch: str) -> None:
    if not project.git.succeeds("check-ref-format", "--branch", branch):
        raise InTheWay(Code.BAD_NAME, f"{branch!r} is no name for a branch; choose another.")


def free_name(project: Project, wanted: str, *, versions: int = 1) -> str:
    demand_name(project, wanted)
    branches, folders = project.branches, taken_folders(project)
    if versions > 1:
        return free_for_versions(wanted, versions, branches, folders)
    return free_branch(wanted, branches, folders)
