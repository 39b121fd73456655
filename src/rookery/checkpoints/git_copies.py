"""A second copy of what git folders hold, for as long as a command could destroy it.

A second name for an object does not help against a program that overwrites it, so objects are
copied too. Git never overwrites one: before a line that runs git alone, a second name will do
for what is above some size. A copy is brought up
to date before the next command, and what is gone by then goes from it too. As long
as a command runs, or was killed while it ran, nothing is ever taken out of the copy.
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

MOST_COPIED = 1024 * MIB
"""Bytes that are copied where a second name is not possible, such as on another disk."""
MOST_DUPLICATED = 256 * MIB
"""Bytes of objects that are copied before git runs alone, although a second name is possible."""
SHARE_OF_FREE_ROOM = 0.5
"""How much of the free room on the disk copies of objects may take before another command."""
_CLONE = 0x40049409
"""Linux's request to let two files share their blocks until one is changed (FICLONE)."""
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class TooMuch(OSError):
    pass


class GitCopy:
    """The copy of one git folder. Both are absolute paths."""

    def __init__(self, git: str, store: Path, user: str, *, shared: bool = False) -> None:
        """`user` is whoever needs the copy, in a word. `shared` if others work in the folder at
        the same time: the repository of a worktree."""
        self.git = git
        self.shared = shared
        self.folder = store / hashlib.sha256(os.fsencode(git)).hexdigest()[:16]
        self._mark = f"{self.folder.name}.open-{user}-{os.getpid()}"
        self._budget = 0
        self._duplicated = 0
        self._most_duplicated = 0
        self._only_linked = 0
        self._clones = True
        self.inode = 0
        self.saved_at = 0
        """When it was last up to date, by the clock of the disk, in nanoseconds."""

    def save(self, *, alone: bool) -> None:
        """Bring it up to date. Raises `OSError`; `TooMuch` if it would take too much room, or if
        objects have only a second name and other programs run than git `alone`."""
        self._budget = MOST_COPIED
        self._duplicated = self._only_linked = 0
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        room = int(shutil.disk_usage(self.folder).free * SHARE_OF_FREE_ROOM)
        self._most_duplicated = min(MOST_DUPLICATED, room) if alone else room
        prune = not self._marks()
        mark = self.folder.parent / self._mark
        mark.touch(mode=0o600)
        self.inode = os.lstat(self.git).st_ino
        self._update(self.git, str(self.folder), objects=False, prune=prune)
        mark.touch()
        self.saved_at = mark.stat().st_ctime_ns
        if self._only_linked and not alone:
            size = f"{self._only_linked / MIB:.1f} MiB"
            raise TooMuch(
                errno.ENOSPC, f"the disk has no space for a copy of {size} of its objects"
            )

    def close(self) -> None:
        """The command has ended, and all that was lost is back."""
        for mark in self._marks():
            if mark.name == self._mark or not _runs(mark.name.rpartition("-")[2]):
                mark.unlink(missing_ok=True)

    def files(self) -> list[str]:
        """Of the copy, by their path in it."""
        return sorted(files_in(str(self.folder)))

    def put(self, file: str, aside: Path) -> None:
        """Put a file back into the git folder; no link is followed there, and what is in the way
        goes aside. Raises `OSError`."""
        *folders, name = file.split("/")
        at = _made_folder(Path(self.git), folders, aside)
        try:
            _make_room(at, name, aside)
            if "objects" in folders and _linked(str(self.folder / file), name, at):
                return
            _copied(str(self.folder / file), name, at)
        finally:
            os.close(at)

    def duplicate(self, there: Path) -> None:
        """Make another copy of all of it, which nobody changes any more."""
        for file in self.files():
            (there / file).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not _linked(str(self.folder / file), str(there / file)):
                _copied(str(self.folder / file), str(there / file))
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
                self._take(entry.path, there, objects=objects)
        for name in kept.keys() - mine.keys() if prune else ():
            _remove(kept[name])

    def _has(self, entry: "os.DirEntry[str]", kept: "os.DirEntry[str] | None") -> bool:
        """Whether the copy is as good as another would be."""
        if not kept or entry.inode() != kept.inode():
            return _same(entry, kept)
        if self._affords(entry.path):
            return False
        self._only_linked += entry.stat(follow_symlinks=False).st_size
        return True

    def _affords(self, file: str) -> bool:
        return self._duplicated + os.lstat(file).st_size <= self._most_duplicated

    def _take(self, file: str, there: str, *, objects: bool) -> None:
        new = f"{there}.{secrets.token_hex(4)}.lock"
        try:
            size = os.lstat(file).st_size
            if objects and self._clones and self._cloned(file, new):
                pass
            elif objects and self._affords(file):
                self._duplicated += size
                _copied(file, new)
            elif objects and _linked(file, new):
                self._only_linked += size
            else:
                self._pay(size)
                _copied(file, new)
            os.replace(new, there)
        except FileNotFoundError:  # git has taken it away meanwhile
            pass
        finally:
            with suppress(FileNotFoundError):
                os.unlink(new)

    def _cloned(self, file: str, new: str) -> bool:
        """Whether the disk could make a copy that shares its blocks."""
        try:
            _copied(file, new, clone=True)
        except OSError as error:
            if error.errno == errno.ENOENT:
                raise
            self._clones = False
            with suppress(FileNotFoundError):
                os.unlink(new)
        return self._clones

    def _pay(self, size: int) -> None:
        self._budget -= size
        if self._budget < 0:
            raise TooMuch(errno.ENOSPC, "it is too large to be copied to another disk")


