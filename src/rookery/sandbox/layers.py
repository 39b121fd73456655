"""Which sandbox layers work on this machine, and the arguments that run a command in them.

Each is tested by running a trivial command in it: user namespaces may be forbidden, a container may
hide what a new /proc needs, a kernel may lack Landlock.

Landlock alone needs no package and no privilege. Its rules only allow, and always everything below
a folder, so nothing inside the workspace can be excluded. If only a part of the workspace is
writable, its files can be changed in place but not replaced, and a missing folder can be created
but only the next command can write in it. Beside a path that is never writable nothing can be
created. Within bubblewrap's mounts Landlock is a second layer, which also denies sockets without a
path.

`guarantees` says what that means for the user.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from enum import StrEnum
from itertools import product
from typing import Literal, TypeAlias

from msgspec import Struct

from rookery.platform.own_programs import own_script
from rookery.platform.paths import within
from rookery.platform.user_folders import real_temporary
from rookery.platform.wardens import CONFINE, INTERPRETER, become_subreaper
from rookery.sandbox.bubblewrap import COPIER, Abilities, bubblewrap, mounted
from rookery.sandbox.confinement import (
    SOCKET_VARIABLES,
    Confinement,
    Handoff,
    Narrowed,
    Network,
    Spot,
)

DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "fd")
"""The devices that a command may use, if it has the real /dev."""


def rules_alone(confinement: Confinement) -> Iterator[str]:
    """The arguments for `confine` if it is the only layer."""
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


def writable_within_mounts(confinement: Confinement) -> list[str]:
    """Where Landlock allows writing if mounts already hide and protect files."""
    opened = confinement.narrowed.opened if confinement.narrowed else ()
    writable = (*_workspace(confinement), *opened, *confinement.writable)
    return [*(place.path for place in writable), *real_temporary().values(), "/dev"]


def _workspace(confinement: Confinement) -> tuple[Spot, ...]:
    """The writable part of the workspace."""
    if narrowed := confinement.narrowed:
        return (*narrowed.folders, *narrowed.files)
    return (confinement.root,)


def _narrowing(root: Spot, narrowed: Narrowed) -> Iterator[str]:
    """The workspace itself must be excluded, as it may be inside another writable folder."""
    never = [*narrowed.never, *(() if root in narrowed.folders else (root,))]
    for place in never:
        yield from ("keep", place.path)
    for growing in narrowed.growing:
        if not any(within(place.path, growing.path) for place in narrowed.never):
            yield from ("grow", growing.path)
    for place in (*narrowed.folders, *narrowed.files, *narrowed.growing):
        yield from ("is", place.identity)


def unreadable(confinement: Confinement) -> list[str]:
    """The hidden places outside the workspace; Landlock cannot exclude those inside it."""
    return [path for path in confinement.hidden if not within(path, confinement.root.path)]


def shared_temporary(confinement: Confinement) -> list[str]:
    """The machine's temporary folders, unless one contains something hidden."""
    return [
        real
        for real in dict.fromkeys(real_temporary().values())
        if os.path.isdir(real)
        and not any(within(path, real) for path in (*confinement.hidden, confinement.home))
    ]


PROGRAMS = "/usr/bin:/bin:/usr/local/bin:/run/current-system/sw/bin"
"""Where the sandbox's own programs are looked up: folders that no project can change."""
PROBE = ("/bin/sh", "-c", ":")
PROBE_SECONDS = 10.0

OPEN_FILES, PROCESSES = 4096, 4096
"""Processes are counted per user, including threads, so they are limited only where bubblewrap
gives the command its own count, and so high that no build reaches it. Memory is not limited: a
limit on the address space breaks programs that reserve much and use little, such as Node, Java
and Go."""

TRUNCATE_VERSION = 3
"""The first version of Landlock that can deny truncating files."""

Kind: TypeAlias = Literal["bubblewrap+landlock", "bubblewrap", "landlock", "none"]


class SandboxState(Struct, frozen=True, kw_only=True):
    """The layers in use; `why` says why there are not more, and is empty if all are."""

    kind: Kind
    network: Network = "on"
    """The network that commands have, which may differ from the setting."""
    landlock: int = 0
    """The kernel's version; 0 if it has none."""
    why: str = ""
    closes_users: bool = False
    """Whether commands cannot create user namespaces."""
    lost: str = ""
    """Why no command can run at all; empty while the workspace exists."""

    @property
    def narrows(self) -> bool:
        """Whether a command can be limited to a part of the workspace."""
        return self.kind.startswith("bubblewrap") or self.landlock >= TRUNCATE_VERSION

    @property
    def line(self) -> str:
        """The state in one line, for users."""
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
    """A working sandbox, or none. `program` is bubblewrap, if it is one of the layers."""

    state: SandboxState
    program: str = ""
    able: Abilities | None = None


