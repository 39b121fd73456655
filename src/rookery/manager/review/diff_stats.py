"""How much there is to look at, asked again and again: cheap as long as nothing has changed."""

import os
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from rookery.manager.review.checkouts import Checkout, checkout_of, parents_of
from rookery.manager.review.raw_changes import RawChange, raw_changes
from rookery.manager.shown_rows import WorktreeStats
from rookery.manager.worktrees.worktree_git import Git
from rookery.manager.worktrees.worktree_project import Project, git_of
from rookery.manager.worktrees.worktree_values import Worktree

_STATUS = ("status", "--porcelain=v2", "--branch", "-z", "--no-renames", "--untracked-files=all")
_WORDS_BEFORE_PATH = {b"1": 8, b"u": 10, b"?": 1}


class _Status(Struct, frozen=True):
    fingerprint: str
    uncommitted: int


class Statistics:
    """Remembers what was counted last of each worktree, by what git said of its state then."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, WorktreeStats]] = {}

    def of(self, project: Project, worktree: Worktree) -> WorktreeStats:
        """Raises `InTheWay` if the worktree is not there."""
        git = git_of(project, worktree)
        seen = _seen(git, parents_of(project, worktree))
        fingerprint, stats = self._known.get(worktree.id, ("", WorktreeStats()))
        if fingerprint == seen.fingerprint:
            return stats
        checkout = checkout_of(project, worktree)
        stats = stats_of(checkout, raw_changes(checkout, "branch").files, seen.uncommitted)
        self._known[worktree.id] = (seen.fingerprint, stats)
        return stats


def stats_of(
    checkout: Checkout, files: Iterable[RawChange], uncommitted: int | None = None
) -> WorktreeStats:
    counted = list(files)
    ahead, behind = _distance(checkout)
    if uncommitted is None:
        uncommitted = _seen(checkout.git, ()).uncommitted
    return WorktreeStats(
        files=len(counted),
        added=sum(each.added or 0 for each in counted),
        removed=sum(each.removed or 0 for each in counted),
        ahead=ahead,
        behind=behind,
        uncommitted=uncommitted,
    )


def _distance(checkout: Checkout) -> tuple[int, int]:
    if not checkout.parents:
        return 0, 0
    said = checkout.git.ask(
        "rev-list", "--left-right", "--count", f"HEAD...{checkout.parents[0]}"
    ).text.split()
    return (int(said[0]), int(said[1])) if len(said) == 2 else (0, 0)


def _seen(git: Git, parents: Iterable[str]) -> _Status:
    said = git.run(*_STATUS).out
    paths = list(_paths(said))
    moments = "\0".join(_moment(git.folder / path) for path in paths)
    parts = (said, moments.encode(), " ".join(parents).encode())
    return _Status(sha256(b"\0".join(parts)).hexdigest(), len(paths))


def _paths(said: bytes) -> Iterator[str]:
    for row in said.split(b"\0"):
        if words := _WORDS_BEFORE_PATH.get(row[:1]):
            yield os.fsdecode(row.split(b" ", words)[words])


def _moment(path: Path) -> str:
    try:
        there = os.lstat(path)
    except OSError:
        return ""
    return f"{there.st_ino} {there.st_size} {there.st_mtime_ns} {there.st_ctime_ns}"
