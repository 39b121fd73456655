"""All operations on the worktrees of a project. Each returns its result, or the `Obstacle` that
prevented it."""

from rookery.manager.worktrees.apply import apply, plan_apply
from rookery.manager.worktrees.checkout_files import copy_included
from rookery.manager.worktrees.create import create, create_versions, known_branches
from rookery.manager.worktrees.forge import (
    create_pull_request,
    fetch_pull_request,
    pull_request,
    review_comments,
)
from rookery.manager.worktrees.keep import keeps
from rookery.manager.worktrees.merge import finish, merge, stage, staged, update
from rookery.manager.worktrees.remove import clear, plan_removal, recover, remove
from rookery.manager.worktrees.reuse import (
    bring_back,
    import_branch,
    import_worktree,
    importable,
    resume,
)
from rookery.platform.worktree_project import ProjectOperations, all_listed, operation, state_of


class WorktreeOperations(ProjectOperations):
    branches = operation(known_branches)
    listed = operation(all_listed)
    state_of = operation(state_of)

    create = operation(create)
    create_versions = operation(create_versions)
    copy_included = operation(copy_included)
    resume = operation(resume)

    stage = operation(stage)
    staged = operation(staged)
    finish = operation(finish)
    plan_apply = operation(plan_apply)
    apply = operation(apply)
    merge = operation(merge)
    update = operation(update)

    plan_removal = operation(plan_removal)
    remove = operation(remove)
    clear = operation(clear)
    recover = operation(recover)

    pull_request = operation(pull_request)
    create_pull_request = operation(create_pull_request)
    review_comments = operation(review_comments)
    fetch_pull_request = operation(fetch_pull_request)

    keeps = operation(keeps)
    bring_back = operation(bring_back)
    importable = operation(importable)
    import_branch = operation(import_branch)
    import_worktree = operation(import_worktree)
