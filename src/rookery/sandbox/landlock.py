"""The sandbox as rules of the kernel, made by Landlock in front of the command.

Alone it needs no package and no privilege. It can only allow, and always all below a folder:
nothing inside the workspace can be taken out of it. So if only a part of the workspace may be
written, a file of it can be changed in place and not be replaced, and a folder that is not there
yet can be made, but only the next command can write in it. Where something inside of a folder is
never written, nothing new can be made beside it. Within bubblewrap's mounts it is a second layer,
which also closes the sockets that have no path.
"""

import os
from collections.abc import Iterator

from rookery.platform.paths import within
from rookery.platform.processes.own_programs import TEMPORARY
from rookery.sandbox.confinement import Confinement, Narrowed, Spot

DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "fd")
"""All of /dev that a command can use when it has the real one."""


def rules_alone(confinement: Confinement) -> Iterator[str]:
    """The words for `confine` where nothing else confines."""
    workspace = _workspace(confinement)
    writable = [place.path for place in (*workspace, *confinement.writable)]
    devices = [os.path.join("/dev", name) for name in DEVICES]
    for path in (*writable, *shared_temporary(confinement), confinement.private, *devices):
        yield from ("write", path)
    for path in (*unreadable(confinement), "/dev"):
        yield from ("hide", path)
    if confinement.narrowed:
        yield from _narrowing(confinement.root, confinement.narrowed)
    if confinement.network == "off":
        yield from ("network", "off")
    yield from ("drop", "capabilities")


def rules_within_mounts(confinement: Confinement) -> Iterator[str]:
    """The words for `confine` where mounts hide and protect already."""
    opened = confinement.narrowed.opened if confinement.narrowed else ()
    writable = (*_workspace(confinement), *opened, *confinement.writable)
    for path in (*(place.path for place in writable), *TEMPORARY.values(), "/dev"):
        yield from ("write", os.path.realpath(path))


def _workspace(confinement: Confinement) -> tuple[Spot, ...]:
    """What of the workspace can be written."""
    if narrowed := confinement.narrowed:
        return (*narrowed.folders, *narrowed.files)
    return (confinement.root,)


def _narrowing(root: Spot, narrowed: Narrowed) -> Iterator[str]:
    """The workspace may lie in another place that can be written."""
    never = [*narrowed.never, *(() if root in narrowed.folders else (root,))]
    for place in never:
        yield from ("keep", place.path)
    for growing in narrowed.growing:
        if not any(within(place.path, growing.path) for place in narrowed.never):
            yield from ("grow", growing.path)
    for place in (*narrowed.folders, *narrowed.files, *narrowed.growing):
        yield from ("is", place.identity)


def unreadable(confinement: Confinement) -> list[str]:
    """What is to be hidden, except inside the workspace: there one place cannot be taken out."""
    return [path for path in confinement.hidden if not within(path, confinement.root.path)]


def shared_temporary(confinement: Confinement) -> list[str]:
    """The machine's temporary folders, unless something in one of them must stay hidden."""
    return [
        real
        for real in dict.fromkeys(map(os.path.realpath, TEMPORARY.values()))
        if os.path.isdir(real)
        and not any(within(path, real) for path in (*confinement.hidden, confinement.home))
    ]
