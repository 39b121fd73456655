"""Where commands find credentials, sockets to powerful servers, and room for their caches.

Most tools can be told where their cache is, and many fail if they cannot write there. So they
are led to a private folder that looks like the user's own one: what is there is linked, to be
read, and to be written where it is shared. What is new is private, and gone with the sandbox; a
later run sweeps what a killed one left.
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
"""Whoever reaches one of these has others do what the sandbox does not let him do."""

WAYS_TO_NAMES = (
    "/run/systemd/resolve/io.systemd.Resolve",
    "/run/systemd/resolve/io.systemd.Resolve.Monitor",
    "/run/nscd",
    "/var/run/nscd",
    "/run/avahi-daemon",
    "/run/tailscale",
    "/var/run/tailscale",
)
"""Sockets of this machine's servers that look up names or connect for others: what a command asks
them leaves the machine, whatever network it has itself."""

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
"""Variables that lead to such sockets, which are not there."""

VARIABLES = {
    "XDG_CACHE_HOME": ".cache",
    "npm_config_cache": ".npm",
    "BUN_INSTALL_CACHE_DIR": ".bun/install/cache",
}
"""By which variable tools are led to the private folder for which one at home."""

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
"""Tools that find one of these unwritable give up. So they find nothing, and make it anew."""

OPENED = (
    ".cache/node/corepack/v1/npm",
    ".cache/node/corepack/v1/pnpm",
    ".cache/node/corepack/v1/yarn",
    ".cache/pypoetry/virtualenvs",
)
"""Whatever is in one of these is used as it is, and new things are put beside it."""

MOST_LINKED = 2_000
_FOLDER = "caches"


def hidden_places(home: str, more: Iterable[str]) -> tuple[str, ...]:
    """The ones that exist, canonical; a place inside another is hidden with it."""
    at_home = (os.path.join(home, place) for place in CREDENTIAL_PLACES)
    of_system = (*SYSTEM_CREDENTIALS, *_host_keys("/etc/ssh"), *SOCKETS)
    readable = (place for place in of_system if os.access(place, os.R_OK))
    return existing_places((*at_home, *readable, *more))


def shared_caches(home: str) -> tuple[str, ...]:
    """Those where commands write, for the tools outside as well."""
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
    """The folders on the way from a writable place to a hidden one in it. Each is to be mounted
    by itself: otherwise it could be renamed, and the next command would find in it what was
    hidden under the old name."""
    found = []
    for path in hidden:
        folder = os.path.dirname(path)
        while within_any(folder, writable) and folder not in writable:
            found.append(folder)
            folder = os.path.dirname(folder)
    return found


class PrivateCaches:
    """`writable` and `hidden` are canonical places, which are not the private folder's matter."""

    def __init__(self, home: str, *, writable: Sequence[str], hidden: Sequence[str]) -> None:
        self._home = home
        self._left_alone = (*writable, *hidden)
        self._led = {
            variable: place
            for variable, place in VARIABLES.items()
            if not within_any(os.path.realpath(os.path.join(home, place)), writable)
        }

    def make(self, temporary: str) -> None:
        for place in self._led.values():
            self._open(place, os.path.join(temporary, _FOLDER))

    def environment(self, temporary: str) -> dict[str, str]:
        """`temporary` is the same folder as the command sees it."""
        return {
            variable: os.path.join(temporary, _FOLDER, place)
            for variable, place in self._led.items()
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
        if within_any(os.path.realpath(real), self._left_alone) or not os.path.isdir(real):
            return False
        return any(within(known, place) for known in (*SHARED_CACHES, *FRESH, *OPENED))

    def _names(self, place: str) -> Iterator[str]:
        if place in FRESH:
            return iter(())
        try:
            return islice(os.listdir(os.path.join(self._home, place)), MOST_LINKED)
        except OSError:
            return iter(())  # what is not there or cannot be listed is no cache to read from


def remove_tree(folder: str, lock: int) -> None:
    """Also what commands made unwritable or unreadable in it."""
    for place, folders, _ in os.walk(folder):
        for name in folders:
            if not os.path.islink(inner := os.path.join(place, name)):
                os.chmod(inner, 0o700)
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)
