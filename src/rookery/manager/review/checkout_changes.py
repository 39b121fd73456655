"""A checkout, the files in it that differ from its base, and how much that is.

Git is asked, but runs nothing that the repository names: see `worktree_git`. Files that are not
tracked yet are added to a copy of the index, by their names only, so that git also finds renames
among them; nothing is stored in the repository. `Statistics` is asked again and again, and counts
only when something has changed.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from rookery.manager.shown_rows import FileKind, WorktreeStats
from rookery.manager.worktrees.checkout_files import MODULE
from rookery.manager.worktrees.worktree_git import Git, own_index
from rookery.manager.worktrees.worktree_project import Project, git_of
from rookery.manager.worktrees.worktree_values import Worktree

_STATUS = ("status", "--porcelain=v2", "--branch", "-z", "--no-renames", "--untracked-files=all")
_WORDS_BEFORE_PATH = {b"1": 8, b"u": 10, b"?": 1}
_UNRELATED = "It has no commit in common with its base; everything counts as new."
LARGEST_COMPARED = "1m"
MOST_RENAMES = 1000
_WORDS = (
    *("-c", f"core.bigFileThreshold={LARGEST_COMPARED}", "diff", "--raw", "--numstat", "-z"),
    *("--no-abbrev", "--no-color", "--find-renames", f"-l{MOST_RENAMES}"),
)
_MODULES = ("diff", "--cached", "--raw", "-z", "--no-abbrev", "--no-renames")
_KINDS: dict[str, FileKind] = {"A": "added", "D": "removed", "R": "renamed"}
_NO_MODE = "000000"
_IN_CONFLICT = "U"
GitScope: TypeAlias = Literal["branch", "staged", "unstaged"]


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


class RawChange(Struct, frozen=True):
    """A file that differs. `added` and `removed` are None where git counts no lines."""

    path: str
    kind: FileKind
    old_path: str
    old_mode: str
    new_mode: str
    old_id: str
    """Of what git has; empty if there was nothing."""
    new_id: str
    """Of what is staged; empty if what counts is the file itself."""
    added: int | None = None
    removed: int | None = None

    @property
    def is_module(self) -> bool:
        return MODULE in (self.old_mode, self.new_mode)


class RawChanges(Struct, frozen=True, kw_only=True):
    files: tuple[RawChange, ...]
    nested: tuple[str, ...]
    """Folders that are repositories of their own and that git knows nothing of."""


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


def raw_changes(checkout: Checkout, scope: GitScope) -> RawChanges:
    git = checkout.git
    match scope:
        case "staged":
            found = git.run(*_WORDS, "--cached").out
            return RawChanges(files=_sorted(_read(found, staged=True), _modules(git)), nested=())
        case "unstaged":
            with _all_known(git) as (index, nested):
                found = git.run(*_WORDS, variables=index).out
            return RawChanges(files=_sorted(_read(found, staged=False)), nested=nested)
        case "branch":
            tree = checkout.from_tree
            with _all_known(git) as (index, nested):
                found = git.run(*_WORDS, tree, variables=index).out
            files = _sorted(_read(found, staged=False), _modules(git, tree))
            return RawChanges(files=files, nested=nested)


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


@contextmanager
def _all_known(git: Git) -> Iterator[tuple[Mapping[str, str], tuple[str, ...]]]:
    """An index that knows of all files that are not ignored, and what could not be put in it."""
    others = git.names("ls-files", "-o", "--exclude-standard", "-z")
    nested = tuple(path.rstrip("/") for path in others if path.endswith("/"))
    files = [path for path in others if not path.endswith("/")]
    with own_index(git) as index:
        if files:
            given = b"".join(os.fsencode(path) + b"\0" for path in files)
            words = ("--intent-to-add", "--pathspec-from-file=-", "--pathspec-file-nul")
            git.run("add", *words, given=given, variables=index)
        yield index, nested


def _modules(git: Git, *tree: str) -> Iterator[RawChange]:
    """Submodules as they are staged. None is looked into: that would be git in a folder whose
    settings nobody has seen."""
    # the last option counts, and with what is staged alone git visits none
    said = git.run(*_MODULES, "--ignore-submodules=dirty", *tree).out
    return (each for each in _read(said, staged=True) if each.is_module)


def _read(said: bytes, *, staged: bool) -> Iterator[RawChange]:
    """Rows of files first, then rows of counts; each name ends with a NUL."""
    words = iter([os.fsdecode(word) for word in said.split(b"\0")[:-1]])
    files: dict[str, RawChange] = {}
    counts: dict[str, tuple[str, str]] = {}
    for word in words:
        if word.startswith(":"):
            about = word[1:].split()
            change = _file(about, words, staged=staged)
            if about[-1] != _IN_CONFLICT:
                files[change.path] = change
            else:  # git tells of it again, with what is in it
                files.setdefault(change.path, change)
        else:
            added, removed, path = word.split("\t", 2)
            if not path:
                next(words)
                path = next(words)
            counts[path] = (added, removed)
    for path, change in files.items():
        added, removed = counts.get(path, ("-", "-"))
        yield _counted(change, added, removed)


def _file(about: Sequence[str], words: Iterator[str], *, staged: bool) -> RawChange:
    old_mode, new_mode, old_id, new_id, status = about
    first = next(words)
    path = next(words) if status[0] == "R" else first
    return RawChange(
        path=path,
        kind=_KINDS.get(status[0], "changed"),
        old_path=first if status[0] == "R" else "",
        old_mode="" if old_mode == _NO_MODE else old_mode,
        new_mode="" if new_mode == _NO_MODE else new_mode,
        old_id=old_id.strip("0") and old_id,
        new_id=(new_id.strip("0") and new_id) if staged else "",
    )


def _counted(change: RawChange, added: str, removed: str) -> RawChange:
    if not (added.isdecimal() and removed.isdecimal()):
        return change
    return replace(change, added=int(added), removed=int(removed))


def _sorted(*found: Iterator[RawChange]) -> tuple[RawChange, ...]:
    all_of_them = {each.path: each for some in found for each in some}
    return tuple(all_of_them[path] for path in sorted(all_of_them))
