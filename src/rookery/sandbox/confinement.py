"""What a command is confined to, in canonical paths and independent of the layer that enforces it.

`narrow` computes the writable part of the workspace, if that is not all of it. A folder is writable
with everything below it. A writable file, or one still to be created, needs its folder, because
editors replace files: the folder is opened for new entries, and its other entries stay read-only.
Nothing is created there and no link is followed.

Credentials and powerful sockets are hidden. Many tools fail if they cannot write to their cache, so
variables point them to a private folder that mirrors the user's caches by links: existing entries
can be read, and shared caches written. New entries are private and removed with the sandbox; a
later run removes what a killed one left.
"""

import os
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from rookery import PROJECT_FOLDER
from rookery.core.modes import GOVERNANCE_FOLDER
from rookery.core.protected_paths import CREDENTIAL_PLACES, SYSTEM_CREDENTIALS
from rookery.core.text.characters import folded, folded_names
from rookery.engine.ports.workspace import WayOut
from rookery.platform.paths import NamedPlaces, real_paths, within, within_any
from rookery.platform.user_folders import SHARED_CACHES, existing_places

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
        return cls(os.path.join(temporary, way.name), way.token, tuple(way.ports))


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
    return next(iter(spots([path])), None)


def spots(paths: Iterable[str]) -> tuple[Spot, ...]:
    """The existing ones, without duplicates, outer ones first."""
    named = dict.fromkeys(paths)
    real = [path for path, at in zip(named, real_paths(named), strict=True) if at == path]
    found = {path: there for path in real if (there := _spot(path))}
    return tuple(found[path] for path in sorted(found, key=depth))


def _spot(path: str) -> Spot | None:
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return None
    if not (stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)):
        return None
    return Spot(path, found.st_dev, found.st_ino, stat.S_ISDIR(found.st_mode))


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
    never writable. `repositories` are git folders outside the workspace that stay read-only. `own`
    are rookery's own folders, which are hidden from commands."""

    root: Path
    home: Path
    mode: Literal["on", "required", "off"] = "on"
    network: Network = "on"
    writable: tuple[str, ...] = ()
    repositories: tuple[str, ...] = ()
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


SOCKETS = (
    *("/run/user", "/run/dbus", "/run/docker", "/run/docker.sock", "/run/containerd", "/run/crio"),
    *("/run/podman", "/run/buildkit", "/run/libvirt", "/run/lxd.socket", "/run/pcscd"),
    *("/run/snapd.socket", "/run/systemd/private", "/run/gssproxy.sock", "/var/run/docker.sock"),
    *("/var/lib/lxd", "/var/snap/lxd", "/tmp/.X11-unix", "/tmp/.ICE-unix"),
)
"""Sockets of servers that could act for a command outside the sandbox."""

RESOLVER_SOCKETS = (
    *("/run/systemd/resolve/io.systemd.Resolve", "/run/systemd/resolve/io.systemd.Resolve.Monitor"),
    *("/run/nscd", "/var/run/nscd", "/run/avahi-daemon", "/run/tailscale", "/var/run/tailscale"),
)
"""Sockets of servers that resolve names or connect for others. Through them, even a command
without network would reach other machines."""

