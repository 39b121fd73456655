"""What is looked at: a worktree or the project itself, and what its files are compared with."""

from msgspec import Struct

from rookery.manager.worktrees.worktree_git import Git
from rookery.manager.worktrees.worktree_project import Project, git_of
from rookery.manager.worktrees.worktree_values import Worktree

_UNRELATED = "It has no commit in common with where it comes from; everything counts as new."


class Checkout(Struct, frozen=True, kw_only=True):
    project: Project
    git: Git
    name: str
    """For references that keep something of it."""
    base: str
    """The commit that it went on from; empty if there is none."""
    parents: tuple[str, ...] = ()
    """Commits that it may be ahead or behind of; the first counts."""
    notes: tuple[str, ...] = ()

    @property
    def from_tree(self) -> str:
        """What to compare with: the base, or nothing at all."""
        return self.base or self.git.said("hash-object", "-t", "tree", "--stdin")


def checkout_of(project: Project, worktree: Worktree | None) -> Checkout:
    """Of the project itself if there is no worktree. Raises `InTheWay` if it is not there."""
    if worktree is None:
        own = project.git.commit("@{upstream}")
        return _based(project, project.git, "project", (own,) if own else ())
    git = git_of(project, worktree)
    parents = parents_of(project, worktree) or (project.git.commit("HEAD"),)
    return _based(project, git, worktree.branch.replace("/", "-") or worktree.id, parents)


def parents_of(project: Project, worktree: Worktree) -> tuple[str, ...]:
    """The tips of what it comes from: on its remote, and here."""
    if not worktree.parent_branch:
        return ()
    names = [f"refs/heads/{worktree.parent_branch}"]
    if worktree.remote:
        names.insert(0, f"refs/remotes/{worktree.remote}/{worktree.parent_branch}")
    return tuple(filter(None, map(project.git.commit, names)))


def _based(project: Project, git: Git, name: str, parents: tuple[str, ...]) -> Checkout:
    head = git.commit("HEAD")
    base = head
    if head and parents:
        base = git.ask("merge-base", "HEAD", *parents).text.strip()
    return Checkout(
        project=project,
        git=git,
        name=name,
        base=base,
        parents=parents,
        notes=(_UNRELATED,) if head and not base else (),
    )
