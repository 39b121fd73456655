"""The sandbox as mounts and namespaces, made by bubblewrap.

Mounts are made in this order, and a later one covers an earlier one: the whole disk read-only,
private temporary folders, writable folders, hidden files, the workspace or its writable part, and
last the files in it that must not change.

The commands of a session share one network namespace, so that they reach each other's servers. A
process of ours holds it, and commands join it before bubblewrap confines them. If it cannot be
created or joined, each command has its own network.
"""

import os
import shutil
import socket
import subprocess
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock

from msgspec import Struct

from rookery.errors import ToolError
from rookery.platform.own_programs import own_script
from rookery.platform.paths import within, within_any
from rookery.platform.starter import DEAF, JOIN, KEEPER
from rookery.platform.user_folders import TEMPORARY, real_temporary
from rookery.platform.wardens import INTERPRETER, start_words
from rookery.sandbox.confinement import Confinement, Narrowed, Spot, depth, spots_inside
from rookery.sandbox.network_holder import CONNECT, HOLD

EMPTY = {".json": ("{}", "empty.json"), ".xml": ("<settings/>", "empty.xml")}
"""Contents of hidden files. They exist but are empty, since many programs fail if a file cannot
be read."""
EMPTY_TEXT, UNREADABLE = "empty", "unreadable"

_NAMESPACES = ("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts")


class Abilities(Struct, frozen=True):
    """Optional features of the programs on this machine."""

    closes_users: bool = True
    """Whether bubblewrap can keep commands from creating user namespaces."""
    joining: tuple[str, ...] = ()
    """The arguments that join the shared network; without them each command has its own."""
    keeper: str = ""
    """A program that keeps the sandbox of a command while a warden enters it. Only with Landlock:
    without, the command could trace the keeper and take its rights."""


def prepare_private(private: str) -> None:
    """Create the files that the mounts need in the private folder."""
    for name in TEMPORARY:
        os.mkdir(os.path.join(private, name), 0o700)
    for text, name in (*EMPTY.values(), ("", EMPTY_TEXT), ("", UNREADABLE)):
        with open(os.path.join(private, name), "w", encoding="utf-8") as file:
            file.write(text)
    os.chmod(os.path.join(private, UNREADABLE), 0)


def bubblewrap(
    program: str,
    confinement: Confinement,
    *,
    cwd: str,
    able: Abilities,
    needed: Iterable[str],
    unguarded: Sequence[str],
) -> list[str]:
    """The arguments before a command. `needed` are folders without which it could not start.
    Landlock denies writing outside the `unguarded` folders, so that no mount has to."""
    return [
        # bubblewrap would kill the command if it ended by a signal that asks the command to end
        *start_words(DEAF, *able.joining, *([f"{KEEPER}{able.keeper}"] if able.keeper else [])),
        program,
        *_NAMESPACES,
        *(["--disable-userns"] if able.closes_users else []),
        *([] if confinement.network == "on" or able.joining else ["--unshare-net"]),
        "--die-with-parent",
        *("--cap-drop", "ALL"),
        *_machine(),
        *_temporary(confinement, needed),
        *_workspace(confinement, unguarded),
        *("--chdir", cwd),
        "--",
    ]


def mounted(confinement: Confinement) -> Iterator[Spot]:
    """The files and folders that must be behind the mounts."""
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
    # /proc/sys belongs to root, who could write it even without capabilities
    yield from ("--proc", "/proc", "--remount-ro", "/proc")


def _temporary(confinement: Confinement, needed: Iterable[str]) -> Iterator[str]:
    covered: list[str] = []
    for name, real in real_temporary().items():
        if os.path.isdir(real) and real not in covered:
            covered.append(real)
            yield from ("--bind", os.path.join(confinement.private, name), real)
    for path in (confinement.home, *needed):
        if within_any(path, covered) and path not in covered and os.path.isdir(path):
            yield from ("--ro-bind", path, path)


def _workspace(confinement: Confinement, unguarded: Sequence[str]) -> Iterator[str]:
    root = confinement.root.path
    inside = [path for path in confinement.hidden if within(path, root) and path != root]
    outside = [path for path in _visible_places(confinement) if path not in inside and path != root]
    for read in confinement.read:
        yield from ("--ro-bind", read.path, read.path)
    for writable in confinement.writable:
        yield from ("--bind", writable.path, writable.path)
    yield from _hide(outside, confinement.private)
    if confinement.narrowed:
        yield from _mount_part(confinement, confinement.narrowed)
    else:
        yield from ("--bind", root, root)
    for pinned in confinement.pinned:  # a mounted folder cannot be renamed
        yield from ("--bind", pinned.path, pinned.path)
    yield from _hide(inside, confinement.private)
    for kept in confinement.kept:
        yield from ("--bind", kept.path, kept.path)
    for fixed in confinement.fixed:
        yield from ("--ro-bind", fixed.path, fixed.path)
    for path in confinement.ignored:
        yield from _ignore(path, confinement.private)
    for path in (*outside, *inside):
        if within_any(path, unguarded) and os.path.isdir(path):
            yield from ("--remount-ro", path)  # last: mounts inside need a writable folder


