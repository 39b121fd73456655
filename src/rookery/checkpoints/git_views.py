"""What the repositories of a workspace are, and what git would run or obey in them.

A repository that a command made is harmless if it holds nothing that git would run; `git init`,
`git clone` and `git worktree add` make such ones. Whatever is not known to be harmless counts as
harm.
"""

import os
import re
import stat
from collections.abc import Collection, Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from rookery.checkpoints.snapshot_selection import FolderSearch
from rookery.core.limits import MIB
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

LARGEST = 20 * MIB
"""Bytes of a file that are looked at: what git runs or obeys is small."""
_STATES = (
    "sequencer",
    "rebase-merge",
    "rebase-apply",
    "MERGE_HEAD",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "BISECT_LOG",
)
"""What git leaves in its folder until something that takes several steps has come to its end."""
_UP = re.compile(rb"(?<![\w.])\.\.(?![\w.$])")
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_LARGEST = 64 * 1024
_SECTION = re.compile(r'\[(?P<name>\w+)(?: "[^"\\\n]*")?\]')
_SETTING = re.compile(r"\s*(?P<key>\w+) = (?P<value>[^\"\\\n;#]*)")
_SETTINGS = {
    "core": "repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode "
    "symlinks",
    "extensions": "objectformat refstorage",
    "remote": "url fetch tagopt",
    "branch": "remote merge",
    "submodule": "active url",
    "user": "name email",
}
_LEADING_TO_PROGRAMS = re.compile(r"::|^-")
"""A remote can be a program: `ext::sh -c …`."""
_MUST_NOT_BE = ("config.worktree", "info/attributes", "commondir", "gitdir")
_NOT_IN_A_WORKTREE = ("config", "config.worktree", "hooks", "info/attributes")


class GitEntry(Struct, frozen=True, kw_only=True):
    """What stands in a place: its kind and permissions, and what it holds or where it leads.
    `git` is the git folder it belongs to."""

    git: str
    mode: int
    data: bytes = b""


Picture = dict[str, GitEntry]
"""All that git would run or obey, by its path in the workspace."""


class GitView(Struct, frozen=True, kw_only=True):
    """`whole` if no repository of the workspace can be missing among them. `unfinished` are
    locks, and traces of what git has begun and not ended."""

    obeyed: Picture
    repositories: frozenset[str]
    whole: bool
    unfinished: frozenset[str] = frozenset()

    def of_known(self, path: str) -> bool:
        """Whether it belongs to one of the repositories."""
        return any(path == git or path.startswith(f"{git}/") for git in self.repositories)

    def with_part(self, now: "GitView", git: str) -> "GitView":
        """With a repository, or a part of one, as it is now."""
        part = {at: found for at, found in now.obeyed.items() if f"{at}/".startswith(f"{git}/")}
        return replace(
            self,
            obeyed=self.obeyed | part,
            repositories=self.repositories | ({git} & now.repositories),
        )


def moved_from(known: GitView, now: GitView, path: str) -> str:
    """The repository that was moved to the path with all that git runs or obeys in it; empty if
    none was. One that names folders above it must still lie in the same folder."""
    part = _part(now, path)
    for gone in sorted(known.repositories - now.repositories):
        if part and _part(known, gone) == part:
            beside = _moved_folder(path, gone) == _moved_folder(gone, path)
            if beside or not any(_leads_up(at, found) for at, (_, found) in part.items()):
                return gone
    return ""


def _leads_up(path: str, found: GitEntry) -> bool:
    """Whether it may name a folder above; git runs no samples."""
    return not path.endswith(".sample") and bool(_UP.search(found.data))


def _part(view: GitView, git: str) -> dict[str, tuple[str, GitEntry]]:
    """What is obeyed in a repository, by the path in it."""
    return {
        at.removeprefix(git): (found.git.removeprefix(git), replace(found, git=""))
        for at, found in view.obeyed.items()
        if f"{at}/".startswith(f"{git}/")
    }


def _moved_folder(path: str, other: str) -> str:
    """The folder that holds the first part of a path that is not in another path, from the end."""
    names, others = path.split("/"), other.split("/")
    while names and others and names[-1] == others[-1]:
        names.pop()
        others.pop()
    return "/".join(names[:-1])


