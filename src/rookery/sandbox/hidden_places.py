"""Credentials and powerful sockets to hide from commands, and private caches for tools.

Many tools fail if they cannot write to their cache, so variables point them to a private folder
that mirrors the user's caches by links: existing entries can be read, and shared caches written.
New entries are private and removed with the sandbox; a later run removes what a killed one left.
"""

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from rookery.core.protected_paths import CREDENTIAL_PLACES, SYSTEM_CREDENTIALS
from rookery.platform.own_programs import SHARED_CACHES, existing_places
from rookery.platform.paths import within, within_any

SOCKETS = (
    "/run/user",
    "/run/dbus",
    "/run/docker",
    "/run/docker.sock",
    "/run/containerd",
    "/run/crio",
    "/run/podman",
    "/run/buildkit",
    "/run/libvirt",
    "/run/lxd.socket",
    "/run/pcscd",
    "/run/snapd.socket",
    "/run/systemd/private",
    "/run/gssproxy.sock",
    "/var/run/docker.sock",
    "/var/lib/lxd",
    "/var/snap/lxd",
    "/tmp/.X11-unix",
    "/tmp/.ICE-unix",
)
"""Sockets of servers that could act for a command outside the sandbox."""

RESOLVER_SOCKETS = (
    "/run/systemd/resolve/io.systemd.Resolve",
    "/run/systemd/resolve/io.systemd.Resolve.Monitor",
    "/run/nscd",
    "/var/run/nscd",
    "/run/avahi-daemon",
    "/run/tailscale",
    "/var/run/tailscale",
)
"""Sockets of servers that resolve names or connect for others. Requests to them leave the
machine, whatever network the command has itself."""

SOCKET_VARIABLES = (
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "GPG_AGENT_INFO",
    "GNOME_KEYRING_CONTROL",
    "GNOME_KEYRING_PID",
    "DBUS_SESSION_BUS_ADDRESS",
    "DBUS_SYSTEM_BUS_ADDRESS",
    "DBUS_STARTER_ADDRESS",
    "DOCKER_HOST",
    "CONTAINER_HOST",
    "PODMAN_HOST",
    "XDG_RUNTIME_DIR",
    "WAYLAND_DISPLAY",
    "DISPLAY",
    "XAUTHORITY",
    "TMUX",
    "STY",
    "VSCODE_IPC_HOOK_CLI",
    "VSCODE_GIT_IPC_HANDLE",
)
"""Variables that point to such sockets, which are hidden."""

VARIABLES = {
    "XDG_CACHE_HOME": ".cache",
    "npm_config_cache": ".npm",
    "BUN_INSTALL_CACHE_DIR": ".bun/install/cache",
}
"""The variable by which tools are pointed to the private copy of each cache."""

FRESH = (
    ".bun/install/cache",
    ".cache/bazel",
    ".cache/ccache",
    ".cache/deno",
    ".cache/pip/wheels",
    ".cache/pnpm",
    ".cache/pypoetry/artifacts",
    ".cache/pypoetry/cache",
    ".cache/uv",
    ".cache/zig",
    ".npm/_npx",
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


def hidden_places(home: str, more: Iterable[str]) -> tuple[str, ...]:
    """The hidden places that exist, canonical, without those inside another."""
    at_home = (os.path.join(home, place) for place in CREDENTIAL_PLACES)
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