def _mount_part(confinement: Confinement, narrowed: Narrowed) -> Iterator[str]:
    """Mounts for the writable part. A file is mounted only if its folder is not writable,
    because a mounted file cannot be replaced."""
    opened = {at.path for at in narrowed.opened}
    files = (at for at in narrowed.files if os.path.dirname(at.path) not in opened)
    inside = spots_inside(confinement.root, confinement.writable)
    still = (confinement.root, *narrowed.beside)
    writable = (*narrowed.opened, *narrowed.folders, *files, *inside)
    ways = {at.path: "--ro-bind" for at in still} | {at.path: "--bind" for at in writable}
    for path in sorted(ways, key=depth):
        yield from (ways[path], path, path)


def _visible_places(confinement: Confinement) -> Iterator[str]:
    """The hidden places that are visible at all, and not covered by the private folders."""
    covered = real_temporary().values()
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


HOLDER = Path(__file__).with_name("network_holder.py")
COPIER = "cat"
"""A program that copies its input: it keeps a namespace until its input is closed."""
READY = b"ready"
READY_SECONDS = 10.0
ANSWER_SECONDS = 15.0
_LISTENING = "0A"
_NO_ADDRESS = {"00000000", "0" * 32}
_LOOPBACK = {"0100007F", "0" * 24 + "01000000"}


class _Linked:
    """A process that ends when its standard input, a socket to us, is closed."""

    def __init__(self, *words: str) -> None:
        self.link, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [INTERPRETER, "-I", "-S", own_script(HOLDER), *words],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                process_group=0,
            )

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    def close(self) -> None:
        self.link.close()
        self.process.kill()
        self.process.wait()


class SharedNetwork:
    """Raises `OSError` if it cannot be created. `keeper` is the program that keeps it."""

    def __init__(self, keeper: str) -> None:
        self._asking = Lock()
        self._connector: _Linked | None = None
        self._holder = _Linked(HOLD, keeper)
        self._holder.link.settimeout(READY_SECONDS)
        try:
            if self._holder.link.recv(len(READY)) != READY:
                raise OSError("no network namespace can be made")
        except OSError:
            self.close()
            raise

    @property
    def joining(self) -> tuple[str, ...]:
        """How a program is started in the namespace, for `start_words`."""
        return (f"{JOIN}{self._holder.process.pid}",)

    def check(self) -> None:
        """Raises `ToolError` if the process that holds the namespace has ended."""
        if self._holder.ended:
            raise ToolError(
                "The sandbox network is gone because its process was killed. The command was not "
                "run. Restart rookery."
            )

    def listening_ports(self) -> set[int]:
        """Ports inside that are listened on under `localhost`."""
        return listening_ports(self._holder.process.pid, _NO_ADDRESS | _LOOPBACK)

    def connect(self, port: int) -> socket.socket | None:
        """Connect to a port inside; None if that fails."""
        with self._asking:
            try:
                link = self._connecting().link
                link.send(port.to_bytes(2, "little"))
                _, files, _, _ = socket.recv_fds(link, 1, 1)
            except OSError:
                self._close_connector()  # or a late answer would be taken for the next one
                return None
        return socket.socket(fileno=files[0]) if files else None

    def _connecting(self) -> _Linked:
        """The process that connects, which few sessions need."""
        if self._connector is None or self._connector.ended:
            self._connector = _Linked(CONNECT, str(self._holder.process.pid))
            self._connector.link.settimeout(ANSWER_SECONDS)
        return self._connector

    def close(self) -> None:
        self._close_connector()
        self._holder.close()

    def _close_connector(self) -> None:
        if self._connector:
            self._connector.close()
        self._connector = None


def shared_network(programs: str) -> SharedNetwork | None:
    """Create the shared network; None if that is not possible here, or if nothing can join it."""
    keeper = shutil.which(COPIER, path=programs)
    try:
        joins = keeper and shutil.which("bwrap", path=programs)
        return SharedNetwork(keeper) if keeper and joins else None
    except OSError:
        return None


def listening_ports(process: int | str, addresses: Collection[str] = ()) -> set[int]:
    """Ports that are listened on in the network of a process, at these addresses or at all."""
    found: set[int] = set()
    for table in ("tcp", "tcp6"):
        with suppress(OSError), open(f"/proc/{process}/net/{table}") as file:
            for fields in map(str.split, file):
                if len(fields) > 3 and fields[3] == _LISTENING:
                    address, _, port = fields[1].partition(":")
                    if not addresses or address in addresses:
                        found.add(int(port, 16))
    return found
