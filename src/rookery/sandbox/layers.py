"""Which layers of a sandbox work on this machine, and the words that put a command in them.

Whether one works is found out by running nothing in it: user namespaces may be forbidden, a
container may hide what a new /proc needs, a kernel may lack Landlock.

Landlock alone needs no package and no privilege. It can only allow, and always all below a folder:
nothing inside the workspace can be taken out of it. So if only a part of the workspace may be
written, a file of it can be changed in place and not be replaced, and a folder that is not there
yet can be made, but only the next command can write in it. Where something inside of a folder is
never written, nothing new can be made beside it. Within bubblewrap's mounts it is a second layer,
which also closes the sockets that have no path.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from rookery.platform.own_programs import TEMPORARY, own_script
from rookery.platform.paths import within
from rookery.platform.wardens import take_orphans_in
from rookery.sandbox.bubblewrap import Abilities, bubblewrap, mounted
from rookery.sandbox.confinement import Confinement, Handoff, Narrowed, Network, Spot
from rookery.sandbox.hidden_places import SOCKET_VARIABLES

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


CONFINE = Path(__file__).with_name("confine.py")
INTERPRETER = os.path.realpath(sys.executable)
"""Not the link in a virtual environment, which may lie where commands can write."""
PROGRAMS = "/usr/bin:/bin:/usr/local/bin:/run/current-system/sw/bin"
"""Where the sandbox's own programs are looked for: nowhere a project could have a say."""
PROBE = ("/bin/sh", "-c", ":")
PROBE_SECONDS = 10.0

OPEN_FILES, PROCESSES = 4096, 4096
"""Processes are counted per user, and threads are processes: so they are limited only where
bubblewrap gives the command a count of its own, and so high that no build meets it. Memory is
not limited: a limit of the address space stops what reserves much and uses little, such as
Node, Java and Go."""

KNOWS_TRUNCATING = 3
"""The first version of Landlock that keeps a command from cutting files to nothing."""

Kind: TypeAlias = Literal["bubblewrap+landlock", "bubblewrap", "landlock", "none"]


class SandboxState(Struct, frozen=True, kw_only=True):
    """What there is of a sandbox; `why` says why there is not more, and is empty if all is."""

    kind: Kind
    network: Network = "on"
    """What holds, which may be less than what is wished."""
    landlock: int = 0
    """The version the kernel has; 0 if none."""
    why: str = ""
    closes_users: bool = False
    """Whether commands are kept from making user namespaces."""
    lost: str = ""
    """Why no command can run at all; empty while the workspace is there."""

    @property
    def narrows(self) -> bool:
        """Whether a command can be kept to a part of the workspace."""
        return self.kind.startswith("bubblewrap") or self.landlock >= KNOWS_TRUNCATING

    @property
    def line(self) -> str:
        """The state for people, in one line."""
        if self.lost:
            return self.lost
        if self.kind == "none":
            return f"no sandbox: commands can do everything you can ({self.why})"
        extent = f"in a part of the sandbox ({self.why})" if self.why else "in the sandbox"
        temporary = "temp" if self.kind == "landlock" else "its own temp"
        bounds = f"writes in the workspace, {temporary} and caches only, keys hidden"
        return f"{extent}: {bounds}, {_NETWORK[self.network]}"


_NETWORK: dict[Network, str] = {
    "known": "network to known hosts only",
    "on": "network on",
    "off": "network off",
}


class Layers(Struct, frozen=True):
    """A sandbox that works, or none. `program` is bubblewrap, if it is one of the layers."""

    state: SandboxState
    program: str = ""
    able: Abilities | None = None


