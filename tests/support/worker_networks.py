"""The network between one worker and the database, which can be cut without either end noticing.

If this process may create a network namespace, the worker runs in one; a cut network drops its
packets. Otherwise a relay stands between them, and stops forwarding.
"""

import os
import random
import shutil
import socket
import subprocess
import threading
from contextlib import suppress
from urllib.parse import urlsplit

LOOPBACK = "127.0.0.1"


class WorkerNetwork:
    def __init__(self, address: str) -> None:
        self._name = f"rk{os.getpid() % 10**5}x{random.randrange(10**4)}"
        self._host = self._namespace() or LOOPBACK
        self.namespace = self._name if self.is_namespace else ""
        """The name of the network namespace that a worker enters."""
        database = urlsplit(address)
        assert database.port
        self._relay = _Relay(self._host, (LOOPBACK, database.port))
        self.address = f"postgresql://rookery@{self._host}:{self._relay.port}{database.path}"

    @property
    def is_namespace(self) -> bool:
        return self._host != LOOPBACK

    def cut(self) -> None:
        if self.is_namespace:
            _ip("link", "set", f"{self._name}h", "down")
        else:
            self._relay.passing.clear()

    def mend(self) -> None:
        if self.is_namespace:
            _ip("link", "set", f"{self._name}h", "up")
        self._relay.passing.set()

    def close(self) -> None:
        self._relay.close()
        if self.is_namespace:
            _ip("netns", "del", self._name)

    def _namespace(self) -> str:
        """The address of this end; empty if there can be no namespace."""
        if os.geteuid() or not shutil.which("ip") or not _ip("netns", "add", self._name):
            return ""
        here, there = f"{self._name}h", f"{self._name}w"
        net = f"10.213.{random.randrange(256)}.{4 * random.randrange(64)}"
        first, last = net.rsplit(".", 1)
        one, two = f"{first}.{int(last) + 1}", f"{first}.{int(last) + 2}"
        inside = ("-n", self._name)
        steps = (
            ("link", "add", here, "type", "veth", "peer", "name", there, "netns", self._name),
            ("addr", "add", f"{one}/30", "dev", here),
            ("link", "set", here, "up"),
            (*inside, "addr", "add", f"{two}/30", "dev", there),
            (*inside, "link", "set", there, "up"),
            (*inside, "link", "set", "lo", "up"),
        )
        if all(_ip(*step) for step in steps):
            return one
        _ip("netns", "del", self._name)
        return ""


def _ip(*words: str) -> bool:
    return subprocess.run(["ip", *words], capture_output=True, check=False).returncode == 0


class _Relay:
    """Passes on connections while `passing` is set."""

    def __init__(self, host: str, to: tuple[str, int]) -> None:
        self.passing = threading.Event()
        self.passing.set()
        self._to = to
        self._ended = False
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server((host, 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                one, _ = self._listener.accept()
                try:
                    other = socket.create_connection(self._to)
                except OSError:  # the database is being restarted
                    one.close()
                    continue
                self._sockets += [one, other]
                for pair in ((one, other), (other, one)):
                    threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(65536):
                self.passing.wait()
                other.sendall(data)
        for each in (one, other):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.passing.set()
        self._listener.close()
        for each in self._sockets:
            each.close()
