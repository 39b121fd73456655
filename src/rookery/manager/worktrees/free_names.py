"""Which names for branches and folders are taken."""

import os

from rookery.manager.worktrees.names import free_branch, free_for_versions
from rookery.manager.worktrees.worktree_git import InTheWay
from rookery.manager.worktrees.worktree_project import Project
from rookery.manager.worktrees.worktree_state import registered
from rookery.manager.worktrees.worktree_values import Code


def taken_folders(project: Project) -> list[str]:
    """What lies in the place for worktrees, whatever it is, and what git says should."""
    there = os.listdir(project.place) if project.place.is_dir() else []
    known = (each.folder for each in registered(project))
    return there + [folder.name for folder in known if folder.parent == project.place]


def known_branches(project: Project) -> list[str]:
    """Each by its own name, wherever it is: the one that is checked out, others, and those that
    only a remote has."""
    form = "--format=%(refname:lstrip=3)"
    there = project.git.said("for-each-ref", form, "refs/remotes").splitlines()
    here = [project.current_branch, *project.branches]
    return list(dict.fromkeys(name for name in (*here, *there) if name and name != "HEAD"))


def demand_name(project: Project, branch: str) -> None:
    if not project.git.succeeds("check-ref-format", "--branch", branch):
        raise InTheWay(Code.BAD_NAME, f"{branch!r} is no name for a branch; choose another.")


def free_name(project: Project, wanted: str, *, versions: int = 1) -> str:
    demand_name(project, wanted)
    branches, folders = project.branches, taken_folders(project)
    if versions > 1:
        return free_for_versions(wanted, versions, branches, folders)
    return free_branch(wanted, branches, folders)
