"""The sandbox as rules of the kernel, made by Landlock in front of the command.

Alone it needs no package and no privilege. It can only allow, and always all below a folder:
nothing inside the workspace can be taken out of it. Within bubblewrap's mounts it is a second
layer, which also closes the sockets that have no path.
"""

import os
from collections.abc import Iterator

from rookery.workspace.bubblewrap import TEMPORARY
from rookery.workspace.confinement import Confinement, within

DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "fd")
"""All of /dev that a command can use when it has the real one."""


def rules_alone(confinement: Confinement) -> Iterator[str]:
    """The words for `confine` where nothing else confines."""
    writable = [place.path for place in (confinement.root, *confinement.writable)]
    devices = [os.path.join("/dev", name) for name in DEVICES]
    for path in (*writable, *shared_temporary(confinement), confinement.private, *devices):
        yield from ("write", path)
    for path in (*unreadable(confinement), "/dev"):
        yield from ("hide", path)
    if not confinement.network:
        yield from ("network", "off")
    yield from ("drop", "capabilities")


def rules_within_mounts(confinement: Confinement) -> Iterator[str]:
    """The words for `confine` where mounts hide and protect already."""
    writable = (confinement.root, *confinement.writable)
    for path in (*(place.path for place in writable), *TEMPORARY.values(), "/dev"):
        yield from ("write", os.path.realpath(path))


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
