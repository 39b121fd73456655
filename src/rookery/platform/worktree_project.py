"""A project's repository, its worktrees and their states.

Metadata of a worktree is stored in git's folder for it, so it exists as long as git knows the
worktree, whatever happens to our own files.
"""

import errno
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from msgspec import Struct, ValidationError, convert, to_builtins
from msgspec.structs import replace

from rookery import NAME, PROJECT_FOLDER
from rookery.first_use import prepared
from rookery.platform.disk import put
from rookery.platform.git_folders import (
    NOTE_OF_WORKTREE,
    OWN_FOLDER,
    WORKTREES,
    common_folder,
    entries,
    first_line,
    folder_named_by,
    is_folder,
    regular_content,
)
from rookery.platform.locks import lock_within, open_lock
from rookery.platform.user_folders import find_own_program
from rookery.platform.worktree_git import Fetching, Git, InTheWay
from rookery.platform.worktree_values import Code, Listed, Worktree, WorktreeState

_LARGEST = 64 * 1024
_INITIALIZING = b"initializing"

SETUP_SCRIPT, RUN_SCRIPT = "setup-script", "run-script"
REMOVING, DELETING = ".removing-", ".deleting-"
"""Prefixes of folders being removed; everything in the second kind is saved."""
WAIT = 120.0
"""Seconds to wait for another process that changes the worktrees."""
P = ParamSpec("P")
R = TypeVar("R")


_UNUSABLE = {
    WorktreeState.MISSING: (
        Code.MISSING,
        "The worktree {} was removed, but its branch {} exists. Recreate the worktree, then resume "
        "the session.",
    ),
    WorktreeState.LOST: (
        Code.MISSING,
        "The worktree {} and its branch {} were removed. Its sessions can only be read.",
    ),
    WorktreeState.UNFINISHED: (
        Code.UNFINISHED,
        "The worktree {} is incomplete. Remove it and start again.",
    ),
    WorktreeState.BROKEN: (
        Code.BROKEN,
        "{} is no longer a worktree of this project. Run `git worktree repair`, then resume the "
        "session.",
    ),
}


class Registered(Struct, frozen=True, kw_only=True):
    """A worktree as git knows it; `admin` is git's folder for it."""

    admin: Path
    folder: Path
    branch: str
    """Empty if HEAD is detached."""
    locked: bool
    unfinished: bool = False
    """Git locks a worktree while creating it."""


class Project:
    """A project whose folder is the root of a checkout, the main one or a worktree."""

    def __init__(self, folder: Path, fetching: Fetching | None = None) -> None:
        """Raises `InTheWay` if there is no git or no repository."""
        self._fetching = fetching or Fetching(())
        self.folder = folder.resolve()
        own = self.folder / ".git"
        self.program = find_own_program("git", self.folder)
        if not self.program:
            raise InTheWay(Code.GIT_NOT_FOUND, "git is not installed.")
        found = str(own) if is_folder(str(own)) else common_folder(str(self.folder))
        if not found:
            raise InTheWay(
                Code.NOT_GIT_REPO,
                f"{self.folder} is not the root of a git repository; open the root.",
            )
        self.common = Path(found)
        # the target of a `.git` file; `common_folder` has checked that it points back
        own_part = own if is_folder(str(own)) else Path(folder_named_by(str(own)))
        self.git = Git(self.program, own_part, self.folder, self.common)

    @property
    def protocols(self) -> Sequence[str]:
        """What git may use to reach remotes."""
        return self._fetching.protocols

    def fetch(self, remote: str, branch: str) -> bool:
        """Fetch a branch, unless the network must not be used. Return whether it is current."""
        return self._fetching.fetch(self.git, remote, branch)

    @property
    def place(self) -> Path:
        return self.folder / OWN_FOLDER / WORKTREES

    def demand_commits(self) -> None:
        if not self.git.commit("HEAD") and not self.branches:
            raise InTheWay(Code.NO_COMMITS, f"{self.folder} has no commit yet; make the first one.")

    @property
    def branches(self) -> list[str]:
        said = self.git.output("for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads")
        return said.splitlines()

    @property
    def remotes(self) -> list[str]:
        return self.git.output("remote").splitlines()

    @property
    def current_branch(self) -> str:
        """Empty if HEAD is detached."""
        return self.git.ask("symbolic-ref", "-q", "--short", "HEAD").text.strip()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the repository's lock for changes; it is released if the process dies."""
        descriptor = open_lock(self.common / f"{NAME}-worktrees.lock")
        try:
            if not lock_within(descriptor, WAIT):
                raise InTheWay(
                    Code.LOCKED, "Another process uses the worktrees of this project; wait."
                )
            yield
        finally:
            os.close(descriptor)

    def make_place(self) -> None:
        """Create the folder for worktrees and exclude it from git."""
        for folder in (self.place.parent, self.place):
            if folder.is_symlink():
                raise InTheWay(
                    Code.OUTSIDE, f"{folder} is a link; replace it with a folder.", [str(folder)]
                )
            folder.mkdir(exist_ok=True)
        files = (SETUP_SCRIPT, RUN_SCRIPT)
        own = [f"/{folder}/{name}*" for folder in (OWN_FOLDER, PROJECT_FOLDER) for name in files]
        self._exclude(f"/{OWN_FOLDER}/{WORKTREES}/", *own)

    def _exclude(self, *patterns: str) -> None:
        file = self.common / "info" / "exclude"
        file.parent.mkdir(exist_ok=True)
        there = file.read_bytes() if file.exists() else b""
        lines = there.splitlines()
        missing = [each for each in patterns if each.encode() not in lines]
        if missing:
            gap = b"" if there.endswith(b"\n") or not there else b"\n"
            with file.open("ab") as opened:
                opened.write(gap + "".join(f"{each}\n" for each in missing).encode())

    @cached_property
    def object_format(self) -> str:
        return self.git.output("rev-parse", "--show-object-format")


