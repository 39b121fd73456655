"""A command's output on its way to disk: whole if it fits, otherwise its beginning and its end."""

from rookery.core.limits import MIB
from rookery.engine.ports.commands import Artifact
from rookery.errors import StorageError

TAIL = 1 * MIB
"""How much of the end of an oversized output is kept, if the cap allows it."""


class KeptOutput:
    """Writes at most `cap` bytes of output to an artifact, in constant memory.

    Once the beginning has its share, the newest bytes wait in memory until it is known that
    no more will come; only then is it decided which of them were the end. A disk that
    refuses does not stop the command: `error` says so when all is over.
    """

    def __init__(self, artifact: Artifact, cap: int) -> None:
        self.error: StorageError | None = None
        self._artifact = artifact
        self._tail_size = min(TAIL, cap // 2)
        self._room = cap - self._tail_size
        self._tail = bytearray()
        self._dropped = 0
        self._closed = False

    def write(self, data: bytes) -> None:
        head, rest = data[: self._room], data[self._room :]
        self._room -= len(head)
        self._put(head)
        self._tail += rest
        excess = len(self._tail) - self._tail_size
        if excess > 0:
            del self._tail[:excess]
            self._dropped += excess

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._dropped:
            self._put(f"\n[… {self._dropped} bytes dropped …]\n".encode())
        self._put(bytes(self._tail))
        self._artifact.close()

    def _put(self, data: bytes) -> None:
        if not data or self.error:
            return
        try:
            self._artifact.write(data)
        except StorageError as error:
            self.error = error
