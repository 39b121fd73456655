"""The files of a checkout that differ from its base, and statistics about them.

Git runs nothing that the repository names: see `worktree_git`. Untracked files are added to a copy
of the index, by name only, so that git finds renames among them; nothing is stored in the
repository. `stats_since` is called often, and counts only if something has changed.
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
from rookery.platform.worktree_git import Git, own_index
from rookery.platform.worktree_project import Project, git_of
from rookery.platform.worktree_values import Worktree

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
    """Used in references that save its files."""
    base: str
    """The commit it started from; empty if there is none."""
    parents: tuple[str, ...] = ()
    """Tips of the parent branch, on the remote and locally; ahead and behind refer to the first."""
    notes: tuple[str, ...] = ()

    @property
    def from_tree(self) -> str:
        """The tree to compare with: the base, or the empty tree."""
        return self.base or self.git.output("hash-object", "-t", "tree", "--stdin")


class RawChange(Struct, frozen=True):
    """A changed file. `added` and `removed` are None if git counted no lines."""

    path: str
    kind: FileKind
    old_path: str
    old_mode: str
    new_mode: str
    old_id: str
    """Object id of the old content; empty if there was none."""
    new_id: str
    """Object id of the staged content; empty if the file on disk counts."""
    added: int | None = None
    removed: int | None = None

    @property
    def is_module(self) -> bool:
        return MODULE in (self.old_mode, self.new_mode)


class RawChanges(Struct, frozen=True, kw_only=True):
    files: tuple[RawChange, ...]
    nested: tuple[str, ...]
    """Folders that are untracked repositories."""


class _Status(Struct, frozen=True):
    fingerprint: str
    uncommitted: int


KnownStats: TypeAlias = dict[str, tuple[str, WorktreeStats]]
"""Statistics by worktree, each with a fingerprint of what was counted."""


def stats_since(project: Project, known: KnownStats, worktree: Worktree) -> WorktreeStats:
    """Statistics of a worktree, counted only if something changed since they were `known`. Raises
    `InTheWay` if the worktree is missing."""
    git = git_of(project, worktree)
    seen = _status(git, parents_of(project, worktree))
    fingerprint, stats = known.get(worktree.id, ("", WorktreeStats()))
    if fingerprint == seen.fingerprint:
        return stats
    checkout = checkout_of(project, worktree)
    stats = stats_of(checkout, raw_changes(checkout, "branch").files, seen.uncommitted)
    known[worktree.id] = (seen.fingerprint, stats)
    return stats


def checkout_of(project: Project, worktree: Worktree | None) -> Checkout:
    """The checkout of a worktree, or of the project. Raises `InTheWay` if it is missing."""
    if worktree is None:
        own = project.git.commit("@{upstream}")
        return _checkout(project, project.git, "project", (own,) if own else ())
    git = git_of(project, worktree)
    parents = parents_of(project, worktree) or (project.git.commit("HEAD"),)
    return _checkout(project, git, worktree.branch.replace("/", "-") or worktree.id, parents)


def parents_of(project: Project, worktree: Worktree) -> tuple[str, ...]:
    """Tips of its parent branch: on its remote, and local."""
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
            with _full_index(git) as (index, nested):
                found = git.run(*_WORDS, variables=index).out
            return RawChanges(files=_sorted(_read(found, staged=False)), nested=nested)
        case "branch":
            tree = checkout.from_tree
            with _full_index(git) as (index, nested):
                found = git.run(*_WORDS, tree, variables=index).out
            files = _sorted(_read(found, staged=False), _modules(git, tree))
            return RawChanges(files=files, nested=nested)


def stats_of(
    checkout: Checkout, files: Iterable[RawChange], uncommitted: int | None = None
) -> WorktreeStats:
    counted = list(files)
    ahead, behind = _distance(checkout)
    if uncommitted is None:
        uncommitted = _status(checkout.git, ()).uncommitted
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
    output = checkout.git.ask(
        "rev-list", "--left-right", "--count", f"HEAD...{checkout.parents[0]}"
    ).text.split()
    return (int(output[0]), int(output[1])) if len(output) == 2 else (0, 0)


def _status(git: Git, parents: Iterable[str]) -> _Status:
    output = git.run(*_STATUS).out
    paths = list(_paths(output))
    moments = "\0".join(_moment(git.folder / path) for path in paths)
    parts = (output, moments.encode(), " ".join(parents).encode())
    return _Status(sha256(b"\0".join(parts)).hexdigest(), len(paths))


def _paths(output: bytes) -> Iterator[str]:
    for row in output.split(b"\0"):
        if words := _WORDS_BEFORE_PATH.get(row[:1]):
            yield os.fsdecode(row.split(b" ", words)[words])


def _moment(path: Path) -> str:
    try:
        there = os.lstat(path)
    except OSError:
        return ""
    return f"{there.st_ino} {there.st_size} {there.st_mtime_ns} {there.st_ctime_ns}"


def _checkout(project: Project, git: Git, name: str, parents: tuple[str, ...]) -> Checkout:
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
def _full_index(git: Git) -> Iterator[tuple[Mapping[str, str], tuple[str, ...]]]:
    """Yield an index with all files that are not ignored, and the nested repositories."""
    others = git.names("ls-files", "-o", "--exclude-standard", "-z")
    nested = tuple(path.rstrip("/") for path in others if path.endswith("/"))
    files = [path for path in others if not path.endswith("/")]
    with own_index(git) as index:
        if files:
            words = ("--intent-to-add", "--pathspec-from-file=-", "--pathspec-file-nul")
            git.run("add", *words, given=files, variables=index)
        yield index, nested


def _modules(git: Git, *tree: str) -> Iterator[RawChange]:
    """Changes of submodules in the index. Their folders are not examined: git would use their
    settings, which are not trusted."""
    # the last option wins, and with --cached git enters no submodule
    output = git.run(*_MODULES, "--ignore-submodules=dirty", *tree).out
    return (each for each in _read(output, staged=True) if each.is_module)


def _read(output: bytes, *, staged: bool) -> Iterator[RawChange]:
    """Parse the output: rows of files, then rows of counts; each name ends with a NUL."""
    words = iter([os.fsdecode(word) for word in output.split(b"\0")[:-1]])
    files: dict[str, RawChange] = {}
    counts: dict[str, tuple[str, str]] = {}
    for word in words:
        if word.startswith(":"):
            about = word[1:].split()
            change = _file(about, words, staged=staged)
            if about[-1] != _IN_CONFLICT:
                files[change.path] = change
            else:  # git reports it again, with its content
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
