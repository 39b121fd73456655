"""The sandbox as mounts and namespaces, made by bubblewrap.

Mounts are made in the order they are said here, and a later one covers an earlier one: the
machine read-only, then private temporary folders, then what may be written, then what is
hidden, then the workspace or the part of it that may be written, and last what must stay as it is
inside it.
"""

import os
from collections.abc import Iterable, Iterator

from msgspec import Struct

from rookery.platform.own_programs import TEMPORARY
from rookery.platform.paths import within, within_any
from rookery.sandbox.confinement import (
    Confinement,
    Narrowed,
    Spot,
    depth,
    spots_inside,
)

EMPTY = {".json": ("{}", "empty.json"), ".xml": ("<settings/>", "empty.xml")}
"""Hidden files are there, and empty in their own way: many programs do not forgive one that
they cannot read."""
EMPTY_TEXT, UNREADABLE = "empty", "unreadable"

_NAMESPACES = ("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts")
_KEEPS_SIGNALS = "--ignore-signal=HUP,INT,TERM"


class Abilities(Struct, frozen=True):
    """What the programs of this machine can do, beside the least that is needed."""

    env: str = ""
    """An `env` that can ignore signals: otherwise asking bubblewrap to end kills the command."""
    closes_users: bool = True
    """Whether bubblewrap can keep commands from making user namespaces of their own."""
    joining: tuple[str, ...] = ()
    """What leads into the network that commands share; without it each has its own."""


def prepare_private(private: str) -> None:
    """Make in the private folder what the mounts need."""
    for name in TEMPORARY:
        os.mkdir(os.path.join(private, name), 0o700)
    for text, name in (*EMPTY.values(), ("", EMPTY_TEXT), ("", UNREADABLE)):
        with open(os.path.join(private, name), "w", encoding="utf-8") as file:
            file.write(text)
    os.chmod(os.path.join(private, UNREADABLE), 0)


def bubblewrap(
    program: str, confinement: Confinement, *, cwd: str, able: Abilities, needed: Iterable[str]
) -> list[str]:
    """The words before a command. `needed` are folders without which it could not start."""
    return [
        *([able.env, _KEEPS_SIGNALS] if able.env else []),
        *able.joining,
        program,
        *_NAMESPACES,
        *(["--disable-userns"] if able.closes_users else []),
        *([] if confinement.network == "on" or able.joining else ["--unshare-net"]),
        "--die-with-parent",
        *("--cap-drop", "ALL"),
        *_machine(),
        *_temporary(confinement, needed),
        *_workspace(confinement),
        *("--chdir", cwd),
        "--",
    ]


def mounted(confinement: Confinement) -> Iterator[Spot]:
    """What must be found behind the mounts."""
    yield confinement.root
    yield from confinement.read
    yield from confinement.writable
    if narrowed := confinement.narrowed:
        yield from (*narrowed.opened, *narrowed.beside, *narrowed.folders, *narrowed.files)
    yield from confinement.pinned
    yield from confinement.kept
    yield from confinement.fixed


def _machine() -> Iterator[str]:
    yield from ("--ro-bind", "/", "/")
    yield from ("--dev", "/dev")
    # to root without any capability, /proc/sys is writable like any file of his
    yield from ("--proc", "/proc", "--remount-ro", "/proc")


def _temporary(confinement: Confinement, needed: Iterable[str]) -> Iterator[str]:
    covered: list[str] = []
    for name, folder in TEMPORARY.items():
        real = os.path.realpath(folder)
        if os.path.isdir(real) and real not in covered:
            covered.append(real)
            yield from ("--bind", os.path.join(confinement.private, name), real)
    for path in (confinement.home, *needed):
        if within_any(path, covered) and path not in covered and os.path.isdir(path):
            yield from ("--ro-bind", path, path)


def _workspace(confinement: Confinement) -> Iterator[str]:
    root = confinement.root.path
    inside = [path for path in confinement.hidden if within(path, root) and path != root]
    outside = [path for path in _seen(confinement) if path not in inside and path != root]
    for read in confinement.read:
        yield from ("--ro-bind", read.path, read.path)
    for writable in confinement.writable:
        yield from ("--bind", writable.path, writable.path)
    yield from _hide(outside, confinement.private)
    if confinement.narrowed:
        yield from _part(confinement, confinement.narrowed)
    else:
        yield from ("--bind", root, root)
    for pinned in confinement.pinned:  # a folder that is a mount cannot be renamed
        yield from ("--bind", pinned.path, pinned.path)
    yield from _hide(inside, confinement.private)
    for kept in confinement.kept:
        yield from ("--bind", kept.path, kept.path)
    for fixed in confinement.fixed:
        yield from ("--ro-bind", fixed.path, fixed.path)
    for path in confinement.ignored:
        yield from _ignore(path, confinement.private)
    for path in (*outside, *inside):
        if os.path.isdir(path):  # only now, when whatever is mounted inside has its place
            yield from ("--remount-ro", path)


def _part(confinement: Confinement, narrowed: Narrowed) -> Iterator[str]:
    """A file is only mounted where its folder is not open: a mount cannot be replaced."""
    opened = {at.path for at in narrowed.opened}
    files = (at for at in narrowed.files if os.path.dirname(at.path) not in opened)
    inside = spots_inside(confinement.root, confinement.writable)
    still = (confinement.root, *narrowed.beside)
    writable = (*narrowed.opened, *narrowed.folders, *files, *inside)
    ways = {at.path: "--ro-bind" for at in still} | {at.path: "--bind" for at in writable}
    for path in sorted(ways, key=depth):
        yield from (ways[path], path, path)


def _seen(confinement: Confinement) -> Iterator[str]:
    """The hidden places that can be seen at all: not what the private folders cover anyway."""
    covered = [os.path.realpath(folder) for folder in TEMPORARY.values()]
    shown = [confinement.home, confinement.root.path, *(at.path for at in confinement.writable)]
    for path in confinement.hidden:
        related = within_any(path, shown) or any(within(place, path) for place in shown)
        if related or not within_any(path, covered):
            yield path


def _hide(paths: Iterable[str], private: str) -> Iterator[str]:
    for path in paths:
        if os.path.isdir(path):
            yield from ("--perms", "0755", "--tmpfs", path)
        else:
            _, name = EMPTY.get(os.path.splitext(path)[1], ("", EMPTY_TEXT))
            yield from ("--ro-bind", os.path.join(private, name), path)


def _ignore(path: str, private: str) -> Iterator[str]:
    if os.path.isdir(path):
        yield from ("--perms", "0000", "--tmpfs", path, "--remount-ro", path)
    else:
        yield from ("--ro-bind", os.path.join(private, UNREADABLE), path)