def find_layers(confinement: Confinement, programs: str, joining: tuple[str, ...] = ()) -> Layers:
    """The best that works here. It takes a trivial command or two. `joining` leads into a network
    that commands share."""
    if not sys.platform.startswith("linux"):
        return no_layers(f"there is no sandbox for {sys.platform} yet")
    from rookery.sandbox.confine import landlock_version

    network = confinement.network
    version = max(0, landlock_version())
    refusal = "bubblewrap is not installed"
    for program, able in _bubblewraps(programs, joining):
        kind: Kind = "bubblewrap+landlock" if version else "bubblewrap"
        state = SandboxState(
            kind=kind, network=network, landlock=version, closes_users=able.closes_users
        )
        layers = Layers(state, program, able)
        refused = _try(layers, confinement)
        if not refused:
            return layers
        refusal = f"bubblewrap does not work: {refused}"
    open_or_closed: Network = "off" if network == "off" else "on"  # it knows no hosts
    state = SandboxState(kind="landlock", network=open_or_closed, landlock=version, why=refusal)
    refused = _try(Layers(state), confinement) if version else "the kernel has no Landlock"
    return no_layers(f"{refusal}, and {refused}") if refused else Layers(state)


def no_layers(why: str) -> Layers:
    return Layers(SandboxState(kind="none", why=why))


def prefix(layers: Layers, confinement: Confinement, cwd: str) -> list[str]:
    """The words that stand before a command."""
    confine = [INTERPRETER, "-I", "-S", own_script(CONFINE)]
    words = [word for name in SOCKET_VARIABLES for word in ("unset", name)]
    words += ["limit", f"NOFILE={OPEN_FILES}", "limit", "CORE=0"]
    if not layers.able:
        found = (confinement.root, *confinement.writable)
        return [*confine, *words, *_identities(found), *rules_alone(confinement), "--"]
    needed = (os.path.realpath(sys.base_prefix), str(CONFINE.parent))
    mounts = bubblewrap(layers.program, confinement, cwd=cwd, able=layers.able, needed=needed)
    words += ["limit", f"NPROC={PROCESSES}", *_identities(mounted(confinement))]
    words += _way_out(confinement.way)
    if confinement.network != "on":
        words += ["network", "inside"]
    if layers.state.landlock:
        words += rules_within_mounts(confinement)
    return [*mounts, *confine, *words, "--"]


def _bubblewraps(programs: str, joining: tuple[str, ...]) -> Iterable[tuple[str, Abilities]]:
    """With all it can do first; older ones, and other kinds of `env`, can do less."""
    program = shutil.which("bwrap", path=programs)
    env = shutil.which("env", path=programs) or ""
    ways = product(dict.fromkeys((joining, ())), dict.fromkeys((env, "")), (True, False))
    for joins, env_used, closes_users in ways:
        if program:
            yield program, Abilities(env_used, closes_users, joins)


def _try(layers: Layers, confinement: Confinement) -> str:
    """Run nothing in it. Why that did not work; empty if it did."""
    take_orphans_in()
    try:
        probe = subprocess.Popen(
            [*prefix(layers, confinement, confinement.root.path), *PROBE],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={},
            start_new_session=True,
        )
    except OSError as error:
        return str(error)
    try:
        _, words = probe.communicate(timeout=PROBE_SECONDS)
    except subprocess.TimeoutExpired as error:
        os.killpg(probe.pid, signal.SIGKILL)
        probe.communicate()
        return str(error)
    finally:
        _bury(probe.pid)
    said = words.decode(errors="replace").strip().splitlines()
    return "" if probe.returncode == 0 else (said or [f"status {probe.returncode}"])[-1]


def _bury(group: int) -> None:
    """bubblewrap ends before its inner half does, which is then left to us."""
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-group, 0)


def _way_out(way: Handoff | None) -> list[str]:
    if way is None:
        return []
    forwards = [word for port in way.ports for word in ("forward", str(port))]
    return ["proxy", f"{way.path}={way.token}", *forwards]


def _identities(found: Iterable[Spot]) -> list[str]:
    return [word for at in found for word in ("is", f"{at.device}:{at.inode}:{at.path}")]