def find_layers(confinement: Confinement, programs: str, joining: tuple[str, ...] = ()) -> Layers:
    """Find the best layers that work here, by running a trivial command in each. `joining` are
    the arguments that join the shared network."""
    if not sys.platform.startswith("linux"):
        return no_layers(f"there is no sandbox for {sys.platform} yet")
    from rookery.sandbox.confine import landlock_version

    network = confinement.network
    version = max(0, landlock_version())
    refusal = "bubblewrap is not installed"
    keeper = shutil.which(COPIER, path=programs) or "" if version else ""
    for program, able in _bubblewraps(programs, joining, keeper):
        kind: Kind = "bubblewrap+landlock" if version else "bubblewrap"
        state = SandboxState(
            kind=kind, network=network, landlock=version, closes_users=able.closes_users
        )
        layers = Layers(state, program, able)
        refused = _try(layers, confinement)
        if not refused:
            return layers
        refusal = f"bubblewrap does not work: {refused}"
    open_or_closed: Network = "off" if network == "off" else "on"  # Landlock cannot filter hosts
    state = SandboxState(kind="landlock", network=open_or_closed, landlock=version, why=refusal)
    refused = _try(Layers(state), confinement) if version else "the kernel has no Landlock"
    return no_layers(f"{refusal}, and {refused}") if refused else Layers(state)


def no_layers(why: str) -> Layers:
    return Layers(SandboxState(kind="none", why=why))


def prefix(layers: Layers, confinement: Confinement, cwd: str) -> list[str]:
    """The arguments before a command."""
    confine = [INTERPRETER, "-I", "-S", own_script(CONFINE)]
    words = [word for name in SOCKET_VARIABLES for word in ("unset", name)]
    words += ["limit", f"NOFILE={OPEN_FILES}", "limit", "CORE=0"]
    if not layers.able:
        found = (confinement.root, *confinement.writable)
        return [*confine, *words, *_identities(found), *rules_alone(confinement), "--"]
    needed = (os.path.realpath(sys.base_prefix), str(CONFINE.parents[1]))
    unguarded = writable_within_mounts(confinement) if layers.state.landlock else ["/"]
    mounts = bubblewrap(
        layers.program, confinement, cwd=cwd, able=layers.able, needed=needed, unguarded=unguarded
    )
    words += ["limit", f"NPROC={PROCESSES}", *_identities(mounted(confinement))]
    words += [*_way_out(confinement.way), "drop", "capabilities"]
    if confinement.network != "on":
        words += ["network", "inside"]
    if layers.state.landlock:
        words += [word for path in unguarded for word in ("write", path)]
    return [*mounts, *confine, *words, "--"]


def _bubblewraps(
    programs: str, joining: tuple[str, ...], keeper: str
) -> Iterable[tuple[str, Abilities]]:
    """Bubblewrap with decreasing features, as older versions lack some."""
    program = shutil.which("bwrap", path=programs)
    for joins, closes_users in product(dict.fromkeys((joining, ())), (True, False)):
        if program:
            yield program, Abilities(closes_users, joins, keeper)


_passed: set[object] = set()
"""Trials that succeeded in this process."""


def _try(layers: Layers, confinement: Confinement) -> str:
    """Run a trivial command, unless one has run in layers like these, on the same file systems.
    Returns why it failed, or an empty string."""
    able = layers.able
    abilities = able and (able.closes_users, bool(able.joining), able.keeper)
    devices = frozenset(place.device for place in mounted(confinement))
    trial = layers.program, layers.state, abilities, devices
    if trial in _passed:
        return ""
    why = _run_probe(layers, confinement)
    if not why:
        _passed.add(trial)
    return why


