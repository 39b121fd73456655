"""Making worktrees: one, or several versions of one piece of work."""

import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

from rookery import faults
from rookery.manager.worktrees.fetch import Fetching, StartPoint, start_point
from rookery.manager.worktrees.free_names import free_name
from rookery.manager.worktrees.names import VersionPlan, folder_name, version_plans
from rookery.manager.worktrees.port_blocks import free_block
from rookery.manager.worktrees.worktree_git import GitFailed, InTheWay
from rookery.manager.worktrees.worktree_project import Project
from rookery.manager.worktrees.worktree_state import all_listed, note, registered_at
from rookery.manager.worktrees.worktree_values import (
    Code,
    Created,
    Obstacle,
    Step,
    VersionsMade,
    Worktree,
)
from rookery.platform.processes.own_programs import find_own_program

_POINTERS = "Large files are pointers until `git lfs pull` is run in the worktree."


def create(
    project: Project,
    fetching: Fetching,
    *,
    branch: str,
    label: str = "",
    base: str = "",
    default_base: str = "",
    told: Callable[[Step], None] = lambda step: None,
) -> Created:
    """A worktree with a new branch, called as wanted or, if that is taken, nearly so. Whoever is
    `told` of a step may raise, and then no further one is taken."""
    told(Step.SYNCING)
    with project.alone():
        told(Step.VERIFYING)
        project.demand_commits()
        told(Step.FETCHING)
        start = start_point(project, fetching, base=base, default=default_base)
        told(Step.CREATING)
        project.make_place()
        return _made(project, start, branch=free_name(project, branch), label=label)


def create_versions(
    project: Project,
    fetching: Fetching,
    *,
    branch: str,
    label: str,
    versions: int,
    models: Sequence[str] = (),
    base: str = "",
    default_base: str = "",
    group_id: str = "",
    told: Callable[[Step], None] = lambda step: None,
    ready: Callable[[int, Created | Obstacle], None] = lambda number, made: None,
) -> VersionsMade:
    """One after another, all from the same commit. Each is told as it is `ready`, by its number
    from 1 on. Raises only if none could be made."""
    told(Step.SYNCING)
    with project.alone():
        told(Step.VERIFYING)
        project.demand_commits()
        told(Step.FETCHING)
        start = start_point(project, fetching, base=base, default=default_base)
        told(Step.CREATING)
        project.make_place()
        name = free_name(project, branch, versions=versions)
        group = group_id or secrets.token_hex(8)
        plans = version_plans(label, name, versions=versions, models=models, group_id=group)
        made: list[Created] = []
        used: list[str] = []
        failed: list[Obstacle] = []
        for plan in plans:
            one = _made_or_not(project, start, plan)
            if isinstance(one, Created):
                made.append(one)
                used.append(plan.model)
            else:
                failed.append(one)
            ready(plan.number, one)
        if not made:
            raise InTheWay(failed[0].code, failed[0].text)
    return VersionsMade(made=tuple(made), models=tuple(used), failed=tuple(failed))


def _made_or_not(project: Project, start: StartPoint, plan: VersionPlan) -> Created | Obstacle:
    try:
        return _made(project, start, branch=plan.branch, label=plan.label, group=plan.group_id)
    except InTheWay as error:
        return error.obstacle


def check_out(project: Project, folder: Path, branch: str, *, commit: str = "") -> None:
    """Have git make the worktree: with a new branch at `commit`, or with one that is there."""
    new = ("--no-track", "-b", branch) if commit else ()
    try:
        project.git.run("worktree", "add", "-q", *new, "--", str(folder), commit or branch)
    except GitFailed as error:
        if registered_at(project, folder) and folder.exists():
            return
        if commit:  # git makes the branch first, and leaves it
            project.git.ask("update-ref", "-d", f"refs/heads/{branch}", commit)
        code = error.obstacle.code
        raise InTheWay(
            Code.CREATE_FAILED if code is Code.GIT_FAILED else code,
            f"The worktree for {branch} could not be made: {error}",
        ) from error


def noted(project: Project, worktree: Worktree) -> Worktree:
    """Note what is known of a worktree where git has it."""
    found = registered_at(project, Path(worktree.path))
    if not found:
        raise InTheWay(Code.CREATE_FAILED, f"git did not make the worktree {worktree.path}.")
    note(found.admin, worktree)
    return worktree


def new_worktree(project: Project, folder: Path, branch: str) -> Worktree:
    """With an id and ports of its own."""
    taken = [each.worktree.ports for each in all_listed(project)]
    return Worktree(
        id=secrets.token_hex(8),
        branch=branch,
        path=str(folder),
        created_at=time.time_ns() // 1_000_000,
        ports=free_block(str(folder), [block for block in taken if block]),
    )


def large_files(project: Project, commit: str) -> tuple[str, ...]:
    """What to say of large files that are kept elsewhere. Raises if they cannot be had at all."""
    attributes = project.git.ask("cat-file", "blob", f"{commit}:.gitattributes").out
    if b"filter=lfs" not in attributes:
        return ()
    if not find_own_program("git-lfs", project.folder):
        raise InTheWay(
            Code.LFS_MISSING, "This repository keeps large files with git-lfs; install that."
        )
    return (_POINTERS,)


def _made(
    project: Project, start: StartPoint, *, branch: str, label: str, group: str = ""
) -> Created:
    notes = (*start.notes, *large_files(project, start.commit))
    folder = project.place / folder_name(branch)
    check_out(project, folder, branch, commit=start.commit)
    faults.kp("worktree.made")
    worktree = replace(
        new_worktree(project, folder, branch),
        parent_branch=start.branch,
        remote=start.remote,
        label=label,
        group_id=group,
        branch_owned=True,
    )
    made = noted(project, worktree)
    faults.kp("worktree.noted")
    return Created(worktree=made, base=start.commit, notes=notes)
