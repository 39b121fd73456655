"""Copies of git folders, for as long as a command could destroy them.

A hard link does not protect an object from a program that overwrites it, so objects are copied. Git
itself never overwrites one, so large objects are only linked before a command line that runs
nothing but git. The copy is updated and pruned before the next command, but never pruned while a
command runs, or after one was killed.
"""

import errno
import fcntl
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from rookery.checkpoints.file_restore import move_aside
from rookery.core.limits import MIB

MAX_COPIED = 1024 * MIB
"""Bytes to copy where hard links are not possible, such as to another disk."""
MAX_DUPLICATED = 256 * MIB
"""Bytes of objects to copy before git runs alone; the rest is hard-linked."""
SHARE_OF_FREE_ROOM = 0.5
"""Share of the free disk space that copies of objects may use before other commands."""
_CLONE = 0x40049409
"""Linux's FICLONE request: share blocks between two files until one is changed."""
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class NotEnoughSpace(OSError):
    pass


class GitCopy:
    """The copy of one git folder; both paths are absolute."""

    def __init__(self, git: str, store: Path, user: str, *, shared: bool = False) -> None:
        """`user` is an id of the process that needs the copy. `shared` if others work in the git
        folder at the same time, as in the repository of a worktree."""
        self.git = git
        self.shared = shared
        self.folder = store / hashlib.sha256(os.fsencode(git)).hexdigest()[:16]
        self._mark = f"{self.folder.name}.open-{user}-{os.getpid()}"
        self._budget = 0
        self._duplicated = 0
        self._max_duplicated = 0
        self._only_linked = 0
        self._clones = True
        self.inode = 0
        self.saved_at = 0
        """When the copy was last updated, by the disk's clock, in nanoseconds."""

    def save(self, *, alone: bool) -> None:
        """Update the copy. Raises `OSError`; `NotEnoughSpace` if there is not enough space, or if
        objects could only be linked and git does not run `alone`."""
        self._budget = MAX_COPIED
        self._duplicated = self._only_linked = 0
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        room = int(shutil.disk_usage(self.folder).free * SHARE_OF_FREE_ROOM)
        self._max_duplicated = min(MAX_DUPLICATED, room) if alone else room
        prune = not self._marks()
        mark = self.folder.parent / self._mark
        mark.touch(mode=0o600)
        self.inode = os.lstat(self.git).st_ino
        self._update(self.git, str(self.folder), objects=False, prune=prune)
        mark.touch()
        self.saved_at = mark.stat().st_ctime_ns
        if self._only_linked and not alone:
            size = f"{self._only_linked / MIB:.1f} MiB"
            raise NotEnoughSpace(
                errno.ENOSPC, f"the disk has no space for a copy of {size} of its objects"
            )

    def close(self) -> None:
        """Allow pruning again: the command has ended, and everything lost has been restored."""
        for mark in self._marks():
            if mark.name == self._mark or not _is_running(mark.name.rpartition("-")[2]):
                mark.unlink(missing_ok=True)

    def files(self) -> list[str]:
        """Paths of the files in the copy, relative to it."""
        return sorted(files_in(str(self.folder)))

    def put(self, file: str, aside: Path) -> None:
        """Restore a file to the git folder without following links; what is in the way is moved
        aside. Raises `OSError`."""
        *folders, name = file.split("/")
        at = _open_folder(Path(self.git), folders, aside)
        try:
            make_room(at, name, aside)
            if "objects" in folders and _link(str(self.folder / file), name, at):
                return
            _copy_file(str(self.folder / file), name, at)
        finally:
            os.close(at)

    def duplicate(self, there: Path) -> None:
        """Make another copy, which is not updated."""
        for file in self.files():
            (there / file).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not _link(str(self.folder / file), str(there / file)):
                _copy_file(str(self.folder / file), str(there / file))
        (there / "refs").mkdir(exist_ok=True)

    def _marks(self) -> list[Path]:
        return list(self.folder.parent.glob(f"{self.folder.name}.open-*"))

    def _update(self, here: str, copy: str, *, objects: bool, prune: bool) -> None:
        with os.scandir(here) as scan:
            mine = {entry.name: entry for entry in scan}
        with os.scandir(copy) as scan:
            kept = {entry.name: entry for entry in scan}
        for name, entry in mine.items():
            if name.endswith(".lock"):
                continue
            there = os.path.join(copy, name)
            if entry.is_dir(follow_symlinks=False):
                os.makedirs(there, 0o700, exist_ok=True)
                inside = objects or name == "objects"
                self._update(entry.path, there, objects=inside, prune=prune)
            elif entry.is_file(follow_symlinks=False) and not self._has(entry, kept.get(name)):
                self._copy_entry(entry.path, there, objects=objects)
        for name in kept.keys() - mine.keys() if prune else ():
            _remove(kept[name])

    def _has(self, entry: "os.DirEntry[str]", kept: "os.DirEntry[str] | None") -> bool:
        """Whether copying the file again would not improve the copy."""
        if not kept or entry.inode() != kept.inode():
            return _same(entry, kept)
        if self._can_copy(entry.path):
            return False
        self._only_linked += entry.stat(follow_symlinks=False).st_size
        return True

    def _can_copy(self, file: str) -> bool:
        return self._duplicated + os.lstat(file).st_size <= self._max_duplicated

    def _copy_entry(self, file: str, there: str, *, objects: bool) -> None:
        new = f"{there}.{secrets.token_hex(4)}.lock"
        try:
            size = os.lstat(file).st_size
            if objects and self._clones and self._clone(file, new):
                pass
            elif objects and self._can_copy(file):
                self._duplicated += size
                _copy_file(file, new)
            elif objects and _link(file, new):
                self._only_linked += size
            else:
                self._use_budget(size)
                _copy_file(file, new)
            os.replace(new, there)
        except FileNotFoundError:  # git has removed it meanwhile
            pass
        finally:
            with suppress(FileNotFoundError):
                os.unlink(new)

    def _clone(self, file: str, new: str) -> bool:
        """Try to make a copy that shares its blocks."""
        try:
            _copy_file(file, new, clone=True)
        except OSError as error:
            if error.errno == errno.ENOENT:
                raise
            self._clones = False
            with suppress(FileNotFoundError):
                os.unlink(new)
        return self._clones

    def _use_budget(self, size: int) -> None:
        self._budget -= size
        if self._budget < 0:
            raise NotEnoughSpace(errno.ENOSPC, "it is too large to be copied to another disk")