def _run_probe(layers: Layers, confinement: Confinement) -> str:
    """Run a trivial command; returns why it failed, or an empty string."""
    become_subreaper()
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
        _, stderr = probe.communicate(timeout=PROBE_SECONDS)
    except subprocess.TimeoutExpired as error:
        os.killpg(probe.pid, signal.SIGKILL)
        probe.communicate()
        return str(error)
    finally:
        _reap(probe.pid)
    stderr_lines = stderr.decode(errors="replace").strip().splitlines()
    return "" if probe.returncode == 0 else (stderr_lines or [f"status {probe.returncode}"])[-1]


def _reap(group: int) -> None:
    """Reap the inner process of bubblewrap, which outlives the outer one."""
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-group, 0)


def _way_out(way: Handoff | None) -> list[str]:
    if way is None:
        return []
    forwards = [word for port in way.ports for word in ("forward", str(port))]
    return ["proxy", f"{way.path}={way.token}", *forwards]


def _identities(found: Iterable[Spot]) -> list[str]:
    return [word for at in found for word in ("is", at.identity)]


CLOSED_WHOLLY = ("x86_64", "aarch64")
"""Architectures for which `confine` knows the system calls that make sockets."""


class Holds(StrEnum):
    YES = "yes"
    PARTLY = "partly"
    NO = "no"


class Guarantee(Struct, frozen=True):
    name: str
    holds: Holds
    why: str = ""


_Extent: TypeAlias = tuple[Holds, str]
_WHOLLY: _Extent = (Holds.YES, "")
_ENDED_BY_WARDEN: _Extent = (Holds.PARTLY, "the warden ends all processes of the command")

WRITES = "writes confined"
CREDENTIALS = "credentials hidden"
OWN = "own state hidden"
NETWORK = "network closed"
ENDING = "processes end with the command"
PROTECTED = "protected files read-only"
PRIVILEGES = "no new privileges"

OPEN_TO_ALL = (
    "no network namespace can be made, so commands can reach every host; commands that name "
    "an unknown host need approval"
)


def guarantees(state: SandboxState, *, open_to_all: bool) -> list[Guarantee]:
    """Each guarantee, whether it holds here, and what is missing if it does not fully."""
    if state.kind == "none":
        lost = (WRITES, CREDENTIALS, OWN, NETWORK, PROTECTED, PRIVILEGES)
        found = dict.fromkeys(lost, (Holds.NO, state.why)) | {ENDING: _ENDED_BY_WARDEN}
    elif state.kind == "landlock" or open_to_all:
        found = _by_landlock(state)
    else:
        found = _by_bubblewrap(state)
    if open_to_all and state.kind != "none":
        found[NETWORK] = (Holds.NO, OPEN_TO_ALL)
    return [Guarantee(name, *holds) for name, holds in found.items()]


def _by_bubblewrap(state: SandboxState) -> dict[str, _Extent]:
    old = "this bubblewrap is too old to keep commands from making user namespaces"
    return {
        WRITES: _WHOLLY,
        CREDENTIALS: _WHOLLY,
        OWN: _WHOLLY,
        NETWORK: _network(state, Holds.YES, ""),
        ENDING: _WHOLLY,
        PROTECTED: (Holds.PARTLY, "protected files that a command creates are removed after it"),
        PRIVILEGES: _WHOLLY if state.closes_users else (Holds.PARTLY, old),
    }


def _by_landlock(state: SandboxState) -> dict[str, _Extent]:
    writes = "modes, owners and times of files outside can be changed"
    if state.landlock < 3:
        writes += ", and with this kernel files outside can be truncated"
    sockets = "names of hidden files can be listed, and Unix sockets with a path can be reached"
    why = "Landlock cannot exclude a file of the workspace; they are restored after the command"
    if os.uname().machine in CLOSED_WHOLLY:
        closed, how = Holds.YES, "connections within the machine are closed as well"
    else:
        closed, how = Holds.PARTLY, "TCP is closed; UDP is not"
    return {
        WRITES: (Holds.PARTLY, f"{writes}; the temporary folder is shared"),
        CREDENTIALS: (Holds.PARTLY, sockets),
        OWN: (Holds.PARTLY, "names can be listed; contents cannot be read"),
        NETWORK: _network(state, closed, how),
        ENDING: _ENDED_BY_WARDEN,
        PROTECTED: (Holds.NO, why),
        PRIVILEGES: _WHOLLY,
    }


def _network(state: SandboxState, closed: Holds, why: str) -> _Extent:
    if state.network == "on":
        return Holds.NO, "it is turned on in the settings"
    if state.network == "known":
        return Holds.YES, "Commands reach known hosts only, through a proxy."
    return closed, why