class GitEyes:
    """Looks at all repositories of a workspace; what is `private` is none of its business."""

    def __init__(self, root: Path, private: Path) -> None:
        self._root = root
        self._search = FolderSearch(root, lambda path: False, [private])
        self.repositories: frozenset[str] = frozenset()
        """Those that were there at the last look."""
        self._own = _own_part(root)

    def look(self, known: Collection[str]) -> GitView:
        """Where there are too many folders, only repositories that are known are looked at."""
        found = self._search.find([""])
        there = [path for path in {".git", *known} if os.path.lexists(self._root / path)]
        repositories = frozenset((*(found.repositories if found else there), *self._own))
        self.repositories = repositories
        picture: Picture = {}
        unfinished: set[str] = set()
        for git in git_folders([str(self._root / path) for path in sorted(repositories)]):
            unfinished.update(os.path.relpath(path, self._root) for path in _unfinished(git))
            for path in _obeyed(git):
                name = os.path.relpath(path, self._root)
                if thing := self._found(name, os.path.relpath(git, self._root)):
                    picture[name] = thing
        return GitView(
            obeyed=picture,
            repositories=repositories,
            whole=found is not None,
            unfinished=frozenset(unfinished),
        )

    def _found(self, path: str, git: str) -> GitEntry | None:
        *folders, name = path.split("/")
        try:
            with opened_folder(self._root, folders) as folder:
                at = present(folder)
                mode = os.stat(name, dir_fd=at, follow_symlinks=False).st_mode
                return GitEntry(git=git, mode=mode, data=_content(at, name, mode))
        except OSError:
            return None  # it has gone, or a link has come in its way, which is found itself


def _own_part(root: Path) -> tuple[str, ...]:
    """The folder that a linked worktree has in its repository, which lies outside."""
    whole = os.path.realpath(root)
    if os.path.isdir(git := os.path.join(whole, ".git")) or not os.path.lexists(git):
        return ()
    common = common_folder(whole)
    return (os.path.relpath(committing_parts(whole, common)[-1], whole),) if common else ()


def _obeyed(git: str) -> Iterator[str]:
    """The paths in a git folder that matter, and links that stand on the way to them."""
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
    """What a file holds, or where a link leads; nothing else is opened."""
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
    """Of a `.git`: a folder, or a file that leads to one of the `sound` ones. All of these are
    whole paths."""
    if is_folder(git):
        inner = tuple(inner_git_folders(git))
        return _is_plain(git) and all(is_harmless_worktree(each, root, {git}) for each in inner)
    folder = _led_to(git)
    return bool(folder) and is_harmless_worktree(os.path.realpath(folder), root, sound)


def is_harmless_worktree(folder: str, root: str, sound: Collection[str]) -> bool:
    """Of the part that a sound repository has for a linked worktree, if that lies in the
    workspace and leads back."""
    named = _text(os.path.join(folder, "gitdir")).strip()
    return (
        os.path.dirname(folder) in [os.path.join(git, "worktrees") for git in sound]
        and is_folder(folder)
        and not any(os.path.lexists(os.path.join(folder, part)) for part in _NOT_IN_A_WORKTREE)
        and not any(os.path.islink(entry) for entry in entries(folder))
        and _text(os.path.join(folder, "commondir")).strip() == "../.."
        and os.path.realpath(named).startswith(f"{root}/")
        and os.path.realpath(_led_to(named)) == folder
    )


def _is_plain(git: str) -> bool:
    """Whether it has no programs, and leads nowhere."""
    return (
        not leads_elsewhere(git)
        and not any(links_inside(git))
        and not any(os.path.lexists(os.path.join(git, part)) for part in _MUST_NOT_BE)
        and all(_is_sample(hook) for hook in entries(os.path.join(git, "hooks")))
        and _says_nothing_harmful(os.path.join(git, "config"))
    )


def _led_to(git: str) -> str:
    """The folder that a `.git` file names."""
    named = _text(git)
    if not named.startswith("gitdir: "):
        return ""
    return os.path.join(os.path.dirname(git), named.removeprefix("gitdir: ").strip())


def _is_sample(hook: str) -> bool:
    return hook.endswith(".sample") and os.path.isfile(hook) and not os.path.islink(hook)


def _says_nothing_harmful(config: str) -> bool:
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
    return known and not _LEADING_TO_PROGRAMS.search(found["value"].strip())


def _text(file: str) -> str:
    """What is in a regular file; something unheard-of if it is too long or none."""
    data = regular_content(file, _LARGEST + 1)
    if data is None or len(data) > _LARGEST:
        return "\0"
    return data.decode("utf-8", "surrogateescape")
