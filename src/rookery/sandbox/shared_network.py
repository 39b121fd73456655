"""The network namespace that the commands of a session share, so that they reach each other's
servers.

A process of ours holds the namespace. Commands join it before bubblewrap confines them. If it
cannot be created or joined, each command has its own network.
"""

import shutil
import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from threading import Lock

from rookery.errors import ToolError
from rookery.platform.own_programs import own_script

HOLDER = Path(__file__).with_name("network_holder.py")
READY = b"ready"
READY_SECONDS = 10.0
ANSWER_SECONDS = 15.0
_LISTENING = "0A"
_NO_ADDRESS = {"00000000", "0" * 32}
_LOOPBACK = {"0100007F", "0" * 24 + "01000000"}


class SharedNetwork:
    """Raises `OSError` if it cannot be created."""

    def __init__(self, interpreter: str, programs: str) -> None:
        self._nsenter = shutil.which("nsenter", path=programs)
        if not self._nsenter:
            raise OSError("nsenter is not installed")
        self._asking = Lock()
        self._link, theirs = socket.socketpair()
        with theirs:
            self._holder = subprocess.Popen(
                [interpreter, "-I", "-S", own_script(HOLDER)],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                process_group=0,
            )
        self._link.settimeout(READY_SECONDS)
        try:
            if self._link.recv(len(READY)) != READY:
                raise OSError("no network namespace can be made")
        except OSError:
            self.close()
            raise
        self._link.settimeout(ANSWER_SECONDS)

    @property
    def joining(self) -> tuple[str, ...]:
        """The arguments before a program that is to run in the namespace."""
        assert self._nsenter
        target = f"--target={self._holder.pid}"
        return (self._nsenter, target, "--user", "--net", "--preserve-credentials", "--")

    def check(self) -> None:
        """Raises `ToolError` if the process that holds the namespace has ended."""
        if self._holder.poll() is not None:
            raise ToolError(
                "The sandbox network is gone because its process was killed. The command was not "
                "run. Restart rookery."
            )

    def listening_ports(self) -> set[int]:
        """Ports inside that are listened on under `localhost`."""
        found: set[int] = set()
        for table in ("tcp", "tcp6"):
            with suppress(OSError), open(f"/proc/{self._holder.pid}/net/{table}") as file:
                found.update(port for line in file if (port := _listening_port(line)))
        return found

    def connect(self, port: int) -> socket.socket | None:
        """Connect to a port inside; None if that fails."""
        with self._asking:
            try:
                self._link.send(port.to_bytes(2, "little"))
                _, files, _, _ = socket.recv_fds(self._link, 1, 1)
            except OSError:
                return None
        return socket.socket(fileno=files[0]) if files else None

    def close(self) -> None:
        self._link.close()
        self._holder.kill()
        self._holder.wait()


def shared_network(interpreter: str, programs: str) -> SharedNetwork | None:
    """Create the shared network; None if that is not possible here."""
    try:
        return SharedNetwork(interpreter, programs)
    except OSError:
        return None


def _listening_port(line: str) -> int:
    """The port in a line of the kernel's table; 0 if it is not a listening socket."""
    fields = line.split()
    if len(fields) < 4 or fields[3] != _LISTENING:
        return 0
    address, _, port = fields[1].partition(":")
    return int(port, 16) if address in (_NO_ADDRESS | _LOOPBACK) else 0
