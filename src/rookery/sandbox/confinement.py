"""What a command is kept to, in canonical paths, whoever enforces it.

`narrow` says which part of the workspace a command may write to, where that is not all of it. A
folder is written with all that is below it. A file that may be written, or something that may be
made and is not there yet, needs its folder: editors put a new file in the place of the old one.
So that folder is opened for what is new, and all that it has besides stays as it is. Nothing is
made here and no link is followed: behind one lies what has another name.
"""

import os
import stat
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from rookery import PROJECT_FOLDER
from rookery.core.modes import GOVERNANCE_FOLDER
from rookery.core.text.characters import folded, folded_names
from rookery.engine.ports.workspace import WayOut
from rookery.platform.paths import within, within_any

NEVER_WRITABLE = (GOVERNANCE_FOLDER, PROJECT_FOLDER, ".git", ".hg", ".jj", ".svn")
"""Nothing in a folder of one of these names is opened to a command that is kept to a part."""
MOST_BESIDE = 200
"""Each entry beside an opened one is a mount. A folder that has more of them is not opened: its
files can be changed in place then, and not be replaced."""


_NEVER = frozenset(map(folded, NEVER_WRITABLE))


class Spot(Struct, frozen=True):
    """A path and what was found there: a mount that leads to anything else is not accepted."""

    path: str
    device: int
    inode: int
    folder: bool

    @property
    def identity(self) -> str:
        """The operand of `is` for `confine`."""
        return f"{self.device}:{self.inode}:{self.path}"


class Narrowed(Struct, frozen=True, kw_only=True):
    """The part of the workspace that can be written, where that is not all of it.

    `folders` with all below, and `files`. In `opened` folders new entries can be made, and what is
    `beside` must stay as it is; in those of them that are `growing`, something is to be made that
    is not there yet. What is `never` written is not written inside of `folders` either.
    """

    folders: tuple[Spot, ...]
    files: tuple[Spot, ...]
    growing: tuple[Spot, ...]
    opened: tuple[Spot, ...]
    beside: tuple[Spot, ...]
    never: tuple[Spot, ...]


Network: TypeAlias = Literal["known", "on", "off"]


class Handoff(Struct, frozen=True):
    """A Unix socket as the command's launcher sees it, the word to say there, and the ports of
    this machine to be served besides."""

    path: str
    token: str
    ports: tuple[int, ...] = ()

    @classmethod
    def by(cls, way: WayOut, temporary: str) -> "Handoff":
        path = os.path.join(os.path.realpath(temporary), way.name)
        return cls(path, way.token, tuple(way.ports))


class Confinement(Struct, frozen=True, kw_only=True):
    """All paths are canonical and exist. What is outside every `writable` is read-only, and if it
    is `narrowed`, the rest of the workspace too.

    `kept` are folders that can be written but not moved away, and so are `pinned`, which lead to
    what is special in the workspace. `fixed` cannot be changed, `hidden` and `ignored` not read.
    `private` is a folder of ours for what the command thinks is temporary.
    """

    root: Spot
    home: str
    private: str
    network: Network
    read: tuple[Spot, ...] = ()
    """Seen wherever they lie, also among what is otherwise hidden, and not written."""
    writable: tuple[Spot, ...] = ()
    kept: tuple[Spot, ...] = ()
    pinned: tuple[Spot, ...] = ()
    fixed: tuple[Spot, ...] = ()
    hidden: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    narrowed: Narrowed | None = None
    way: Handoff | None = None
    """Where the launcher hands over what it listens on; without one "known" is closed too."""


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


def spots_inside(folder: Spot, found: Iterable[Spot]) -> tuple[Spot, ...]:
    return tuple(at for at in found if at != folder and within(at.path, folder.path))


def outermost(found: Iterable[Spot]) -> tuple[Spot, ...]:
    """Without what is inside one of the folders; they are given outer ones first."""
    kept: list[Spot] = []
    for each in found:
        if not within_any(each.path, [one.path for one in kept if one.folder]):
            kept.append(each)
    return tuple(kept)


def depth(path: str) -> tuple[int, str]:
    return path.count("/"), path


class SandboxWishes(Struct, frozen=True, kw_only=True):
    """`writable` and `hidden` are places the user added; a hidden place is never writable.
    `own` are the product's folders, of which commands see nothing."""

    root: Path
    home: Path
    mode: Literal["on", "required", "off"] = "on"
    network: Network = "on"
    writable: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    own: tuple[str, ...] = ()


def narrow(
    root: str, named: Iterable[str], *, never: Sequence[Spot], closed: Sequence[str]
) -> Narrowed:
    """`named` is relative to the workspace, and empty for all of it. What is `closed` is mounted in
    another way, whatever is said here."""
    wanted = [
        path for each in named if (path := _path(root, each)) and not within_any(path, closed)
    ]
    found = spots(wanted)
    folders = outermost(at for at in found if at.folder)
    taken = [*closed, *(at.path for at in folders)]
    files = tuple(at for at in found if not at.folder and not within_any(at.path, taken))
    missing = spots(_nearest(path) for path in wanted if not os.path.lexists(path))
    growing = tuple(at for at in missing if at.folder and not within_any(at.path, taken))
    opened, beside = _opened(
        (*(os.path.dirname(at.path) for at in files), *(at.path for at in growing)),
        {*closed, *(at.path for at in files)},
    )
    return Narrowed(
        folders=folders,
        files=files,
        growing=growing,
        opened=opened,
        beside=beside,
        never=tuple(never),
    )


def never_writable(root: str) -> list[str]:
    return [os.path.join(root, name) for name in NEVER_WRITABLE]


def _path(root: str, named: str) -> str:
    """Where it is, if that is in the workspace and may be written at all."""
    path = os.path.normpath(os.path.join(root, named))
    if not within(path, root) or "\0" in path:
        return ""
    names = folded_names(os.path.relpath(path, root))
    return "" if _NEVER.intersection(names) else path


def _nearest(path: str) -> str:
    """The innermost folder on the way there that is there."""
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return path


def _opened(
    folders: Iterable[str], excepted: Collection[str]
) -> tuple[tuple[Spot, ...], tuple[Spot, ...]]:
    """The folders that can be opened, and what must stay as it is in them."""
    opened: list[Spot] = []
    beside: list[Spot] = []
    for folder in spots(folders):
        others = _others(folder.path, excepted)
        if others is not None and len(beside) + len(others) <= MOST_BESIDE:
            opened.append(folder)
            beside += others
    return tuple(opened), tuple(beside)


def _others(folder: str, excepted: Collection[str]) -> list[Spot] | None:
    """The files and folders in a folder but for some; None if they are too many or cannot be known.
    A link cannot be mounted over: that it was replaced can only be seen afterwards."""
    found: list[Spot] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                is_folder = entry.is_dir(follow_symlinks=False)
                if not is_folder and not entry.is_file(follow_symlinks=False):
                    continue
                if entry.path not in excepted:
                    at = entry.stat(follow_symlinks=False)
                    found.append(Spot(entry.path, at.st_dev, at.st_ino, is_folder))
                if len(found) > MOST_BESIDE:
                    return None
    except OSError:
        return None
    return found
