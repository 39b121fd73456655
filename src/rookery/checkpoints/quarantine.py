"""Moving things out of the workspace that must not be there, without destroying any."""

import errno
import os
import secrets
import shutil
import stat
from functools import partial
from pathlib import Path

from rookery.platform.descriptors import opened_folder, present
from rookery.platform.disk import pieces_of, write_new
from rookery.platform.paths import visible

_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def set_aside(root: Path, path: str, aside: Path) -> str:
    """Move what is at the path, be it a file or a folder; where to. Raises `OSError`."""
    *folders, name = path.split("/")
    aside.mkdir(parents=True, exist_ok=True, mode=0o700)
    away = _away(path)
    with opened_folder(root, folders) as folder:
        at = present(folder)
        try:
            os.rename(name, aside / away, src_dir_fd=at)
            return str(aside / away)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
        # first out of git's sight, as copying to another disk takes a while
        unseen = f".{name.strip('.')}.set-aside-{secrets.token_hex(4)}"
        os.rename(name, unseen, src_dir_fd=at, dst_dir_fd=at)
    return _carried(root.joinpath(*folders, unseen), aside / away)


def keep_aside(folder: int, name: str, path: str, aside: Path) -> str:
    """Keep a file that is about to be replaced, under another name; where. It stays where it
    is, so that at no time there is none. Raises `OSError`.
    """
    aside.mkdir(parents=True, exist_ok=True, mode=0o700)
    there = aside / _away(path)
    keep_also(folder, name, there)
    return str(there)


def keep_also(folder: int, name: str, there: Path) -> None:
    """Give a file a second name, or make a copy of it. Raises `OSError`."""
    there.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        os.link(name, there, src_dir_fd=folder, follow_symlinks=False)
    except OSError:  # on another disk, or somebody else's: then a copy will do
        _copy(folder, name, there)


def move_aside(folder: int, name: str, there: Path) -> None:
    """Move a file or a link out of the workspace, to a path of its own. Raises `OSError`."""
    there.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        os.rename(name, there, src_dir_fd=folder)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _copy(folder, name, there)
        os.unlink(name, dir_fd=folder)


def _copy(folder: int, name: str, there: Path) -> None:
    """A pipe or a device holds nothing that could be lost."""
    mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    if stat.S_ISLNK(mode):
        os.symlink(os.readlink(name, dir_fd=folder), there)
    elif stat.S_ISREG(mode):
        with open(os.open(name, _FILE, dir_fd=folder), "rb") as file:
            give = partial(os.fchmod, mode=stat.S_IMODE(mode))
            write_new(there, pieces_of(file), give=give)


def _away(path: str) -> str:
    """A name for it that nobody has, by which its own can still be known."""
    return f"{'-'.join(visible(path).split('/'))[-60:].lstrip('.')}-{secrets.token_hex(4)}"


def _carried(here: Path, there: Path) -> str:
    """Where it is in the end: what cannot be copied stays under its new name."""
    try:
        if here.is_dir() and not here.is_symlink():
            shutil.copytree(here, there, symlinks=True)
            shutil.rmtree(here)
        else:
            shutil.copy2(here, there, follow_symlinks=False)
            here.unlink()
    except OSError:
        return str(here)
    return str(there)
