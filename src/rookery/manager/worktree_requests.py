"""Requests about worktrees, their scripts, editors and pull requests.

Docstrings are the help texts and the descriptions in the schema.
"""

from typing import TypeVar

from rookery.core.queries import Asking
from rookery.manager.shown_rows import (
    Done,
    EditorRow,
    Plan,
    PullRequestRow,
    ScriptLog,
    ScriptRow,
    WorktreeRow,
    WorktreeStats,
)
from rookery.platform.worktree_values import Importable, KeptWork

T = TypeVar("T")


class SessionRequest(Asking[T], frozen=True, kw_only=True):
    session_id: str


class WorktreeRequest(Asking[T], frozen=True, kw_only=True):
    worktree_id: str


class ListWorktrees(Asking[tuple[WorktreeRow, ...]], frozen=True, kw_only=True):
    """List the worktrees."""


class ReadStats(WorktreeRequest[WorktreeStats], frozen=True, kw_only=True):
    """Show how a worktree differs from its base branch."""


class RecreateWorktree(WorktreeRequest[Done], frozen=True, kw_only=True):
    """Recreate the missing folder of a worktree from its branch."""


class FinishWorktree(WorktreeRequest[Done], frozen=True, kw_only=True):
    """Commit all changes in a worktree to its branch."""

    message: str = ""


class PlanApply(WorktreeRequest[Plan], frozen=True, kw_only=True):
    """Show what applying a worktree's changes would do; `paths` limits it to some files."""

    paths: tuple[str, ...] = ()


class ApplyWorktree(WorktreeRequest[Done], frozen=True, kw_only=True):
    paths: tuple[str, ...] = ()
    token: str = ""


class MergeWorktree(WorktreeRequest[Done], frozen=True, kw_only=True):
    """Merge a worktree's branch into its base branch."""


class PlanRemoval(WorktreeRequest[Plan], frozen=True, kw_only=True):
    pass


class RemoveWorktree(WorktreeRequest[Done], frozen=True, kw_only=True):
    """Stop its sessions, save uncommitted work under a git ref, and remove the folder."""

    token: str = ""
    delete_branch: bool = False


class ListImportable(Asking[Importable], frozen=True, kw_only=True):
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


class RunScript(WorktreeRequest[Done], frozen=True, kw_only=True):
    """Start the project's run script in a worktree."""


class StopScript(WorktreeRequest[Done], frozen=True, kw_only=True):
    """Stop the run script of a worktree."""


class ListScripts(Asking[tuple[ScriptRow, ...]], frozen=True, kw_only=True):
    """Print the project's scripts for worktrees."""


class AgreeScript(Asking[Done], frozen=True, kw_only=True):
    """Agree to the script with this digest, until it changes."""

    digest: str


class UpdateWorktree(WorktreeRequest[Done], frozen=True, kw_only=True):
    """Bring the commits of its base branch into a worktree. Conflicts change nothing."""

    rebase: bool = False
    """Put its own commits on top of the base branch instead of merging."""


class ReadScriptLog(WorktreeRequest[ScriptLog], frozen=True, kw_only=True):
    """Print the end of the run script's output."""


class ListEditors(Asking[tuple[EditorRow, ...]], frozen=True, kw_only=True):
    """List the editors that can open a session's folder."""


class OpenEditor(SessionRequest[Done], frozen=True, kw_only=True):
    """Open a session's folder, or a file in it, in an editor on this computer."""

    editor: str = ""
    path: str = ""


class ReadPullRequest(WorktreeRequest[PullRequestRow], frozen=True, kw_only=True):
    """Show the pull request of a worktree's branch, with its checks, as gh or glab reports it."""


class CreatePullRequest(WorktreeRequest[PullRequestRow], frozen=True, kw_only=True):
    """Push a worktree's branch and open a pull request for it, with gh or glab."""

    title: str
    body: str = ""
    draft: bool = False


class BringReviewComments(WorktreeRequest[Done], frozen=True, kw_only=True):
    """Send the review comments of a worktree's pull request to its session."""


class ImportPullRequest(Asking[WorktreeRow], frozen=True, kw_only=True):
    """Import the branch of a pull request as a worktree."""

    number: int