def on_project(
    folder: Path,
    fetching: Fetching,
    operation: Callable[Concatenate[Project, P], R],
    /,
    *given: P.args,
    **named: P.kwargs,
) -> R:
    """Call an operation with the project in a folder, which must be trusted, because git reads its
    settings. Each call opens it anew, to disable the programs that the settings name. Raises
    `InTheWay`, also for errors of the file system."""
    try:
        return operation(Project(folder, fetching), *given, **named)
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        where = f" ({error.filename})" if error.filename else ""
        raise InTheWay(
            Code.DISK_FULL if full else Code.GIT_FAILED,
            f"The system refused{where}: {error.strerror}.",
        ) from error


def registered_at(project: Project, folder: Path) -> Registered | None:
    return next((each for each in registered(project) if each.folder == folder), None)


def holder_of(project: Project, branch: str) -> Path | None:
    """The folder in which a branch is checked out, if it exists."""
    main = project.common.parent
    if _head_branch(project.common) == branch and (main / ".git").exists():
        return main
    held = (each for each in registered(project) if each.branch == branch)
    return next((each.folder for each in held if each.folder.exists()), None)


def all_listed(project: Project) -> list[Listed]:
    """The worktrees created or imported here, oldest first."""
    found = (metadata_of(project, each) for each in registered(project))
    known = sorted(filter(None, found), key=lambda each: (each.created_at, each.path))
    return [Listed(worktree=each, state=state_of(project, each)) for each in known]


def metadata_of(project: Project, found: Registered) -> Worktree | None:
    """Metadata of a worktree; None if it is not ours. A crash may have prevented saving it."""
    if register := read_metadata(found.admin):
        return replace(register, path=str(found.folder))
    if found.folder.parent != project.place or found.folder.name.startswith("."):
        return None
    return Worktree(id=found.folder.name, branch=found.branch, path=str(found.folder))


def state_of(project: Project, worktree: Worktree) -> WorktreeState:
    folder = Path(worktree.path)
    if not os.path.lexists(folder):
        there = worktree.branch and worktree.branch in project.branches
        return WorktreeState.MISSING if there else WorktreeState.LOST
    whole = is_folder(worktree.path) and common_folder(worktree.path) == str(project.common)
    found = registered_at(project, folder)
    if not whole or not found:
        return WorktreeState.BROKEN
    return WorktreeState.UNFINISHED if found.unfinished else WorktreeState.READY


def git_of(project: Project, worktree: Worktree) -> Git:
    """Git on a worktree. Raises `InTheWay` if the worktree cannot be used."""
    state = state_of(project, worktree)
    found = registered_at(project, Path(worktree.path))
    if state is WorktreeState.READY and found:
        return project.git.at(found.admin, found.folder)
    code, text = _UNUSABLE.get(state, _UNUSABLE[WorktreeState.BROKEN])
    raise InTheWay(code, text.format(worktree.path, worktree.branch))


def demand_branch(git: Git, worktree: Worktree) -> None:
    on = _head_branch(git.git_folder)
    if on != worktree.branch:
        said = on or "no branch"
        raise InTheWay(
            Code.CHANGED,
            f"The worktree is on {said}, not on {worktree.branch}; switch it to that branch first.",
        )


def write_metadata(admin: Path, worktree: Worktree) -> None:
    data = json.dumps(to_builtins(worktree), indent=1).encode()
    put(admin / NOTE_OF_WORKTREE, [data])


def read_metadata(admin: Path) -> Worktree | None:
    """The saved metadata; None if it is missing or cannot be read."""
    try:
        return convert(
            json.loads(regular_content(str(admin / NOTE_OF_WORKTREE), _LARGEST) or b""),
            prepared(Worktree),
        )
    except (ValueError, ValidationError, RecursionError):
        return None


def original_path(away: Path) -> Path:
    """Original name of a folder being removed."""
    bare = away.name.removeprefix(REMOVING).removeprefix(DELETING)
    return away.with_name(bare.rpartition("-")[0])


def interrupted_removals(project: Project) -> list[Path]:
    found = entries(str(project.place))
    return [Path(each) for each in found if os.path.basename(each).startswith((REMOVING, DELETING))]


def registered(project: Project) -> Iterator[Registered]:
    """All linked worktrees, even if their folders are gone. One per folder: an agent can create a
    git folder that claims another's files."""
    found: dict[Path, list[Registered]] = {}
    for each in _claimed(project):
        found.setdefault(each.folder, []).append(each)
    for claims in found.values():
        yield next((each for each in claims if _is_named_by_its_files(each)), claims[0])


def _is_named_by_its_files(claim: Registered) -> bool:
    return folder_named_by(str(claim.folder / ".git")) == os.path.realpath(claim.admin)


def _claimed(project: Project) -> Iterator[Registered]:
    for admin in filter(is_folder, entries(str(project.common / "worktrees"))):
        if git := first_line(f"{admin}/gitdir").strip():
            place = Path(os.path.join(admin, git)).parent
            reason = (regular_content(f"{admin}/locked", 4096) or b"").strip()
            yield Registered(
                admin=Path(admin),
                folder=place.parent.resolve() / place.name,
                branch=_head_branch(Path(admin)),
                locked=os.path.lexists(f"{admin}/locked") and reason != _INITIALIZING,
                unfinished=reason == _INITIALIZING,
            )


def _head_branch(git_folder: Path) -> str:
    said = first_line(str(git_folder / "HEAD"))
    return said.removeprefix("ref: refs/heads/").strip() if said.startswith("ref: ") else ""
