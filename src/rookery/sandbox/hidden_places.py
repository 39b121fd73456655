"""Where commands find credentials, sockets to powerful servers, and room for their caches."""

import os
from collections.abc import Iterable, Sequence

from rookery.core.credential_paths import CREDENTIAL_PLACES, SYSTEM_CREDENTIALS
from rookery.sandbox.confinement import depth, within_any

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

SHARED_CACHES = (
    ".cache/composer",
    ".cache/go-build",
    ".cache/golangci-lint",
    ".cache/pip/http",
    ".cache/pip/http-v2",
    ".cache/pip/selfcheck",
    ".cache/sccache",
    ".cache/yarn",
    ".cargo/git",
    ".cargo/registry",
    ".composer/cache",
    ".gem/specs",
    ".gradle/caches",
    ".ivy2/cache",
    ".local/state/pnpm",
    ".m2/repository",
    ".npm/_cacache",
    ".npm/_logs",
    ".nuget/packages",
    ".nv/ComputeCache",
    ".rustup/downloads",
    ".rustup/tmp",
    ".yarn/berry/cache",
    "go/pkg/mod",
    "go/pkg/sumdb",
)
"""Relative to the home folder. Each holds only what a tool fetches or builds from, when it is told
to install or to build. None is in a PATH, holds configuration or scripts that run unasked, such
as the environments of pre-commit and poetry, or has files that other projects have hard links
to, such as the stores of uv, pnpm and bun: what a command left there would run outside."""

OTHER_CACHES = (
    ".bun/install/cache",
    ".cache",
    ".local/share/pnpm/store",
    ".pnpm-store",
    "Library/Caches",
)
"""Commands only read these, yet a program in one of them is nobody's choice."""


def hidden_places(home: str, more: Iterable[str]) -> tuple[str, ...]:
    """The ones that exist, canonical; a place inside another is hidden with it."""
    at_home = (os.path.join(home, place) for place in CREDENTIAL_PLACES)
    of_system = (*SYSTEM_CREDENTIALS, *_host_keys("/etc/ssh"), *SOCKETS)
    readable = (place for place in of_system if os.access(place, os.R_OK))
    return _existing((*at_home, *readable, *more))


def caches(home: str) -> tuple[str, ...]:
    """All of them, whoever writes there."""
    places = (*OTHER_CACHES, *SHARED_CACHES)
    return _existing(os.path.join(home, place) for place in places)


def shared_caches(home: str) -> tuple[str, ...]:
    """Those where commands write, for the tools outside as well."""
    return _existing(os.path.join(home, place) for place in SHARED_CACHES)


def _host_keys(folder: str) -> list[str]:
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return [os.path.join(folder, name) for name in names if name.startswith("ssh_host_")]


def _existing(paths: Iterable[str]) -> tuple[str, ...]:
    real = {os.path.realpath(path) for path in paths if os.path.lexists(path)}
    outermost: list[str] = []
    for path in sorted(real, key=depth):
        if os.path.exists(path) and not within_any(path, outermost):
            outermost.append(path)
    return tuple(outermost)


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
