"""Taking up branches and worktrees that were there before."""

from pathlib import Path

from msgspec.structs import replace

from rookery.manager.worktrees.create import check_out, large_files, new_worktree, noted
from rookery.manager.worktrees.fetch import Fetching
from rookery.manager.worktrees.free_names import demand_name
from rookery.manager.worktrees.names import folder_name
from rookery.manager.worktrees.worktree_git import InTheWay
from rookery.manager.worktrees.worktree_project import Project
from rookery.manager.worktrees.worktree_state import (
    holder_of,
    known_of,
    noted_of,
    registered,
    registered_at,
)
from rookery.manager.worktrees.worktree_values import Code, Created, Importable, Worktree
from rookery.platform.git.git_folders import common_folder


def importable(project: Project) -> Importable:
    """Branches that nobody has checked out, and worktrees that are not taken up yet."""
    free = [branch for branch in project.branches if not holder_of(project, branch)]
    others = [each for each in registered(project) if each.folder.is_dir()]
    unknown = [str(each.folder) for each in others if not known_of(project, each)]
    return Importable(branches=tuple(free), worktrees=tuple(unknown))


def import_branch(
    project: Project, fetching: Fetching, branch: str, *, label: str = "", parent: str = ""
) -> Created:
    """A worktree for a branch that is there, here or on a remote."""
    with project.alone():
        project.demand_commits()
        demand_name(project, branch)
        if holder := holder_of(project, branch):
            return _attached(project, holder, branch)
        remote = "" if branch in project.branches else _found_on(project, fetching, branch)
        tip = project.git.commit(
            f"refs/remotes/{remote}/{branch}" if remote else f"refs/heads/{branch}"
        )
        folder = project.place / folder_name(branch)
        if folder.exists() or folder.is_symlink():
            raise InTheWay(
                Code.PATH_EXISTS, f"{folder} is there already; move it away first.", [str(folder)]
            )
        notes = large_files(project, tip)
        project.make_place()
        check_out(project, folder, branch, commit=tip if remote else "")
        worktree = replace(
            new_worktree(project, folder, branch),
            label=label,
            parent_branch=parent or project.current_branch,
            remote=remote,
        )
        return Created(worktree=noted(project, worktree), base=tip, notes=notes)


def import_worktree(
    project: Project, folder: Path, *, label: str = "", parent: str = ""
) -> Created:
    """A worktree that the user has made. It is never removed from here, only forgotten."""
    with project.alone():
        place = folder.parent.resolve() / folder.name
        found = registered_at(project, place)
        if not found or common_folder(str(place)) != str(project.common):
            raise InTheWay(Code.BROKEN, f"{place} is no worktree of this project.")
        known = noted_of(found.admin)
        if known:
            return Created(worktree=known, base=_head(project, known))
        worktree = replace(
            new_worktree(project, place, found.branch),
            label=label,
            parent_branch=parent or project.current_branch,
            imported=place.parent != project.place,
        )
        return Created(worktree=noted(project, worktree), base=_head(project, worktree))


def _attached(project: Project, holder: Path, branch: str) -> Created:
    """If it is in a worktree of ours already, that is it."""
    found = registered_at(project, holder)
    known = known_of(project, found) if found else None
    if not known or known.imported:
        raise InTheWay(
            Code.BRANCH_CHECKED_OUT, f"{branch} is checked out in {holder}; import that instead."
        )
    return Created(worktree=known, base=project.git.commit(f"refs/heads/{branch}"))


def _found_on(project: Project, fetching: Fetching, branch: str) -> str:
    for remote in project.remotes:
        fetching.fetch(project, remote, branch)
        if project.git.commit(f"refs/remotes/{remote}/{branch}"):
            return remote
    raise InTheWay(
        Code.BRANCH_NOT_FOUND, f"There is no branch {branch}, neither here nor on a remote."
    )


def _head(project: Project, worktree: Worktree) -> str:
    found = registered_at(project, Path(worktree.path))
    assert found
    return project.git.at(found.admin, found.folder).commit("HEAD")