def drop_copies(store: Path) -> None:
    """Remove all copies, except those of commands that are running or were killed."""
    for copy in store.glob("*") if store.is_dir() else ():
        if copy.is_dir() and not any(store.glob(f"{copy.name}.open-*")):
            shutil.rmtree(copy, ignore_errors=True)


def _is_running(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        pass
    return True


def _same(entry: "os.DirEntry[str]", kept: "os.DirEntry[str] | None") -> bool:
    if kept is None:
        return False
    mine, theirs = entry.stat(follow_symlinks=False), kept.stat(follow_symlinks=False)
    return (mine.st_size, mine.st_mtime_ns) == (theirs.st_size, theirs.st_mtime_ns)


def _remove(entry: "os.DirEntry[str]") -> None:
    if entry.is_dir(follow_symlinks=False):
        shutil.rmtree(entry.path, ignore_errors=True)
    else:
        os.unlink(entry.path)


def _link(file: str, name: str, at: int | None = None) -> bool:
    """Try to make a hard link."""
    try:
        os.link(file, name, dst_dir_fd=at, follow_symlinks=False)
    except OSError:
        return False
    return True


def _copy_file(file: str, name: str, at: int | None = None, *, clone: bool = False) -> None:
    """Copy a file, its mode and times; with `clone` by sharing blocks only. Raises `OSError`."""
    with (
        open(os.open(file, _FILE), "rb") as source,
        open(os.open(name, _NEW_FILE, 0o600, dir_fd=at), "wb") as copy,
    ):
        if clone:
            fcntl.ioctl(copy.fileno(), _CLONE, source.fileno())
        else:
            shutil.copyfileobj(source, copy)
            copy.flush()
        known = os.fstat(source.fileno())
        os.fchmod(copy.fileno(), stat.S_IMODE(known.st_mode))
        os.utime(copy.fileno(), ns=(known.st_atime_ns, known.st_mtime_ns))


def files_in(folder: str, path: str = "") -> Iterator[str]:
    """Paths of the files below a folder. Links are not followed."""
    with suppress(OSError), os.scandir(os.path.join(folder, path)) as scan:
        for entry in scan:
            inner = f"{path}/{entry.name}" if path else entry.name
            if entry.is_dir(follow_symlinks=False):
                yield from files_in(folder, inner)
            elif entry.is_file(follow_symlinks=False):
                yield inner


def _open_folder(root: Path, folders: list[str], aside: Path) -> int:
    """Open the folder; create it if it is missing, or if something else has its name."""
    at = os.open(root.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for name in (root.name, *folders):
        try:
            inner = _enter_folder(at, name, aside)
        finally:
            os.close(at)
        at = inner
    return at


def _enter_folder(at: int, name: str, aside: Path) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(name, flags, dir_fd=at)
    except FileNotFoundError:
        pass
    except NotADirectoryError:
        make_room(at, name, aside)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        make_room(at, name, aside)
    os.mkdir(name, dir_fd=at)
    return os.open(name, flags, dir_fd=at)


def make_room(at: int, name: str, aside: Path) -> None:
    """Rename a folder in place; move a file away, because git would read it among references."""
    try:
        mode = os.stat(name, dir_fd=at, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    free = f"{name}.set-aside-{secrets.token_hex(4)}"
    if stat.S_ISDIR(mode):
        os.rename(name, free, src_dir_fd=at, dst_dir_fd=at)
    else:
        move_aside(at, name, aside / free)
