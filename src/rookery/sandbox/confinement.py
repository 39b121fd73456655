"""What a command is kept to, in canonical paths, whoever enforces it."""

import os
import stat
from collections.abc import Iterable, Sequence
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct


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


class WayOut(Protocol):
    """A command's way to the network. Its socket lies in the command's temporary folder."""

    @property
    def name(self) -> str: ...

    @property
    def token(self) -> str: ...

    @property
    def ports(self) -> Sequence[int]: ...

    @property
    def blocked(self) -> tuple[str, ...]:
        """The hosts that the command was kept from."""
        ...

    def unreached(self, command: str, said: str) -> tuple[int, ...]:
        """Ports of this machine that it was refused, each told once."""
        ...

    def start(self) -> None: ...
    def close(self) -> None: ...


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


def within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def within_any(path: str, folders: Sequence[str]) -> bool:
    return any(within(path, folder) for folder in folders)
