"""The repositories of a workspace, and the files in them that git executes or obeys.

A repository made by a command is harmless if git would run nothing from it, such as the result of
`git init`, `git clone` and `git worktree add`. Everything that is not known to be harmless counts
as harmful.
"""

import os
import stat
from collections.abc import Collection, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from rookery.checkpoints.shadow_repository import ShadowRepository
from rookery.core.limits import MIB
from rookery.first_use import lazy_pattern
from rookery.platform.descriptors import opened_folder, present
from rookery.platform.git_folders import (
    committing_parts,
    common_folder,
    entries,
    git_folders,
    git_programs,
    inner_git_folders,
    is_folder,
    leads_elsewhere,
    links_inside,
    regular_content,
)

if TYPE_CHECKING:
    from rookery.checkpoints.stat_index import FolderSearch

LARGEST = 20 * MIB
"""Bytes that are read of a file: files that git executes or obeys are small."""
_STATES = (
    *("sequencer", "rebase-merge", "rebase-apply", "MERGE_HEAD", "CHERRY_PICK_HEAD"),
    *("REVERT_HEAD", "BISECT_LOG"),
)
"""Files that git keeps while an operation of several steps is unfinished."""
_UP = lazy_pattern(rb"(?<![\w.])\.\.(?![\w.$])")
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_LARGEST = 64 * 1024
_SECTION = lazy_pattern(r'\[(?P<name>\w+)(?: "[^"\\\n]*")?\]')
_SETTING = lazy_pattern(r"\s*(?P<key>\w+) = (?P<value>[^\"\\\n;#]*)")
_SETTINGS = {
    "core": "repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode "
    "symlinks",
    "extensions": "objectformat refstorage",
    "remote": "url fetch tagopt",
    "branch": "remote merge",
    "submodule": "active url",
    "user": "name email",
}
_PROGRAM_REMOTE = lazy_pattern(r"::|^-")
"""A remote can be a program: `ext::sh -c …`."""
_FORBIDDEN_FILES = ("config.worktree", "info/attributes", "commondir", "gitdir")
_NOT_IN_A_WORKTREE = ("config", "config.worktree", "hooks", "info/attributes")


class GitEntry(Struct, frozen=True, kw_only=True):
    """Mode, and content or link target, of a file in the git folder `git`."""

    git: str
    mode: int
    data: bytes = b""


GitEntries = dict[str, GitEntry]
"""Everything that git would execute or obey, by its path in the workspace."""


class GitView(Struct, frozen=True, kw_only=True):
    """State of the workspace's repositories. `whole` if all of them were found. `unfinished` are
    locks and the state files of unfinished git operations."""

    obeyed: GitEntries
    repositories: frozenset[str]
    whole: bool
    unfinished: frozenset[str] = frozenset()

    def contains(self, path: str) -> bool:
        """Whether the path is in one of the repositories."""
        return any(path == git or path.startswith(f"{git}/") for git in self.repositories)

    def with_part(self, now: "GitView", git: str) -> "GitView":
        """A view in which a repository, or a part of one, is replaced by its state in `now`."""
        part = {at: found for at, found in now.obeyed.items() if f"{at}/".startswith(f"{git}/")}
        return replace(
            self,
            obeyed=self.obeyed | part,
            repositories=self.repositories | ({git} & now.repositories),
        )


def moved_from(known: GitView, now: GitView, path: str) -> str:
    """The old path of a repository that was moved to `path` unchanged; empty if none was. One
    with relative paths that lead out of it must still be in the same folder."""
    part = _part(now, path)
    for gone in sorted(known.repositories - now.repositories):
        if part and _part(known, gone) == part:
            beside = _moved_folder(path, gone) == _moved_folder(gone, path)
            if beside or not any(_leads_up(at, found) for at, (_, found) in part.items()):
                return gone
    return ""


def _leads_up(path: str, found: GitEntry) -> bool:
    """Whether the file may refer to a parent folder; samples are never run."""
    return not path.endswith(".sample") and bool(_UP.search(found.data))


def _part(view: GitView, git: str) -> dict[str, tuple[str, GitEntry]]:
    """The obeyed files of a repository, by their path in it."""
    return {
        at.removeprefix(git): (found.git.removeprefix(git), replace(found, git=""))
        for at, found in view.obeyed.items()
        if f"{at}/".startswith(f"{git}/")
    }


def _moved_folder(path: str, other: str) -> str:
    """The folder in which the move from one path to the other took place."""
    names, others = path.split("/"), other.split("/")
    while names and others and names[-1] == others[-1]:
        names.pop()
        others.pop()
    return "/".join(names[:-1])


