"""All that can be done with the worktrees of a project, each as one call.

An operation returns what it has done, or the obstacle that was in its way. They block: call them
in a thread. The project must be trusted, for git reads its settings.
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
    VersionsMade,
    Worktree,
    WorktreeState,
    WorktreeStep,
)

P = ParamSpec("P")
R = TypeVar("R")
D = TypeVar("D")


def answered(
    operation: Callable[Concatenate[D, P], R],
) -> Callable[Concatenate[D, P], R | Obstacle]:
    """Obstacles are answers here, not errors; so are a full disk and rights that are lacking."""

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
    """Of one project. `fetching` without protocols keeps git off the network."""

    def __init__(self, project: Path, *, fetching: Fetching | None = None) -> None:
        self._folder = project
        self._fetching = fetching or Fetching()

    @property
    def _project(self) -> Project:
        """Found anew each time: what git must not run is looked up in its settings."""
        return Project(self._folder)

    @answered
    def create(
        self,
        branch: str,
        *,
        label: str = "",
        base: str = "",
        default_base: str = "",
        told: Callable[[WorktreeStep], None] = lambda step: None,
    ) -> Created:
        return create.create(
            self._project,
            self._fetching,
            branch=branch,
            label=label,
            base=base,
            default_base=default_base,
            told=told,
        )

    @answered
    def create_versions(
        self,
        branch: str,
        *,
        label: str,
        versions: int,
        models: Sequence[str] = (),
        base: str = "",
        default_base: str = "",
        group_id: str = "",
        told: Callable[[WorktreeStep], None] = lambda step: None,
        ready: Callable[[int, Created | Obstacle], None] = lambda number, made: None,
    ) -> VersionsMade:
        return create.create_versions(
            self._project,
            self._fetching,
            branch=branch,
            label=label,
            versions=versions,
            models=models,
            base=base,
            default_base=default_base,
            group_id=group_id,
            told=told,
            ready=ready,
        )

    @answered
    def branches(self) -> list[str]:
        """All that work could begin with: that of the project first, then those of remotes."""
        return branch_names.known_branches(self._project)

    @answered
    def copy_included(
        self, worktree: Worktree, progress: Callable[[int, int], None] = lambda done, of: None
    ) -> Copied:
        return checkout_files.copy_included(self._project, worktree, progress)

    @answered
    def listed(self) -> list[Listed]:
        return worktree_project.all_listed(self._project)

    @answered
    def state_of(self, worktree: Worktree) -> WorktreeState:
        return worktree_project.state_of(self._project, worktree)

    @answered
    def resume(self, worktree: Worktree) -> Resumed:
        return reuse.resume(self._project, worktree)

    @answered
    def stage(self, worktree: Worktree) -> Finished:
        return merge.stage(self._project, worktree)

    @answered
    def staged(self, worktree: Worktree) -> list[str]:
        """What is staged and not committed yet."""
        return merge.staged(worktree_project.git_of(self._project, worktree))

    @answered
    def finish(self, worktree: Worktree, message: str = "") -> Finished:
        return merge.finish(self._project, worktree, message)

    @answered
    def plan_apply(self, worktree: Worktree, only: Sequence[str] = ()) -> ApplyPlan:
        return apply.plan_apply(self._project, worktree, only)

    @answered
    def apply(
        self, worktree: Worktree, only: Sequence[str] = (), *, agreed: str | None = None
    ) -> AppliedWork:
        return apply.apply(self._project, worktree, only, agreed=agreed)

    @answered
    def merge(self, worktree: Worktree) -> Merged:
        return merge.merge(self._project, worktree)

    @answered
    def plan_removal(self, worktree: Worktree) -> RemovalPlan:
        return remove.plan_removal(self._project, worktree)

    @answered
    def remove(self, plan: RemovalPlan, fate: BranchFate = BranchFate.KEEP) -> Removed | Forgotten:
        return remove.remove(self._project, plan, fate)

    @answered
    def clear(self, removed: Removed) -> None:
        """Delete what a removal has left, which may take a while."""
        if removed.leftover:
            remove.delete(Path(removed.leftover))

    @answered
    def recover(self) -> RecoveredWork:
        return remove.recover(self._project)

    @answered
    def keeps(self) -> list[Keep]:
        return keep.keeps(self._project.git)

    @answered
    def bring_back(self, keep: Keep, branch: str, *, label: str = "") -> Created:
        return reuse.bring_back(self._project, keep.ref, branch=branch, label=label)

    @answered
    def importable(self) -> Importable:
        return reuse.importable(self._project)

    @answered
    def import_branch(self, branch: str, *, label: str = "", parent: str = "") -> Created:
        return reuse.import_branch(
            self._project, self._fetching, branch, label=label, parent=parent
        )

    @answered
    def import_worktree(self, folder: Path, *, label: str = "", parent: str = "") -> Created:
        return reuse.import_worktree(self._project, folder, label=label, parent=parent)