SOCKET_VARIABLES = (
    *("SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "GNOME_KEYRING_CONTROL"),
    *("GNOME_KEYRING_PID", "DBUS_SESSION_BUS_ADDRESS", "DBUS_SYSTEM_BUS_ADDRESS"),
    *("DBUS_STARTER_ADDRESS", "DOCKER_HOST", "CONTAINER_HOST", "PODMAN_HOST", "XDG_RUNTIME_DIR"),
    *("WAYLAND_DISPLAY", "DISPLAY", "XAUTHORITY", "TMUX", "STY"),
    *("VSCODE_IPC_HOOK_CLI", "VSCODE_GIT_IPC_HANDLE"),
)
"""Variables that point to such sockets, which are hidden."""

VARIABLES = {
    "XDG_CACHE_HOME": ".cache",
    "npm_config_cache": ".npm",
    "BUN_INSTALL_CACHE_DIR": ".bun/install/cache",
}
"""The variable by which tools are pointed to the private copy of each cache."""

FRESH = (
    *(".bun/install/cache", ".cache/bazel", ".cache/ccache", ".cache/deno", ".cache/pip/wheels"),
    *(".cache/pnpm", ".cache/pypoetry/artifacts", ".cache/pypoetry/cache", ".cache/uv"),
    *(".cache/zig", ".npm/_npx"),
)
"""Caches that tools cannot use unless writable, so they start empty."""

OPENED = (
    ".cache/node/corepack/v1/npm",
    ".cache/node/corepack/v1/pnpm",
    ".cache/node/corepack/v1/yarn",
    ".cache/pypoetry/virtualenvs",
)
"""Folders whose existing entries are linked, so that new ones can be added beside them."""

MOST_LINKED = 2_000
_FOLDER = "caches"


_PLACES = NamedPlaces(CREDENTIAL_PLACES)


def hidden_places(home: str, more: Iterable[str]) -> tuple[str, ...]:
    """The hidden places that exist, canonical, without those inside another."""
    at_home = (place for place, _ in _PLACES.below(home))
    of_system = (*SYSTEM_CREDENTIALS, *_host_keys("/etc/ssh"), *SOCKETS)
    readable = (place for place in of_system if os.access(place, os.R_OK))
    return existing_places((*at_home, *readable, *more))


def shared_caches(home: str) -> tuple[str, ...]:
    """The existing caches that commands share with tools outside the sandbox."""
    return existing_places(os.path.join(home, place) for place in SHARED_CACHES)


def _host_keys(folder: str) -> list[str]:
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return [os.path.join(folder, name) for name in names if name.startswith("ssh_host_")]


def without(paths: Sequence[str], folders: Sequence[str]) -> tuple[str, ...]:
    """The paths that are in none of the folders."""
    return tuple(path for path in paths if not within_any(path, folders))


def folders_between(writable: Sequence[str], hidden: Sequence[str]) -> list[str]:
    """The folders between a writable place and a hidden one in it. Each must be a mount of its
    own: otherwise it could be renamed, and the hidden files would be readable under the new
    name."""
    found = []
    for path in hidden:
        folder = os.path.dirname(path)
        while within_any(folder, writable) and folder not in writable:
            found.append(folder)
            folder = os.path.dirname(folder)
    return found


class PrivateCaches:
    """`writable` and `hidden` are canonical places, which are linked as they are."""

    def __init__(self, home: str, *, writable: Sequence[str], hidden: Sequence[str]) -> None:
        self._home = home
        self._linked_whole = (*writable, *hidden)
        self._variables = {
            variable: place
            for variable, place in VARIABLES.items()
            if not within_any(os.path.realpath(os.path.join(home, place)), writable)
        }

    def make(self, temporary: str) -> None:
        for place in self._variables.values():
            self._open(place, os.path.join(temporary, _FOLDER))

    def environment(self, temporary: str) -> dict[str, str]:
        """The variables for a command; `temporary` is the folder as the command sees it."""
        return {
            variable: os.path.join(temporary, _FOLDER, place)
            for variable, place in self._variables.items()
        }

    def _open(self, place: str, private: str) -> None:
        os.makedirs(os.path.join(private, place), mode=0o700, exist_ok=True)
        for name in self._names(place):
            inner = f"{place}/{name}"
            real = os.path.join(self._home, inner)
            if self._is_opened(inner, real):
                self._open(inner, private)
            else:
                os.symlink(real, os.path.join(private, inner))

    def _is_opened(self, place: str, real: str) -> bool:
        if within_any(os.path.realpath(real), self._linked_whole) or not os.path.isdir(real):
            return False
        return any(within(known, place) for known in (*SHARED_CACHES, *FRESH, *OPENED))

    def _names(self, place: str) -> Iterator[str]:
        if place in FRESH:
            return iter(())
        try:
            return islice(os.listdir(os.path.join(self._home, place)), MOST_LINKED)
        except OSError:
            return iter(())  # missing or unreadable


def remove_tree(folder: str, lock: int) -> None:
    """Remove a folder, including what commands made unwritable or unreadable in it."""
    for place, folders, _ in os.walk(folder):
        for name in folders:
            if not os.path.islink(inner := os.path.join(place, name)):
                os.chmod(inner, 0o700)
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)
