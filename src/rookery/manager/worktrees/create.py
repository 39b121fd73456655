"""Creates worktrees: one, or several versions of one task.

A new branch starts at the remote's current commit, if the remote answers. Only `Fetching` uses the
network: it never prompts and runs no program that the repository names. Each worktree gets a block
of ports, so that several can run side by side.
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
from rookery.manager.worktrees.worktree_project import (
    Project,
    all_listed,
    registered_at,
    write_metadata,
)
from rookery.manager.worktrees.worktree_values import (
    Code,
    Created,
    Obstacle,
    PortBlock,
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
    """Fetches branches, at most once a minute each. Without protocols it fetches nothing."""

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
        if not self._protocols or not self._fetch(project, remote, branch):
            return False
        self._fetched[key] = self._clock()
        return True

    def _fetch(self, project: Project, remote: str, branch: str) -> bool:
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
    on_step: Callable[[WorktreeStep], None] = lambda step: None,
) -> Created:
    """Create a worktree with a new branch, named `branch` or similar if that is taken. `on_step` is
    called before each step and may raise to stop."""
    on_step(WorktreeStep.SYNCING)
    with project.alone():
        on_step(WorktreeStep.VERIFYING)
        project.demand_commits()
        on_step(WorktreeStep.FETCHING)
        start = start_point(project, fetching, base=base)
        on_step(WorktreeStep.CREATING)
        project.make_place()
        return _create(project, start, branch=free_name(project, branch), label=label)


def create_versions(
    project: Project,
    fetching: Fetching,
    *,
    branch: str,
    label: str,
    versions: int,
    base: str = "",
    group_id: str = "",
    on_step: Callable[[WorktreeStep], None] = lambda step: None,
    on_ready: Callable[[int, Created | Obstacle], None] = lambda number, made: None,
) -> None:
    """Create several worktrees from the same commit. `on_ready` is called for each, numbered from
    1. Raises only if none could be created."""
    on_step(WorktreeStep.SYNCING)
    with project.alone():
        on_step(WorktreeStep.VERIFYING)
        project.demand_commits()
        on_step(WorktreeStep.FETCHING)
        start = start_point(project, fetching, base=base)
        on_step(WorktreeStep.CREATING)
        project.make_place()
        name = free_name(project, branch, versions=versions)
        group = group_id or secrets.token_hex(8)
        made = [
            _try_create(project, start, plan, on_ready)
            for plan in version_plans(label, name, versions=versions, group_id=group)
        ]
        if isinstance(made[0], Obstacle) and not any(isinstance(one, Created) for one in made):
            raise InTheWay(made[0].code, made[0].text)


def start_point(project: Project, fetching: Fetching, *, base: str = "") -> StartPoint:
    """Find the commit to start at. `base` is the user's choice."""
    branch = base or _default_base(project)
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
    """A block of ports that no worktree of the project has and where nothing listens. The search
    starts at a hash of the path, so that projects rarely collide."""
    held = {block.first for block in taken}
    start_at = int.from_bytes(sha256(place.encode("utf-8", "surrogateescape")).digest()[:4], "big")
    order = (block for block in block_order(start_at) if block.first not in held)
    return next((block for block in order if all(map(_is_free, block.ports))), None)


def check_out(project: Project, folder: Path, branch: str, *, commit: str = "") -> None:
    """Let git create the worktree, with a new branch at `commit` or an existing branch."""
    new = ("--no-track", "-b", branch) if commit else ()
    try:
        project.git.run("worktree", "add", "-q", *new, "--", str(folder), commit or branch)
    except GitCommandFailed as error:
        if registered_at(project, folder) and folder.exists():
            return
        if commit:  # git creates the branch first, and leaves it
            project.git.ask("update-ref", "-d", f"refs/heads/{branch}", commit)
        code = error.obstacle.code
        raise InTheWay(
            Code.CREATE_FAILED if code is Code.GIT_FAILED else code,
            f"The worktree for {branch} could not be created: {error}",
        ) from error


def register(project: Project, worktree: Worktree) -> Worktree:
    """Save the worktree's metadata in git's folder for it."""
    found = registered_at(project, Path(worktree.path))
    if not found:
        raise InTheWay(Code.CREATE_FAILED, f"git did not create the worktree {worktree.path}.")
    write_metadata(found.admin, worktree)
    return worktree


def new_worktree(project: Project, folder: Path, branch: str) -> Worktree:
    """Metadata of a new worktree, with an id and ports."""
    taken = [each.worktree.ports for each in all_listed(project)]
    return Worktree(
        id=secrets.token_hex(8),
        branch=branch,
        path=str(folder),
        created_at=time.time_ns() // 1_000_000,
        ports=free_block(str(folder), [block for block in taken if block]),
    )


def large_files(project: Project, commit: str) -> tuple[str, ...]:
    """Notes about git-lfs files. Raises if git-lfs is needed and missing."""
    attributes = project.git.ask("cat-file", "blob", f"{commit}:.gitattributes").out
    if b"filter=lfs" not in attributes:
        return ()
    if not find_own_program("git-lfs", project.folder):
        raise InTheWay(
            Code.LFS_MISSING, "This repository needs git-lfs for large files; install it."
        )
    return (_POINTERS,)


def _default_base(project: Project) -> str:
    for remote in project.remotes:
        head = project.git.ask("symbolic-ref", "-q", "--short", f"refs/remotes/{remote}/HEAD")
        if named := head.text.strip().removeprefix(f"{remote}/"):
            return named
    return project.current_branch or next(iter(project.branches), "")


def _remote_of(project: Project, branch: str) -> str:
    """Its configured remote, else `origin`, else the only one."""
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


def _try_create(
    project: Project,
    start: StartPoint,
    plan: VersionPlan,
    on_ready: Callable[[int, Created | Obstacle], None],
) -> Created | Obstacle:
    made: Created | Obstacle
    try:
        made = _create(project, start, branch=plan.branch, label=plan.label, group=plan.group_id)
    except InTheWay as error:
        made = error.obstacle
    on_ready(plan.number, made)
    return made


def _create(
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
    made = register(project, worktree)
    faults.kp("worktree.noted")
    return Created(worktree=made, base=start.commit, notes=notes)
