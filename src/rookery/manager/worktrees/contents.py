"""What a checkout holds, byte by byte, and how that differs from its commit.

Neither the index nor attributes have a say: a file counts as unchanged only if its bytes are the
commit's. So nothing can be hidden from it by a flag of git's or by a conversion.
"""

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from rookery.manager.worktrees.worktree_git import Git, InTheWay
from rookery.manager.worktrees.worktree_values import Code

LINK, PLAIN, PROGRAM, MODULE = "120000", "100644", "100755", "160000"
_CHUNK = 1024 * 1024


class Found(Struct, frozen=True):
    """A file or a link; `seen` changes whenever it does."""

    mode: str
    seen: tuple[int, int, int, int]


class Stored(Struct, frozen=True):
    """A file as git has it."""

    mode: str
    id: str


class Contents(Struct, frozen=True, kw_only=True):
    files: Mapping[str, Found]
    nested: tuple[str, ...]
    """Folders with a repository of their own."""
    unreadable: tuple[str, ...]


def contents_of(folder: Path) -> Contents:
    files: dict[str, Found] = {}
    nested: list[str] = []
    unreadable: list[str] = []
    waiting = [""]
    while waiting:
        inside = waiting.pop()
        try:
            with os.scandir(folder / inside) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            unreadable.append(f"{inside}/")
            continue
        for entry in entries:
            path = f"{inside}/{entry.name}" if inside else entry.name
            there = entry.stat(follow_symlinks=False)
            if entry.name == ".git":
                nested += [inside] if inside else []
            elif stat.S_ISDIR(there.st_mode):
                waiting.append(path)
            elif mode := _mode(there.st_mode):
                seen = (there.st_ino, there.st_size, there.st_mtime_ns, there.st_ctime_ns)
                files[path] = Found(mode, seen)
    return Contents(files=files, nested=tuple(nested), unreadable=tuple(unreadable))


def id_of(path: Path, mode: str, algorithm: str) -> str:
    """The name that git would give a file's bytes as they are."""
    digest = hashlib.new(algorithm, usedforsecurity=False)
    if mode == LINK:
        target = os.fsencode(os.readlink(path))
        digest.update(b"blob %d\0" % len(target) + target)
        return digest.hexdigest()
    with open_plain(path) as file:
        digest.update(b"blob %d\0" % os.fstat(file.fileno()).st_size)
        while data := file.read(_CHUNK):
            digest.update(data)
    return digest.hexdigest()


def open_plain(path: Path) -> BinaryIO:
    """No link is followed, and no pipe waited for."""
    return open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb")


def tree_of(git: Git, commit: str) -> dict[str, Stored]:
    """All files of a commit or tree."""
    if not commit:
        return {}
    lines = git.names("ls-tree", "-r", "-z", "--full-tree", commit)
    split = (line.split("\t", 1) for line in lines)
    return {path: Stored(about.split()[0], about.split()[2]) for about, path in split}


def index_of(git: Git) -> dict[int, dict[str, Stored]]:
    """What is staged, by stage: 0, and for conflicts 1 to 3."""
    staged: dict[int, dict[str, Stored]] = {}
    for line in git.names("ls-files", "-s", "-z"):
        about, path = line.split("\t", 1)
        mode, known, stage = about.split()
        staged.setdefault(int(stage), {})[path] = Stored(mode, known)
    return staged


def changed_files(
    folder: Path,
    contents: Contents,
    committed: Mapping[str, Stored],
    wanted: Callable[[str], bool],
    algorithm: str,
) -> dict[str, Stored]:
    """The wanted files whose bytes or kind are not the commit's, as git would store them."""
    return dict(_changed(folder, contents, committed, wanted, algorithm))


def _changed(
    folder: Path,
    contents: Contents,
    committed: Mapping[str, Stored],
    wanted: Callable[[str], bool],
    algorithm: str,
) -> Iterator[tuple[str, Stored]]:
    for path, found in contents.files.items():
        if path not in committed and not wanted(path):
            continue
        try:
            now = Stored(found.mode, id_of(folder / path, found.mode, algorithm))
        except OSError as error:
            raise InTheWay(
                Code.NOT_KEPT, f"{path} cannot be read ({error.strerror}); see to that.", [path]
            ) from error
        if committed.get(path) != now:
            yield path, now


def _mode(mode: int) -> str:
    """Empty for what holds no bytes: sockets, pipes and devices."""
    if stat.S_ISLNK(mode):
        return LINK
    if not stat.S_ISREG(mode):
        return ""
    return PROGRAM if mode & stat.S_IXUSR else PLAIN


def contents_at(folder: Path, paths: Iterable[str]) -> Contents:
    """Only what is at these paths."""
    files: dict[str, Found] = {}
    for path in paths:
        try:
            there = os.lstat(folder / path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        if mode := _mode(there.st_mode):
            seen = (there.st_ino, there.st_size, there.st_mtime_ns, there.st_ctime_ns)
            files[path] = Found(mode, seen)
    return Contents(files=files, nested=(), unreadable=())