class GitScanner:
    """Looks at all repositories of a workspace, except in the `private` folder. `checkpoints` are
    the shadow repositories of all workspaces."""

    def __init__(self, root: Path, private: Path, checkpoints: Path | None = None) -> None:
        self._root = root
        self._private = private
        self._checkpoints = checkpoints
        self.repositories: frozenset[str] = frozenset()
        """The repositories that the last look found."""
        self._own = _worktree_folder(root)

    def scan(self, known: Collection[str]) -> GitView:
        """Return the current state. In a workspace with too many folders, only known
        repositories are checked."""
        found = self._search.find([""])
        there = [path for path in {".git", *known} if os.path.lexists(self._root / path)]
        repositories = frozenset((*(found.repositories if found else there), *self._own))
        self.repositories = repositories
        obeyed: GitEntries = {}
        unfinished: set[str] = set()
        for git in git_folders([str(self._root / path) for path in sorted(repositories)]):
            unfinished.update(os.path.relpath(path, self._root) for path in _unfinished(git))
            for path in _obeyed(git):
                name = os.path.relpath(path, self._root)
                if thing := self._found(name, os.path.relpath(git, self._root)):
                    obeyed[name] = thing
        return GitView(
            obeyed=obeyed,
            repositories=repositories,
            whole=found is not None,
            unfinished=frozenset(unfinished),
        )

    @cached_property
    def _search(self) -> "FolderSearch":
        from rookery.checkpoints.stat_index import FolderSearch

        home = self._checkpoints
        file = ShadowRepository(home, self._root).folder / "git_folders" if home else None
        return FolderSearch(self._root, lambda path: False, [self._private], file)

    def _found(self, path: str, git: str) -> GitEntry | None:
        *folders, name = path.split("/")
        try:
            with opened_folder(self._root, folders) as folder:
                at = present(folder)
                mode = os.stat(name, dir_fd=at, follow_symlinks=False).st_mode
                return GitEntry(git=git, mode=mode, data=_content(at, name, mode))
        except OSError:
            return None  # removed, or behind a link, which is reported itself


def _worktree_folder(root: Path) -> tuple[str, ...]:
    """The folder of a linked worktree inside its repository, which is outside the workspace."""
    whole = os.path.realpath(root)
    if os.path.isdir(git := os.path.join(whole, ".git")) or not os.path.lexists(git):
        return ()
    common = common_folder(whole)
    return (os.path.relpath(committing_parts(whole, common)[-1], whole),) if common else ()


def _obeyed(git: str) -> Iterator[str]:
    """Paths in a git folder that git executes or obeys, and links on the way to them."""
    if not is_folder(git):
        yield git
        return
    yield from links_inside(git)
    for part in git_programs(git):
        on_the_way = os.path.dirname(part)
        if on_the_way != git and not is_folder(on_the_way):
            yield on_the_way
        elif is_folder(part):
            yield from (entry for entry in entries(part) if not is_folder(entry))
        else:
            yield part


def _unfinished(git: str) -> Iterator[str]:
    for entry in entries(git):
        name = os.path.basename(entry)
        if name in _STATES or name.endswith(".lock"):
            yield entry


def _content(at: int, name: str, mode: int) -> bytes:
    """Content of a file or target of a link; nothing else is opened."""
    if stat.S_ISLNK(mode):
        return os.fsencode(os.readlink(name, dir_fd=at))
    if not stat.S_ISREG(mode):
        return b""
    try:
        with open(os.open(name, _FILE, dir_fd=at), "rb") as file:
            return file.read(LARGEST) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
    except PermissionError:
        return b""


def is_harmless(git: str, root: str, sound: Collection[str]) -> bool:
    """Whether a `.git` is harmless: a plain folder, or a file that points into one of the
    `sound` repositories. All paths are absolute."""
    if is_folder(git):
        inner = tuple(inner_git_folders(git))
        return _is_plain(git) and all(is_harmless_worktree(each, root, {git}) for each in inner)
    folder = _gitdir_target(git)
    return bool(folder) and is_harmless_worktree(os.path.realpath(folder), root, sound)


def is_harmless_worktree(folder: str, root: str, sound: Collection[str]) -> bool:
    """Whether a sound repository's folder for a linked worktree is harmless: the worktree is in
    the workspace and points back."""
    named = _text(os.path.join(folder, "gitdir")).strip()
    return (
        os.path.dirname(folder) in [os.path.join(git, "worktrees") for git in sound]
        and is_folder(folder)
        and not any(os.path.lexists(os.path.join(folder, part)) for part in _NOT_IN_A_WORKTREE)
        and not any(os.path.islink(entry) for entry in entries(folder))
        and _text(os.path.join(folder, "commondir")).strip() == "../.."
        and os.path.realpath(named).startswith(f"{root}/")
        and os.path.realpath(_gitdir_target(named)) == folder
    )


def _is_plain(git: str) -> bool:
    """Whether the git folder has no programs, and refers to no other folder."""
    return (
        not leads_elsewhere(git)
        and not any(links_inside(git))
        and not any(os.path.lexists(os.path.join(git, part)) for part in _FORBIDDEN_FILES)
        and all(_is_sample(hook) for hook in entries(os.path.join(git, "hooks")))
        and _is_harmless_config(os.path.join(git, "config"))
    )


def _gitdir_target(git: str) -> str:
    """The folder that a `.git` file points to; empty if it points to none."""
    named = _text(git)
    if not named.startswith("gitdir: "):
        return ""
    return os.path.join(os.path.dirname(git), named.removeprefix("gitdir: ").strip())


def _is_sample(hook: str) -> bool:
    return hook.endswith(".sample") and os.path.isfile(hook) and not os.path.islink(hook)


def _is_harmless_config(config: str) -> bool:
    section = ""
    for line in _text(config).splitlines():
        if found := _SECTION.fullmatch(line.strip()):
            section = found["name"].lower()
        elif not _is_harmless_setting(section, line):
            return False
    return os.path.isfile(config)


def _is_harmless_setting(section: str, line: str) -> bool:
    found = _SETTING.fullmatch(line)
    if not found:
        return not line.strip()
    known = found["key"].lower() in _SETTINGS.get(section, "").split()
    return known and not _PROGRAM_REMOTE.search(found["value"].strip())


def _text(file: str) -> str:
    """Content of a regular file; a NUL, which matches nothing, if it is too long or no file."""
    data = regular_content(file, _LARGEST + 1)
    if data is None or len(data) > _LARGEST:
        return "\0"
    return data.decode("utf-8", "surrogateescape")
