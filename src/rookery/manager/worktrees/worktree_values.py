"""Worktrees as values: what there is, what was done, and what is in the way.

A worktree that is not there is `MISSING`, and so says every operation that is asked about it;
nothing else is taken in its place.
"""

from enum import StrEnum
from hashlib import sha256

from msgspec import Struct

from rookery import NAME

PORTS_IN_A_BLOCK = 10
FIRST_PORT, LAST_PORT = 20_000, 31_999
"""Below those that systems give to whoever asks for any."""
KEEP_REFS = f"refs/{NAME}/keep/"


class Code(StrEnum):
    """What is in the way, for a program that asks."""

    GIT_NOT_FOUND = "git_not_found"
    NOT_GIT_REPO = "not_git_repo"
    NO_COMMITS = "no_commits"
    LFS_MISSING = "lfs_missing"
    BRANCH_NOT_FOUND = "branch_not_found"
    BRANCH_CHECKED_OUT = "branch_checked_out"
    PATH_EXISTS = "path_exists"
    BASE_NOT_FOUND = "base_not_found"
    CREATE_FAILED = "create_failed"
    SETUP_FAILED = "setup_failed"
    DISK_FULL = "disk_full"
    LOCKED = "locked"
    MISSING = "missing"
    BROKEN = "broken"
    OUTSIDE = "outside"
    CONFLICT = "conflict"
    UNCOMMITTED = "uncommitted"
    UNFINISHED = "unfinished"
    NOTHING_TO_DO = "nothing_to_do"
    FILTERED = "filtered"
    NOT_KEPT = "not_kept"
    CHANGED = "changed"
    BAD_NAME = "bad_name"
    GIT_FAILED = "git_failed"


class Obstacle(Struct, frozen=True, kw_only=True):
    """Why nothing was done, in one sentence, and which files are concerned."""

    code: Code
    text: str
    paths: tuple[str, ...] = ()


class WorktreeStep(StrEnum):
    """Of making a worktree for a session, in their order."""

    SYNCING = "syncing"
    """Waiting for whoever works on the repository."""
    VERIFYING = "verifying"
    FETCHING = "fetching"
    CREATING = "creating"
    SETUP = "setup"
    STARTING = "starting"


class WorktreeState(StrEnum):
    READY = "ready"
    MISSING = "missing"
    """Its folder is gone, its branch is there: it can be made again."""
    LOST = "lost"
    """Folder and branch are gone."""
    BROKEN = "broken"
    """There is a folder, but it is no worktree of this repository."""
    UNFINISHED = "unfinished"
    """Somebody was killed while it was made; no session has worked in it."""


class PortBlock(Struct, frozen=True, kw_only=True):
    first: int
    size: int = PORTS_IN_A_BLOCK

    @property
    def ports(self) -> range:
        return range(self.first, self.first + self.size)


class Worktree(Struct, frozen=True, kw_only=True):
    """What is known of one, wherever its folder is. `imported` ones are the user's own: they are
    forgotten, never removed."""

    id: str
    branch: str
    path: str
    parent_branch: str = ""
    remote: str = ""
    created_at: int = 0
    """Milliseconds."""
    group_id: str = ""
    label: str = ""
    ports: PortBlock | None = None
    imported: bool = False
    branch_owned: bool = False
    """Whether its branch was made for it."""


class Listed(Struct, frozen=True, kw_only=True):
    worktree: Worktree
    state: WorktreeState


class Created(Struct, frozen=True, kw_only=True):
    worktree: Worktree
    base: str
    """The commit that it begins with."""
    notes: tuple[str, ...] = ()


class VersionsMade(Struct, frozen=True, kw_only=True):
    """`made` may be fewer than were asked for; then `failed` says why."""

    made: tuple[Created, ...]
    models: tuple[str, ...]
    """In the order of `made`; empty for the usual one."""
    failed: tuple[Obstacle, ...] = ()

    @property
    def told(self) -> str:
        return f"{len(self.made)} of {len(self.made) + len(self.failed)} versions are ready."


class Copied(Struct, frozen=True, kw_only=True):
    """Files of the project that git ignores and the worktree now has too."""

    paths: tuple[str, ...]
    skipped: tuple[str, ...] = ()
    """They were there already, or are no plain files."""


