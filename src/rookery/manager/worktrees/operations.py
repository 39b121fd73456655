"""All operations on the worktrees of a project.

Each returns its result, or the `Obstacle` that prevented it. They block: call them in a thread. The
project must be trusted, because git reads its settings.
"""

import errno
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from rookery.manager.worktrees import (
    apply,
    branch_names,
    checkout_files,
    create,
    keep,
    merge,
    remove,
    reuse,
    worktree_project,
)
from rookery.manager.worktrees.create import Fetching
from rookery.manager.worktrees.worktree_git import InTheWay
from rookery.manager.worktrees.worktree_project import Project
from rookery.manager.worktrees.worktree_values import (
    AppliedWork,
    ApplyPlan,
    BranchFate,
    Code,
    Copied,
    Created,
    Finished,
    Forgotten,
    Importable,
    Keep,
    Listed,
    Merged,
    Obstacle,
    RecoveredWork,
    RemovalPlan,
    Removed,
    Resumed,
    Worktree,
    WorktreeState,
    WorktreeStep,
)

P = ParamSpec("P")
R = TypeVar("R")
D = TypeVar("D")


def returns_obstacles(
    operation: Callable[Concatenate[D, P], R],
) -> Callable[Concatenate[D, P], R | Obstacle]:
    """Decorator that returns obstacles, and file system errors as obstacles, instead of raising."""

    @wraps(operation)
    def answer(self: D, /, *given: P.args, **named: P.kwargs) -> R | Obstacle:
        try:
            return operation(self, *given, **named)
        except InTheWay as error:
            return error.obstacle
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            where = f" ({error.filename})" if error.filename else ""
            return Obstacle(
                code=Code.DISK_FULL if full else Code.GIT_FAILED,
                text=f"The system refused{where}: {error.strerror}.",
            )

    return answer


class WorktreeOperations:
    """Operations on one project. Without protocols in `fetching`, git does not use the network."""

    def __init__(self, project: Path, *, fetching: Fetching | None = None) -> None:
        self._folder = project
        self._fetching = fetching or Fetching()

    @property
    def _project(self) -> Project:
        """Created for each call: the programs to disable are read from the current git settings."""
        return Project(self._folder)

    @returns_obstacles
    def create(
        self,
        branch: str,
        *,
        label: str = "",
        base: str = "",
        on_step: Callable[[WorktreeStep], None] = lambda step: None,
    ) -> Created:
        return create.create(
            self._project,
            self._fetching,
            branch=branch,
            label=label,
            base=base,
            on_step=on_step,
        )

    @returns_obstacles
    def create_versions(
        self,
        branch: str,
        *,
        label: str,
        versions: int,
        base: str = "",
        group_id: str = "",
        on_step: Callable[[WorktreeStep], None] = lambda step: None,
        on_ready: Callable[[int, Created | Obstacle], None] = lambda number, made: None,
    ) -> None:
        """Calls `on_ready` for each version. Returns an obstacle only if none could be created."""
        create.create_versions(
            self._project,
            self._fetching,
            branch=branch,
            label=label,
            versions=versions,
            base=base,
            group_id=group_id,
            on_step=on_step,
            on_ready=on_ready,
        )

    @returns_obstacles
    def branches(self) -> list[str]:
        """Branches to start from: local ones first, then those of remotes."""
        return branch_names.known_branches(self._project)

    @returns_obstacles
    def copy_included(
        self, worktree: Worktree, progress: Callable[[int, int], None] = lambda done, of: None
    ) -> Copied:
        return checkout_files.copy_included(self._project, worktree, progress)

    @returns_obstacles
    def listed(self) -> list[Listed]:
        return worktree_project.all_listed(self._project)

    @returns_obstacles
    def state_of(self, worktree: Worktree) -> WorktreeState:
        return worktree_project.state_of(self._project, worktree)

    @returns_obstacles
    def resume(self, worktree: Worktree) -> Resumed:
        return reuse.resume(self._project, worktree)

    @returns_obstacles
    def stage(self, worktree: Worktree) -> Finished:
        return merge.stage(self._project, worktree)

    @returns_obstacles
    def staged(self, worktree: Worktree) -> list[str]:
        """Files that are staged and not committed."""
        return merge.staged(worktree_project.git_of(self._project, worktree))

    @returns_obstacles
    def finish(self, worktree: Worktree, message: str = "") -> Finished:
        return merge.finish(self._project, worktree, message)

    @returns_obstacles
    def plan_apply(self, worktree: Worktree, only: Sequence[str] = ()) -> ApplyPlan:
        return apply.plan_apply(self._project, worktree, only)

    @returns_obstacles
    def apply(
        self, worktree: Worktree, only: Sequence[str] = (), *, agreed: str | None = None
    ) -> AppliedWork:
        return apply.apply(self._project, worktree, only, agreed=agreed)

    @returns_obstacles
    def merge(self, worktree: Worktree) -> Merged:
        return merge.merge(self._project, worktree)

    @returns_obstacles
    def plan_removal(self, worktree: Worktree) -> RemovalPlan:
        return remove.plan_removal(self._project, worktree)

    @returns_obstacles
    def remove(self, plan: RemovalPlan, fate: BranchFate = BranchFate.KEEP) -> Removed | Forgotten:
        return remove.remove(self._project, plan, fate)

    @returns_obstacles
    def clear(self, removed: Removed) -> None:
        """Delete the folder that a removal left, which may take a while."""
        if removed.leftover:
            remove.delete(Path(removed.leftover))

    @returns_obstacles
    def recover(self) -> RecoveredWork:
        return remove.recover(self._project)

    @returns_obstacles
    def keeps(self) -> list[Keep]:
        return keep.keeps(self._project.git)

    @returns_obstacles
    def bring_back(self, keep: Keep, branch: str, *, label: str = "") -> Created:
        return reuse.bring_back(self._project, keep.ref, branch=branch, label=label)

    @returns_obstacles
    def importable(self) -> Importable:
        return reuse.importable(self._project)

    @returns_obstacles
    def import_branch(self, branch: str, *, label: str = "", parent: str = "") -> Created:
        return reuse.import_branch(
            self._project, self._fetching, branch, label=label, parent=parent
        )

    @returns_obstacles
    def import_worktree(self, folder: Path, *, label: str = "", parent: str = "") -> Created:
        return reuse.import_worktree(self._project, folder, label=label, parent=parent)
