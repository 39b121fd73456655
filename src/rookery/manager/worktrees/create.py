"""Names branches and creates worktrees: one, or several versions of one task.

A name must be free as a branch and as a folder; git allows no branch `a/b` next to a branch `a`.

A new branch starts at the remote's current commit, if the remote answers. Each worktree gets a
block of ports, so that several can run side by side.
"""

import os
import re
import secrets
import socket
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from hashlib import sha256
from itertools import count
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from rookery import faults
from rookery.platform.user_folders import find_own_program
from rookery.platform.worktree_git import GitCommandFailed, InTheWay
from rookery.platform.worktree_project import (
    Project,
    all_listed,
    registered,
    registered_at,
    write_metadata,
)
from rookery.platform.worktree_values import (
    PORTS_IN_A_BLOCK,
    Code,
    Created,
    PortBlock,
    Worktree,
    WorktreeStep,
)

LONGEST_NAME = 50
PREFIX = "agent/"
MOST_VERSIONS = 4
_OTHER = re.compile(r"[^a-z0-9_]+")
_FIRST = ("amber", "brisk", "calm", "clear", "early", "gentle", "green", "keen", "quiet", "swift")
_SECOND = ("brook", "cedar", "field", "finch", "harbor", "maple", "meadow", "pine", "river", "rook")
FIRST_PORT, LAST_PORT = 20_000, 31_999
"""Below the ephemeral ports of common systems."""
_POINTERS = "Large files are pointers until `git lfs pull` is run in the worktree."


class StartPoint(Struct, frozen=True, kw_only=True):
    branch: str
    commit: str
    remote: str = ""
    notes: tuple[str, ...] = ()


def create(
    project: Project,
    branch: str,
    *,
    label: str = "",
    base: str = "",
    on_step: Callable[[WorktreeStep], None] = lambda step: None,
) -> Created:
    """Create a worktree with a new branch, named `branch` or similar if that is taken. `on_step` is
    called before each step and may raise to stop."""
    with _start(project, base, on_step) as start:
        return _create(project, start, branch=free_name(project, branch), label=label)


def create_versions(
    project: Project,
    branch: str,
    *,
    label: str,
    versions: int,
    base: str = "",
    group_id: str = "",
    on_step: Callable[[WorktreeStep], None] = lambda step: None,
    on_ready: Callable[[int, Created | InTheWay], None] = lambda number, made: None,
) -> None:
    """Create several worktrees from the same commit. `on_ready` is called for each, numbered from
    1. Raises only if none could be created."""
    failed: list[InTheWay] = []
    with _start(project, base, on_step) as start:
        group = group_id or secrets.token_hex(8)
        names = version_branches(free_name(project, branch, versions=versions), versions)
        for number, name in enumerate(names, 1):
            own_label = label if number == 1 else f"{label} v{number}"
            made: Created | InTheWay
            try:
                made = _create(project, start, branch=name, label=own_label, group=group)
            except InTheWay as error:
                failed.append(error)
                made = error
            on_ready(number, made)
        if len(failed) == len(names):
            raise failed[0]


@contextmanager
def _start(
    project: Project, base: str, on_step: Callable[[WorktreeStep], None]
) -> Iterator[StartPoint]:
    """Hold the repository's lock, with everything ready to create worktrees."""
    on_step(WorktreeStep.SYNCING)
    with project.alone():
        on_step(WorktreeStep.VERIFYING)
        project.demand_commits()
        on_step(WorktreeStep.FETCHING)
        start = start_point(project, base)
        on_step(WorktreeStep.CREATING)
        project.make_place()
        yield start


def start_point(project: Project, base: str) -> StartPoint:
    """Find the commit to start at. `base` is the user's choice."""
    branch = base or _default_base(project)
    remote = _remote_of(project, branch)
    tracking = f"refs/remotes/{remote}/{branch}"
    fetched = bool(remote) and project.fetch(remote, branch)
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
    number = (LAST_PORT - FIRST_PORT + 1) // PORTS_IN_A_BLOCK
    places = ((start_at + at) % number for at in range(number))
    blocks = (PortBlock(first=FIRST_PORT + at * PORTS_IN_A_BLOCK) for at in places)
    order = (block for block in blocks if block.first not in held)
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
        code = error.code
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
    return Created(worktree=made, notes=notes)


def slug(text: str) -> str:
    """Lower-case name with one `-` for each run of other characters; may be empty."""
    return _OTHER.sub("-", text.lower())[:LONGEST_NAME].strip("-_")


def own_branch(name: str) -> str:
    """Clean up a branch name given by the user; slashes stay."""
    parts = filter(None, (_OTHER.sub("-", part).strip("-_") for part in name.lower().split("/")))
    return "/".join(parts)[:LONGEST_NAME].strip("-_/")


def automatic_branch(prompt: str, *, prefix: str = PREFIX, chance: int = 0) -> str:
    """Branch name made from the prompt, or of two words picked by `chance` if it has no letters."""
    first, second = divmod(chance % (len(_FIRST) * len(_SECOND)), len(_SECOND))
    return f"{prefix}{slug(prompt) or f'{_FIRST[first]}-{_SECOND[second]}'}"


def folder_name(branch: str) -> str:
    return branch.replace("/", "-")


def free_branch(wanted: str, branches: Collection[str], folders: Collection[str]) -> str:
    """The name, or the first of `-2`, `-3`, … that is free."""
    if any(wanted.startswith(f"{branch}/") for branch in branches):
        wanted = wanted.replace("/", "-")
    tries = (wanted if number == 1 else f"{wanted}-{number}" for number in count(1))
    return next(name for name in tries if is_free(name, branches, folders))


def is_free(branch: str, branches: Collection[str], folders: Collection[str]) -> bool:
    in_the_way = branch in branches or any(
        other.startswith(f"{branch}/") or branch.startswith(f"{other}/") for other in branches
    )
    return not in_the_way and folder_name(branch) not in folders


def version_branches(branch: str, versions: int) -> list[str]:
    """Branches of one to four versions."""
    number = max(1, min(MOST_VERSIONS, versions))
    return [branch if at == 1 else f"{branch}_v{at}" for at in range(1, number + 1)]


def free_for_versions(
    wanted: str, versions: int, branches: Collection[str], folders: Collection[str]
) -> str:
    """A name that is free for all versions, so that they share it."""
    taken = [*branches]
    while True:
        name = free_branch(wanted, taken, folders)
        if all(is_free(each, branches, folders) for each in version_branches(name, versions)):
            return name
        taken.append(name)


def known_branches(project: Project) -> tuple[str, ...]:
    """Branch names without duplicates: the checked-out one, other local ones, those of remotes."""
    form = "--format=%(refname:lstrip=3)"
    there = project.git.output("for-each-ref", form, "refs/remotes").splitlines()
    here = [project.current_branch, *project.branches]
    return tuple(dict.fromkeys(name for name in (*here, *there) if name and name != "HEAD"))


def demand_name(project: Project, branch: str) -> None:
    if not project.git.succeeds("check-ref-format", "--branch", branch):
        raise InTheWay(Code.BAD_NAME, f"{branch!r} is not a valid branch name; choose another.")


def free_name(project: Project, wanted: str, *, versions: int = 1) -> str:
    demand_name(project, wanted)
    there = os.listdir(project.place) if project.place.is_dir() else []
    known = [each.folder for each in registered(project)]
    folders = there + [folder.name for folder in known if folder.parent == project.place]
    return free_for_versions(wanted, versions, project.branches, folders)
