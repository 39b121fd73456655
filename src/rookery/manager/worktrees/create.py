"""Making worktrees: one, or several versions of one piece of work.

A new branch begins at what the remote has now, if it answers. `Fetching` is the one place where
git may use the network: it never prompts and runs no program that the repository names. Each
worktree gets a block of ports, so that several of one project can be run side by side.
"""

import secrets
import socket
import time
from collections.abc import Callable, Collection, Sequence
from hashlib import sha256
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from rookery import faults
from rookery.manager.worktrees.branch_names import (
    VersionPlan,
    folder_name,
    free_name,
    version_plans,
)
from rookery.manager.worktrees.worktree_git import GitCommandFailed, InTheWay
from rookery.manager.worktrees.worktree_project import Project, all_listed, note, registered_at
from rookery.manager.worktrees.worktree_values import (
    Code,
    Created,
    Obstacle,
    PortBlock,
    VersionsMade,
    Worktree,
    WorktreeStep,
    block_order,
)
from rookery.platform.own_programs import find_own_program

PROTOCOLS = ("https", "ssh")
FRESH_SECONDS = 60.0
LONGEST = 30.0
_NO_PROGRAMS = ("-c", "credential.helper=", "-c", "core.alternateRefsCommand=true")
_OPTIONS = (
    "--no-tags",
    "--no-recurse-submodules",
    "--no-write-fetch-head",
    "--no-auto-maintenance",
    "--upload-pack=git-upload-pack",
)
_POINTERS = "Large files are pointers until `git lfs pull` is run in the worktree."


class StartPoint(Struct, frozen=True, kw_only=True):
    branch: str
    commit: str
    remote: str = ""
    notes: tuple[str, ...] = ()


class Fetching:
    """Remembers for a minute what it has fetched. No protocols: it fetches nothing."""

    def __init__(
        self, protocols: Sequence[str] = PROTOCOLS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._protocols = tuple(protocols)
        self._clock = clock
        self._fetched: dict[tuple[str, str, str], float] = {}

    def fetch(self, project: Project, remote: str, branch: str) -> bool:
        key = (str(project.common), remote, branch)
        if self._clock() - self._fetched.get(key, float("-inf")) < FRESH_SECONDS:
            return True
        if not self._protocols or not self._asked(project, remote, branch):
            return False
        self._fetched[key] = self._clock()
        return True

    def _asked(self, project: Project, remote: str, branch: str) -> bool:
        allowed = {
            "GIT_ALLOW_PROTOCOL": ":".join(self._protocols),
            "GIT_SSH_COMMAND": "ssh -oBatchMode=yes -oConnectTimeout=10",
        }
        spec = f"+refs/heads/{branch}:refs/remotes/{remote}/{branch}"
        try:
            words = (*_NO_PROGRAMS, "fetch", *_OPTIONS, "--", remote, spec)
            return not project.git.ask(*words, variables=allowed, seconds=LONGEST).status
        except InTheWay:
            return False


def create(
    project: Project,
    fetching: Fetching,
    *,
    branch: str,
    label: str = "",
    base: str = "",
    default_base: str = "",
    told: Callable[[WorktreeStep], None] = lambda step: None,
) -> Created:
    """A worktree with a new branch, called as wanted or, if that is taken, nearly so. Whoever is
    `told` of a step may raise, and then no further one is taken."""
    told(WorktreeStep.SYNCING)
    with project.alone():
        told(WorktreeStep.VERIFYING)
        project.demand_commits()
        told(WorktreeStep.FETCHING)
        start = start_point(project, fetching, base=base, default=default_base)
        told(WorktreeStep.CREATING)
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
    told: Callable[[WorktreeStep], None] = lambda step: None,
    ready: Callable[[int, Created | Obstacle], None] = lambda number, made: None,
) -> VersionsMade:
    """One after another, all from the same commit. Each is told as it is `ready`, by its number
    from 1 on. Raises only if none could be made."""
    told(WorktreeStep.SYNCING)
    with project.alone():
        told(WorktreeStep.VERIFYING)
        project.demand_commits()
        told(WorktreeStep.FETCHING)
        start = start_point(project, fetching, base=base, default=default_base)
        told(WorktreeStep.CREATING)
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


