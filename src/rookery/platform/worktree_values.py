"""Values about worktrees: metadata, and results of operations.

A worktree whose folder is gone is `MISSING`, and every operation on it says so; no other folder is
used instead.
"""

from enum import StrEnum
from hashlib import sha256

from msgspec import Struct

from rookery import NAME

PORTS_IN_A_BLOCK = 10
KEEP_REFS = f"refs/{NAME}/keep/"


class Code(StrEnum):
    """Reason why an operation was refused, for programs."""

    GIT_NOT_FOUND = "git_not_found"
    NOT_GIT_REPO = "not_git_repo"
    NO_COMMITS = "no_commits"
    LFS_MISSING = "lfs_missing"
    BRANCH_NOT_FOUND = "branch_not_found"
    BRANCH_CHECKED_OUT = "branch_checked_out"
    PATH_EXISTS = "path_exists"
    BASE_NOT_FOUND = "base_not_found"
    CREATE_FAILED = "create_failed"
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


class WorktreeStep(StrEnum):
    """Steps of creating a worktree for a session, in order."""

    SYNCING = "syncing"
    """Waiting for the repository's lock."""
    VERIFYING = "verifying"
    FETCHING = "fetching"
    CREATING = "creating"
    SETUP = "setup"
    STARTING = "starting"


class WorktreeState(StrEnum):
    READY = "ready"
    MISSING = "missing"
    """The folder is gone but the branch exists, so it can be recreated."""
    LOST = "lost"
    """Folder and branch are gone."""
    BROKEN = "broken"
    """The folder is not a worktree of this repository."""
    UNFINISHED = "unfinished"
    """Its creation was interrupted; no session has worked in it."""


class PortBlock(Struct, frozen=True, kw_only=True):
    first: int
    size: int = PORTS_IN_A_BLOCK

    @property
    def ports(self) -> range:
        return range(self.first, self.first + self.size)


class Worktree(Struct, frozen=True, kw_only=True):
    """Metadata of a worktree. An `imported` one belongs to the user: it can be forgotten, but is
    never removed."""

    id: str
    branch: str
    path: str
    parent_branch: str = ""
    remote: str = ""
    created_at: int = 0
    """In milliseconds."""
    group_id: str = ""
    label: str = ""
    ports: PortBlock | None = None
    imported: bool = False
    branch_owned: bool = False
    """Whether its branch was created for it."""


class Listed(Struct, frozen=True, kw_only=True):
    worktree: Worktree
    state: WorktreeState


class Created(Struct, frozen=True, kw_only=True):
    """A worktree that can be used: created, imported, or recreated if its folder was gone."""

    worktree: Worktree
    notes: tuple[str, ...] = ()


class KeptWork(Struct, frozen=True, kw_only=True):
    """Uncommitted work saved under a reference."""

    ref: str
    commit: str
    about: str = ""

    @property
    def message(self) -> str:
        return f"Uncommitted work is saved as {self.ref}."


class Finished(Struct, frozen=True, kw_only=True):
    commit: str
    files: int
    keep: KeptWork | None = None
    notes: tuple[str, ...] = ()


class ApplyPlan(Struct, frozen=True, kw_only=True):
    """A dry run without conflicts, from the tree `before` to the tree `after`."""

    worktree: Worktree
    paths: tuple[str, ...]
    before: str
    after: str
    notes: tuple[str, ...] = ()

    @property
    def token(self) -> str:
        """Identifies exactly this plan."""
        return digest("apply", self.worktree.id, self.before, self.after, *self.paths)


class AppliedWork(Struct, frozen=True, kw_only=True):
    paths: tuple[str, ...]
    keep: KeptWork | None = None
    notes: tuple[str, ...] = ()


class RemovalPlan(Struct, frozen=True, kw_only=True):
    """What removing a worktree would do, for the confirmation."""

    worktree: Worktree
    to_keep: tuple[str, ...]
    """Uncommitted files, which will be saved."""
    unmerged_commits: int
    """Commits of its branch that are not in the parent."""
    left_out: tuple[str, ...]
    """Folders ignored as a whole, which will be lost."""

    @property
    def token(self) -> str:
        """Identifies exactly this plan."""
        counted = (str(self.unmerged_commits), str(len(self.to_keep)))
        where = (self.worktree.id, self.worktree.path, self.worktree.branch)
        return digest("remove", *where, *counted, *self.to_keep, *self.left_out)

    @property
    def message(self) -> str:
        files = counted(len(self.to_keep), "uncommitted file")
        kept = " (will be saved)" if self.to_keep else ""
        commits = f", {counted(self.unmerged_commits, 'unmerged commit')}"
        said = files + kept + (commits if self.unmerged_commits else "")
        gone = f"; will be lost: {', '.join(self.left_out)}" if self.left_out else ""
        return f"{self.worktree.branch}: {said}{gone}."


class BranchFate(StrEnum):
    KEEP = "keep"
    DELETE = "delete"
    """Its commits are saved if nothing else contains them."""


class Removed(Struct, frozen=True, kw_only=True):
    worktree: Worktree
    keep: KeptWork | None = None
    leftover: str = ""
    """A folder still to be deleted; everything in it is saved."""
    branch_deleted: bool = False


class RecoveredWork(Struct, frozen=True, kw_only=True):
    """Result of finishing interrupted removals."""

    keeps: tuple[KeptWork, ...] = ()
    deleted: tuple[str, ...] = ()
    trouble: tuple[str, ...] = ()


class Importable(Struct, frozen=True, kw_only=True):
    """Branches and worktrees that can be imported."""

    branches: tuple[str, ...]
    worktrees: tuple[str, ...]


def counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def digest(*parts: str) -> str:
    return sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


def environment_of(worktree: Worktree, project: str) -> dict[str, str]:
    """Variables for scripts and sessions of a worktree."""
    said = {"WORKTREE_PATH": worktree.path, "REPO_PATH": project}
    if worktree.ports:
        said["WORKTREE_PORT"] = str(worktree.ports.first)
        said["WORKTREE_PORTS"] = str(worktree.ports.size)
    return said
