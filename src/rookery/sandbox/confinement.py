"""What a command is confined to, in canonical paths and independent of the layer that enforces it.

`narrow` computes the writable part of the workspace, if that is not all of it. A folder is writable
with everything below it. A writable file, or one still to be created, needs its folder, because
editors replace files: the folder is opened for new entries, and its other entries stay read-only.
Nothing is created here and no link is followed.
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
"""Nothing in folders of these names is writable for a command that is limited to a part."""
MOST_BESIDE = 200
"""Each sibling of a writable entry is a mount. A folder with more of them is not opened: its
files can be changed in place but not replaced."""


_NEVER = frozenset(map(folded, NEVER_WRITABLE))


class Spot(Struct, frozen=True):
    """A path and the identity of the file found there; a mount of anything else is refused."""

    path: str
    device: int
    inode: int
    folder: bool

    @property
    def identity(self) -> str:
        """The operand of `is` for `confine`."""
        return f"{self.device}:{self.inode}:{self.path}"


class Narrowed(Struct, frozen=True, kw_only=True):
    """The writable part of the workspace, if that is not all of it.

    `folders` are writable with everything below, and so are `files`. In `opened` folders new
    entries can be created, but the entries in `beside` stay read-only; in `growing` ones a named
    path does not exist yet. `never` is read-only even inside `folders`.
    """

    folders: tuple[Spot, ...]
    files: tuple[Spot, ...]
    growing: tuple[Spot, ...]
    opened: tuple[Spot, ...]
    beside: tuple[Spot, ...]
    never: tuple[Spot, ...]


Network: TypeAlias = Literal["known", "on", "off"]


class Handoff(Struct, frozen=True):
    """A Unix socket as the launcher sees it, the token to send, and the ports of this machine to
    serve as well."""

    path: str
    token: str
    ports: tuple[int, ...] = ()

    @classmethod
    def by(cls, way: WayOut, temporary: str) -> "Handoff":
        path = os.path.join(os.path.realpath(temporary), way.name)
        return cls(path, way.token, tuple(way.ports))


class Confinement(Struct, frozen=True, kw_only=True):
    """All paths are canonical and exist. What is outside `writable` is read-only; if `narrowed` is
    set, so is the rest of the workspace.

    `kept` folders can be written but not renamed, and so can `pinned` ones, which contain special
    files. `fixed` cannot be changed, `hidden` and `ignored` cannot be read. `private` is the folder
    for the command's temporary files.
    """

    root: Spot
    home: str
    private: str
    network: Network
    read: tuple[Spot, ...] = ()
    """Visible but read-only, even inside hidden places."""
    writable: tuple[Spot, ...] = ()
    kept: tuple[Spot, ...] = ()
    pinned: tuple[Spot, ...] = ()
    fixed: tuple[Spot, ...] = ()
    hidden: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    narrowed: Narrowed | None = None
    way: Handoff | None = None
    """Where the launcher passes its listening sockets; without one, "known" means no network."""


def spot(path: str) -> Spot | None:
    """The file or folder at a path; None for anything else, or if a link is on the way."""
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
    """The existing ones, without duplicates, outer ones first."""
    found = {path: there for path in paths if (there := spot(path))}
    return tuple(found[path] for path in sorted(found, key=depth))


def spots_inside(folder: Spot, found: Iterable[Spot]) -> tuple[Spot, ...]:
    return tuple(at for at in found if at != folder and within(at.path, folder.path))


def outermost(found: Iterable[Spot]) -> tuple[Spot, ...]:
    """Drop what is inside one of the folders; the input must have outer ones first."""
    kept: list[Spot] = []
    for each in found:
        if not within_any(each.path, [one.path for one in kept if one.folder]):
            kept.append(each)
    return tuple(kept)


def depth(path: str) -> tuple[int, str]:
    return path.count("/"), path


class SandboxOptions(Struct, frozen=True, kw_only=True):
    """Settings of the sandbox. `writable` and `hidden` are added by the user; a hidden place is
    never writable. `own` are rookery's own folders, which are hidden from commands."""

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
    """Compute the writable part. `named` paths are relative to the workspace; an empty one is
    all of it. `closed` paths are mounted separately."""
    wanted = [
        path for each in named if (path := _path(root, each)) and not within_any(path, closed)
    ]
    found = spots(wanted)
    folders = outermost(at for at in found if at.folder)
    taken = [*closed, *(at.path for at in folders)]
    files = tuple(at for at in found if not at.folder and not within_any(at.path, taken))
    missing = spots(_existing_parent(path) for path in wanted if not os.path.lexists(path))
    growing = tuple(at for at in missing if at.folder and not within_any(at.path, taken))
    opened, beside = _open_folders(
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
    """The absolute path, if it is in the workspace and may be writable; else empty."""
    path = os.path.normpath(os.path.join(root, named))
    if not within(path, root) or "\0" in path:
        return ""
    names = folded_names(os.path.relpath(path, root))
    return "" if _NEVER.intersection(names) else path


def _existing_parent(path: str) -> str:
    """The path itself or its nearest existing parent."""
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return path


def _open_folders(
    folders: Iterable[str], excepted: Collection[str]
) -> tuple[tuple[Spot, ...], tuple[Spot, ...]]:
    """The folders that can be opened, and their entries that stay read-only."""
    opened: list[Spot] = []
    beside: list[Spot] = []
    for folder in spots(folders):
        others = _other_entries(folder.path, excepted)
        if others is not None and len(beside) + len(others) <= MOST_BESIDE:
            opened.append(folder)
            beside += others
    return tuple(opened), tuple(beside)


def _other_entries(folder: str, excepted: Collection[str]) -> list[Spot] | None:
    """The other files and folders in a folder; None if there are too many or it cannot be read.
    Links cannot be mounted over; that one was replaced is detected afterwards."""
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
