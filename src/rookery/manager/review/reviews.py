"""All that can be looked at in the worktrees of a project, each as one call.

Like `WorktreeDesk`: what is in the way is an answer, everything blocks, and the project must be
trusted.
"""

from pathlib import Path

from rookery.manager.review import changed_files as listing
from rookery.manager.review import file_diffs
from rookery.manager.review import revert as reverting
from rookery.manager.review.checkouts import checkout_of
from rookery.manager.review.diff_stats import Statistics
from rookery.manager.review.file_diffs import TextDiff
from rookery.manager.review.raw_changes import GitScope
from rookery.manager.review.revert import Reverted
from rookery.manager.shown_rows import Review, WorktreeStats
from rookery.manager.worktrees.operations import answered
from rookery.manager.worktrees.worktree_project import Project
from rookery.manager.worktrees.worktree_values import Worktree


class ReviewDesk:
    """Of one project. Where no worktree is given, the project itself is looked at."""

    def __init__(self, project: Path) -> None:
        self._folder = project
        self._statistics = Statistics()

    @property
    def _project(self) -> Project:
        """Found anew each time: what git must not run is looked up in its settings."""
        return Project(self._folder)

    @answered
    def changes(self, worktree: Worktree | None, scope: GitScope) -> Review:
        return listing.changes_of(checkout_of(self._project, worktree), scope)

    @answered
    def diff(
        self, worktree: Worktree | None, scope: GitScope, path: str, *, context: int = 3
    ) -> TextDiff:
        checkout = checkout_of(self._project, worktree)
        return file_diffs.diff_of(checkout, scope, path, context=context)

    @answered
    def revert(self, worktree: Worktree | None, path: str, digest: str) -> Reverted:
        return reverting.revert(checkout_of(self._project, worktree), path, digest)

    @answered
    def revert_to(
        self, worktree: Worktree | None, path: str, *, now: bytes | None, then: bytes | None
    ) -> Reverted:
        """A file to other bytes than those it holds."""
        return reverting.revert_to(checkout_of(self._project, worktree), path, now=now, then=then)

    @answered
    def stats(self, worktree: Worktree) -> WorktreeStats:
        return self._statistics.of(self._project, worktree)