def drop_copies(store: Path) -> None:
    """Remove all copies but those of commands that have not ended, or were killed."""
    for copy in store.glob("*") if store.is_dir() else ():
        if copy.is_dir() and not any(store.glob(f"{copy.name}.open-*")):
            shutil.rmtree(copy, ignore_errors=True)


def _runs(pid: str) -> bool:
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


def _linked(file: str, name: str, at: int | None = None) -> bool:
    """Whether a second name could be given."""
    try:
        os.link(file, name, dst_dir_fd=at, follow_symlinks=False)
    except OSError:
        return False
    return True


def _copied(file: str, name: str, at: int | None = None, *, clone: bool = False) -> None:
    """With `clone` only if no bytes need to be copied. Raises `OSError`."""
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
    """The files below a folder. No link is followed."""
    with suppress(OSError), os.scandir(os.path.join(folder, path)) as scan:
        for entry in scan:
            inner = f"{path}/{entry.name}" if path else entry.name
            if entry.is_dir(follow_symlinks=False):
                yield from files_in(folder, inner)
            elif entry.is_file(follow_symlinks=False):
                yield inner


def _made_folder(root: Path, folders: list[str], aside: Path) -> int:
    """The folder, open; made where there is none, or where something else has its name."""
    at = os.open(root.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for name in (root.name, *folders):
        try:
            inner = _entered(at, name, aside)
        finally:
            os.close(at)
        at = inner
    return at


def _entered(at: int, name: str, aside: Path) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(name, flags, dir_fd=at)
    except FileNotFoundError:
        pass
    except NotADirectoryError:
        _make_room(at, name, aside)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        _make_room(at, name, aside)
    os.mkdir(name, dir_fd=at)
    return os.open(name, flags, dir_fd=at)


def _make_room(at: int, name: str, aside: Path) -> None:
    """A folder gets another name. A file must go: among references, git would read it."""
    try:
        mode = os.stat(name, dir_fd=at, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    free = f"{name}.set-aside-{secrets.token_hex(4)}"
    if stat.S_ISDIR(mode):
        os.rename(name, free, src_dir_fd=at, dst_dir_fd=at)
    else:
        move_aside(at, name, aside / free)
