"""Requests about worktrees: their work, their scripts, and its review."""

from typing import Literal, TypeAlias

from rookery.core.queries import Asking
from rookery.manager.shown_rows import (
    Comment,
    Done,
    FileDiff,
    Importables,
    KeptWork,
    Plan,
    Review,
    ScriptRow,
    Version,
    WorktreeRow,
    WorktreeStats,
)

Scope: TypeAlias = Literal["branch", "staged", "unstaged", "session"]


class ListWorktrees(Asking[tuple[WorktreeRow, ...]], frozen=True, kw_only=True):
    """List the worktrees."""


class ReadStats(Asking[WorktreeStats], frozen=True, kw_only=True):
    """Show how a worktree differs from its base branch."""

    worktree_id: str


class RecreateWorktree(Asking[Done], frozen=True, kw_only=True):
    """Recreate the missing folder of a worktree from its branch."""

    worktree_id: str


class FinishWorktree(Asking[Done], frozen=True, kw_only=True):
    """Commit all changes in a worktree to its branch."""

    worktree_id: str
    message: str = ""


class PlanApply(Asking[Plan], frozen=True, kw_only=True):
    """Show what applying a worktree's changes would do; `paths` limits it to some files."""

    worktree_id: str
    paths: tuple[str, ...] = ()


class ApplyWorktree(Asking[Done], frozen=True, kw_only=True):
    worktree_id: str
    paths: tuple[str, ...] = ()
    token: str = ""


class MergeWorktree(Asking[Done], frozen=True, kw_only=True):
    """Merge a worktree's branch into its base branch."""

    worktree_id: str


class PlanRemoval(Asking[Plan], frozen=True, kw_only=True):
    worktree_id: str


class RemoveWorktree(Asking[Done], frozen=True, kw_only=True):
    """Stop its sessions, save uncommitted work under a git ref, and remove the folder."""

    worktree_id: str
    token: str = ""
    delete_branch: bool = False


class ListImportable(Asking[Importables], frozen=True, kw_only=True):
    """List branches and worktrees that can be imported."""


class ImportWork(Asking[WorktreeRow], frozen=True, kw_only=True):
    """Import a branch or an existing worktree."""

    branch: str = ""
    folder: str = ""


class ListKept(Asking[tuple[KeptWork, ...]], frozen=True, kw_only=True):
    """List work saved when a worktree was removed or a file reverted."""


class BringBack(Asking[WorktreeRow], frozen=True, kw_only=True):
    """Restore saved work into a new worktree on a new BRANCH."""

    ref: str
    branch: str


class RunScript(Asking[Done], frozen=True, kw_only=True):
    """Start the project's run script in a worktree."""

    worktree_id: str


class StopScript(Asking[Done], frozen=True, kw_only=True):
    """Stop the run script of a worktree."""

    worktree_id: str


class ListScripts(Asking[tuple[ScriptRow, ...]], frozen=True, kw_only=True):
    """Print the project's scripts for worktrees."""


class AgreeScript(Asking[Done], frozen=True, kw_only=True):
    """Agree to the script with this digest, until it changes."""

    digest: str


class ReviewChanges(Asking[Review], frozen=True, kw_only=True):
    """List the changes in a worktree, or those of a session without one."""

    session_id: str
    scope: Scope = "branch"


class ReadDiff(Asking[FileDiff], frozen=True, kw_only=True):
    """Show the diff of one file, with `context` lines around each change."""

    session_id: str
    path: str
    scope: Scope = "branch"
    context: int = 3


class RevertFile(Asking[Done], frozen=True, kw_only=True):
    """Restore one file as it was at the base. Its content is saved under a git ref."""

    session_id: str
    path: str
    digest: str


class SendComments(Asking[Done], frozen=True, kw_only=True):
    """Send comments on a diff, as one message to the session."""

    session_id: str
    comments: tuple[Comment, ...]
    text: str = ""


class CompareVersions(Asking[tuple[Version, ...]], frozen=True, kw_only=True):
    group_id: str