class Resumed(Struct, frozen=True, kw_only=True):
    worktree: Worktree
    recreated: bool
    notes: tuple[str, ...] = ()


class Keep(Struct, frozen=True, kw_only=True):
    """Work that was put under a reference of its own before its place was changed."""

    ref: str
    commit: str
    about: str = ""

    @property
    def told(self) -> str:
        return f"Uncommitted work is saved as {self.ref}."


class Finished(Struct, frozen=True, kw_only=True):
    commit: str
    files: int
    keep: Keep | None = None
    notes: tuple[str, ...] = ()


class ApplyPlan(Struct, frozen=True, kw_only=True):
    """A dry run that found no conflict. `before` and `after` are the trees it leads from and to."""

    worktree: Worktree
    paths: tuple[str, ...]
    before: str
    after: str
    notes: tuple[str, ...] = ()

    @property
    def token(self) -> str:
        """Names exactly this plan."""
        return _digest("apply", self.worktree.id, self.before, self.after, *self.paths)


class AppliedWork(Struct, frozen=True, kw_only=True):
    paths: tuple[str, ...]
    keep: Keep | None = None
    notes: tuple[str, ...] = ()


class Merged(Struct, frozen=True, kw_only=True):
    commit: str
    into: str
    keep: Keep | None = None


class RemovalPlan(Struct, frozen=True, kw_only=True):
    """What removing a worktree would do: for the question that comes before it."""

    worktree: Worktree
    to_keep: tuple[str, ...]
    """Uncommitted files, which will be kept under a reference."""
    unmerged_commits: int
    """That are in its branch and not in its parent."""
    left_out: tuple[str, ...]
    """Folders that git ignores as a whole; they will be gone."""

    @property
    def token(self) -> str:
        """Names exactly this plan."""
        counted = (str(self.unmerged_commits), str(len(self.to_keep)))
        where = (self.worktree.id, self.worktree.path, self.worktree.branch)
        return _digest("remove", *where, *counted, *self.to_keep, *self.left_out)

    @property
    def told(self) -> str:
        files = counted(len(self.to_keep), "uncommitted file")
        kept = " (will be saved)" if self.to_keep else ""
        commits = f", {counted(self.unmerged_commits, 'unmerged commit')}"
        said = files + kept + (commits if self.unmerged_commits else "")
        gone = f"; will be lost: {', '.join(self.left_out)}" if self.left_out else ""
        return f"{self.worktree.branch}: {said}{gone}."


class BranchFate(StrEnum):
    KEEP = "keep"
    DELETE = "delete"
    """Its commits are kept under a reference if nothing else holds them."""


class Removed(Struct, frozen=True, kw_only=True):
    worktree: Worktree
    keep: Keep | None = None
    leftover: str = ""
    """A folder that holds nothing of worth any more and is still to be deleted."""
    branch_deleted: bool = False


class Forgotten(Struct, frozen=True, kw_only=True):
    """An imported worktree, which stays as it is."""

    worktree: Worktree


class RecoveredWork(Struct, frozen=True, kw_only=True):
    """What was done about removals that somebody was killed in."""

    keeps: tuple[Keep, ...] = ()
    deleted: tuple[str, ...] = ()
    trouble: tuple[Obstacle, ...] = ()


class Importable(Struct, frozen=True, kw_only=True):
    branches: tuple[str, ...]
    worktrees: tuple[str, ...]


def counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _digest(*parts: str) -> str:
    return sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


def environment_of(worktree: Worktree, project: str) -> dict[str, str]:
    """The variables for set-up, run scripts and sessions of a worktree."""
    said = {"WORKTREE_PATH": worktree.path, "REPO_PATH": project}
    if worktree.ports:
        said["WORKTREE_PORT"] = str(worktree.ports.first)
        said["WORKTREE_PORTS"] = str(worktree.ports.size)
    return said


def default_message(worktree: Worktree) -> str:
    """For a commit that nobody has found words for."""
    return f"chore: {worktree.label or worktree.branch}"


def block_order(wish: int) -> list[PortBlock]:
    """All blocks, beginning with the one that the wish falls on."""
    number = (LAST_PORT - FIRST_PORT + 1) // PORTS_IN_A_BLOCK
    order = ((wish + at) % number for at in range(number))
    return [PortBlock(first=FIRST_PORT + at * PORTS_IN_A_BLOCK) for at in order]
