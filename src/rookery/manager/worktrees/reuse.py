"""Worktrees from existing branches, checkouts and saved work.

A worktree can be resumed, recreated if its folder is gone, restored from saved work, or imported
from a branch or checkout of the user. An imported checkout remains the user's and is never removed.
"""

import os
from pathlib import Path

from msgspec.structs import replace

from rookery import faults
from rookery.manager.worktrees.checkout_files import LINK, MODULE, PROGRAM, Stored, tree_of
from rookery.manager.worktrees.create import (
    check_out,
    demand_name,
    folder_name,
    free_name,
    large_files,
    new_worktree,
    register,
)
from rookery.manager.worktrees.keep import STAGED, keep, work_without_files
from rookery.platform.git_folders import common_folder
from rookery.platform.worktree_git import Git, InTheWay
from rookery.platform.worktree_project import (
    Project,
    Registered,
    git_of,
    holder_of,
    interrupted_removals,
    metadata_of,
    original_path,
    read_metadata,
    registered,
    registered_at,
    state_of,
)
from rookery.platform.worktree_values import (
    KEEP_REFS,
    Code,
    Created,
    Importable,
    KeptWork,
    Worktree,
    WorktreeState,
)


def resume(project: Project, worktree: Worktree) -> Created:
    """Recreate the worktree if its folder is gone. Raises `InTheWay`; never uses another folder."""
    with project.alone():
        if state_of(project, worktree) is not WorktreeState.MISSING:
            git_of(project, worktree)
            return Created(worktree=worktree)
        return _recreate(project, worktree)


def dismiss(project: Project, found: Registered) -> KeptWork | None:
    """Remove a worktree without a folder from git, after saving what was staged in it."""
    if any(original_path(each) == found.folder for each in interrupted_removals(project)):
        raise InTheWay(
            Code.UNFINISHED, f"The removal of {found.folder} was interrupted; recover it first."
        )
    if found.locked:
        raise InTheWay(Code.LOCKED, f"{found.folder} is locked; run `git worktree unlock` first.")
    git = project.git.at(found.admin, found.folder)
    work = work_without_files(project, git)
    about = f"Staged changes of {found.folder.name}, whose folder was missing"
    kept = keep(git, found.folder.name, about, work) if work else None
    faults.kp("worktree.dismissing")
    project.git.run("worktree", "remove", "--force", "--", str(found.folder))
    return kept


def bring_back(project: Project, ref: str, branch: str) -> Created:
    """Restore saved files and index to a new worktree with a new branch. The reference stays."""
    with project.alone():
        kept = project.git.commit(ref) if ref.startswith(KEEP_REFS) else ""
        if not kept:
            raise InTheWay(Code.BRANCH_NOT_FOUND, f"No saved work under {ref}.")
        parents = project.git.output("rev-list", "--parents", "-n", "1", kept).split()[1:]
        base = parents[0] if parents else kept
        project.make_place()
        name = free_name(project, branch)
        folder = project.place / folder_name(name)
        check_out(project, folder, name, commit=base)
        worktree = replace(
            new_worktree(project, folder, name),
            parent_branch=project.current_branch,
            branch_owned=True,
        )
        register(project, worktree)
        git = git_of(project, worktree)
        _fill(git, kept, base)
        for commit in parents[1:2]:
            if git.output("log", "-1", "--format=%s", commit) == STAGED:
                git.run("read-tree", commit)
        return Created(worktree=worktree)


def importable(project: Project) -> Importable:
    """Branches that are not checked out, and worktrees that are not imported."""
    free = [branch for branch in project.branches if not holder_of(project, branch)]
    others = [each for each in registered(project) if each.folder.is_dir()]
    unknown = [str(each.folder) for each in others if not metadata_of(project, each)]
    return Importable(branches=tuple(free), worktrees=tuple(unknown))


def import_branch(project: Project, branch: str, *, label: str = "", parent: str = "") -> Created:
    """Create a worktree for an existing branch, local or on a remote."""
    with project.alone():
        project.demand_commits()
        demand_name(project, branch)
        if holder := holder_of(project, branch):
            return _existing_worktree(project, holder, branch)
        remote = "" if branch in project.branches else _find_remote(project, branch)
        tip = project.git.commit(
            f"refs/remotes/{remote}/{branch}" if remote else f"refs/heads/{branch}"
        )
        folder = project.place / folder_name(branch)
        if folder.exists() or folder.is_symlink():
            raise InTheWay(
                Code.PATH_EXISTS, f"{folder} already exists; move it away first.", [str(folder)]
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
        return Created(worktree=register(project, worktree), notes=notes)


def import_worktree(project: Project, folder: Path) -> Created:
    """Register a worktree the user created. It can be forgotten, but is never removed."""
    with project.alone():
        place = folder.parent.resolve() / folder.name
        found = registered_at(project, place)
        if not found or common_folder(str(place)) != str(project.common):
            raise InTheWay(Code.BROKEN, f"{place} is not a worktree of this project.")
        if known := read_metadata(found.admin):
            return Created(worktree=known)
        worktree = replace(
            new_worktree(project, place, found.branch),
            parent_branch=project.current_branch,
            imported=place.parent != project.place,
        )
        return Created(worktree=register(project, worktree))


def _existing_worktree(project: Project, holder: Path, branch: str) -> Created:
    """The existing worktree of ours that has the branch checked out."""
    found = registered_at(project, holder)
    known = metadata_of(project, found) if found else None
    if not known or known.imported:
        raise InTheWay(
            Code.BRANCH_CHECKED_OUT, f"{branch} is checked out in {holder}; import that instead."
        )
    return Created(worktree=known)


def _find_remote(project: Project, branch: str) -> str:
    for remote in project.remotes:
        project.fetch(remote, branch)
        if project.git.commit(f"refs/remotes/{remote}/{branch}"):
            return remote
    raise InTheWay(
        Code.BRANCH_NOT_FOUND, f"No such branch: {branch}, neither here nor on a remote."
    )


def _fill(git: Git, kept: str, base: str) -> None:
    wanted, there = tree_of(git, kept), tree_of(git, base)
    for path in there.keys() - wanted.keys():
        (git.folder / path).unlink(missing_ok=True)
        _drop_empty((git.folder / path).parent, git.folder)
    for path, held in wanted.items():
        if there.get(path) != held and held.mode != MODULE:
            _write(git, git.folder / path, held)


def _write(git: Git, place: Path, held: Stored) -> None:
    """Write the bytes without conversions."""
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


def _recreate(project: Project, worktree: Worktree) -> Created:
    folder = Path(worktree.path)
    if worktree.imported:
        raise InTheWay(
            Code.MISSING, f"The imported worktree {folder} was removed; create it again yourself."
        )
    if folder.parent != project.place or folder.parent.is_symlink():
        raise InTheWay(
            Code.OUTSIDE, f"{folder} is not in {project.place}; nothing is created there."
        )
    if holder := holder_of(project, worktree.branch):
        raise InTheWay(
            Code.BRANCH_CHECKED_OUT,
            f"{worktree.branch} is checked out in {holder}; switch that to another branch.",
        )
    notes: tuple[str, ...] = ()
    if found := registered_at(project, folder):
        kept = dismiss(project, found)
        notes = (kept.message,) if kept else ()
    project.make_place()
    check_out(project, folder, worktree.branch)
    again = register(project, replace(worktree, path=str(folder)))
    return Created(worktree=again, notes=notes)
