"""Which files differ, as git tells it: with what is not tracked yet, and nothing stored for it.

Nothing that a repository names is run: see `worktrees.git`. Files that are not tracked are made
known to an index of our own, by their names only, so that git also finds what was moved.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from rookery.manager.review.checkouts import Checkout
from rookery.manager.shown_rows import FileKind
from rookery.manager.worktrees.checkout_files import MODULE
from rookery.manager.worktrees.worktree_git import Git, own_index

GitScope: TypeAlias = Literal["branch", "staged", "unstaged"]

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
