"""Merging two commits in git's own store, where no checkout can come to harm."""

from collections.abc import Sequence

from rookery.manager.worktrees.worktree_git import Git, GitFailed, InTheWay
from rookery.manager.worktrees.worktree_values import Code

_CONFLICT = 1


class Conflict(InTheWay):
    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__(Code.CONFLICT, f"There is a conflict over {', '.join(paths)}.", paths)
        self.paths = tuple(paths)


def merged_tree(git: Git, ours: str, theirs: str) -> str:
    """The tree that a merge would lead to. Raises `Conflict` if it would not go smoothly."""
    tried = git.ask("merge-tree", "--write-tree", "--name-only", "-z", ours, theirs)
    tree, *names = tried.text.split("\0\0", 1)[0].split("\0")
    if tried.status == _CONFLICT:
        raise Conflict(list(dict.fromkeys(filter(None, names))))
    if tried.status:
        raise GitFailed(("merge-tree",), tried.status, tried.errors)
    return tree.strip()