def start_point(
    project: Project, fetching: Fetching, *, base: str = "", default: str = ""
) -> StartPoint:
    """`base` is what the user wants, `default` what is set for the project and may be gone."""
    branch = base or _chosen(project, default)
    remote = _remote_of(project, branch)
    tracking = f"refs/remotes/{remote}/{branch}"
    fetched = bool(remote) and fetching.fetch(project, remote, branch)
    there, here = project.git.commit(tracking), project.git.commit(f"refs/heads/{branch}")
    notes: tuple[str, ...] = ()
    if remote and there and not fetched:
        notes = (f"{remote} did not answer; {branch} may be out of date.",)
    if there and not (here and project.git.succeeds("merge-base", "--is-ancestor", there, here)):
        return StartPoint(branch=branch, commit=there, remote=remote, notes=notes)
    if here:
        return StartPoint(branch=branch, commit=here, remote=remote, notes=notes)
    if base and (named := project.git.commit(base)):
        return StartPoint(branch=base, commit=named)
    raise InTheWay(Code.BASE_NOT_FOUND, f"No such branch: {branch}; give another.")


def free_block(place: str, taken: Collection[PortBlock]) -> PortBlock | None:
    """One that no other worktree of the project has and nobody listens in now. Where a folder
    lies decides which is tried first: two projects seldom get the same."""
    held = {block.first for block in taken}
    wish = int.from_bytes(sha256(place.encode("utf-8", "surrogateescape")).digest()[:4], "big")
    order = (block for block in block_order(wish) if block.first not in held)
    return next((block for block in order if all(map(_is_free, block.ports))), None)


def check_out(project: Project, folder: Path, branch: str, *, commit: str = "") -> None:
    """Have git make the worktree: with a new branch at `commit`, or with one that is there."""
    new = ("--no-track", "-b", branch) if commit else ()
    try:
        project.git.run("worktree", "add", "-q", *new, "--", str(folder), commit or branch)
    except GitCommandFailed as error:
        if registered_at(project, folder) and folder.exists():
            return
        if commit:  # git makes the branch first, and leaves it
            project.git.ask("update-ref", "-d", f"refs/heads/{branch}", commit)
        code = error.obstacle.code
        raise InTheWay(
            Code.CREATE_FAILED if code is Code.GIT_FAILED else code,
            f"The worktree for {branch} could not be created: {error}",
        ) from error


def noted(project: Project, worktree: Worktree) -> Worktree:
    """Note what is known of a worktree where git has it."""
    found = registered_at(project, Path(worktree.path))
    if not found:
        raise InTheWay(Code.CREATE_FAILED, f"git did not create the worktree {worktree.path}.")
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
            Code.LFS_MISSING, "This repository needs git-lfs for large files; install it."
        )
    return (_POINTERS,)


def _chosen(project: Project, default: str) -> str:
    local = project.branches
    for remote in project.remotes:
        head = project.git.ask("symbolic-ref", "-q", "--short", f"refs/remotes/{remote}/HEAD")
        named = head.text.strip().removeprefix(f"{remote}/")
        if default and project.git.commit(f"refs/remotes/{remote}/{default}"):
            return default
        if named and default not in local:
            return named
    first = local[0] if local else ""
    return default if default in local else project.current_branch or first


def _remote_of(project: Project, branch: str) -> str:
    """Its own, else `origin`, else the only one there is."""
    remotes = project.remotes
    own = project.git.ask("config", "--get", f"branch.{branch}.remote").text.strip()
    if own in remotes:
        return own
    if "origin" in remotes:
        return "origin"
    return remotes[0] if len(remotes) == 1 else ""


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _made_or_not(project: Project, start: StartPoint, plan: VersionPlan) -> Created | Obstacle:
    try:
        return _made(project, start, branch=plan.branch, label=plan.label, group=plan.group_id)
    except InTheWay as error:
        return error.obstacle


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
