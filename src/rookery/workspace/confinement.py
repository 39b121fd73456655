"""What a command is kept to, in canonical paths, whoever enforces it."""

import os
import stat
from collections.abc import Iterable, Sequence

from rookery.core.values import record, value


@record
class Spot:
    """A path and what was found there: a mount that leads to anything else is not accepted."""

    path: str
    device: int
    inode: int
    folder: bool


@value
class Confinement:
    """All paths are canonical and exist. What is outside every `writable` is read-only.

    `kept` are folders that can be written but not moved away, and so are `pinned`, which lead to
    what is special in the workspace. `fixed` cannot be changed, `hidden` and `ignored` not read.
    `private` is a folder of ours for what the command thinks is temporary.
    """

    root: Spot
    home: str
    private: str
    network: bool
    writable: tuple[Spot, ...] = ()
    kept: tuple[Spot, ...] = ()
    pinned: tuple[Spot, ...] = ()
    fixed: tuple[Spot, ...] = ()
    hidden: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()


def spot(path: str) -> Spot | None:
    """What is at a path, if that is a file or a folder and no link is on the way."""
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return None
    if not (stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)):
        return None
    if os.path.realpath(path) != path:
        return None
    return Spot(path, found.st_dev, found.st_ino, stat.S_ISDIR(found.st_mode))


def spots(paths: Iterable[str]) -> tuple[Spot, ...]:
    """The ones that are there, each once and outer ones first."""
    found = {path: there for path in paths if (there := spot(path))}
    return tuple(found[path] for path in sorted(found, key=depth))


def depth(path: str) -> tuple[int, str]:
    return path.count("/"), path


def within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def within_any(path: str, folders: Sequence[str]) -> bool:
    return any(within(path, folder) for folder in folders)
