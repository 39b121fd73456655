"""A network connection between a browser and a manager that can be cut."""

import socket
import threading
from contextlib import suppress


class Relay:
    """A proxy between a browser and a manager whose connections can be cut."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._listener.getsockname()[1]
        self._names = (f"127.0.0.1:{self.port}".encode(), f"127.0.0.1:{port}".encode())
        self._open: list[socket.socket] = []
        self._refusing = threading.Event()
        threading.Thread(target=self._admit, daemon=True).start()

    def cut(self) -> None:
        self._refusing.set()
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        self._refusing.clear()

    def close(self) -> None:
        self.cut()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _admit(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                try:
                    far = self._reach()
                except ConnectionRefusedError:
                    near.close()
                    continue
                self._open += [near, far]
                ours, theirs = self._names
                for ends, names in (((near, far), (ours, theirs)), ((far, near), (theirs, ours))):
                    threading.Thread(target=self._carry, args=(*ends, *names), daemon=True).start()

    def _reach(self) -> socket.socket:
        if self._refusing.is_set():
            raise ConnectionRefusedError
        return socket.create_connection(("127.0.0.1", self._to))

    def _carry(self, near: socket.socket, far: socket.socket, name: bytes, other: bytes) -> None:
        """Forward data, and replace host names so that each side sees its own."""
        with suppress(OSError), near:
            while data := near.recv(1 << 16):
                far.sendall(data.replace(name, other))
            far.shutdown(socket.SHUT_RDWR)
