"""What waits to be sent, in bounded size for those who ask whether there is room."""

from collections import deque
from collections.abc import Callable

import anyio

from rookery.errors import RookeryError

OUTBOX = 2**20
"""Bytes that may wait to be sent before there is no more room."""
_AT_ONCE = 2**18


class Disconnected(RookeryError):
    """The other side is gone, and what became of a call to it is not known."""


class Outbox:
    """Messages that wait to be sent, each as its bytes."""

    def __init__(self) -> None:
        self._waiting: deque[bytes] = deque()
        self._size = 0
        """Of what waits and what is being sent."""
        self._under_way = 0
        self._changed = anyio.Event()
        self._awaited = False
        self._over = False

    @property
    def has_room(self) -> bool:
        return self._size < OUTBOX

    def put(self, message: bytes) -> None:
        if self._over:
            raise gone()
        self._waiting.append(message)
        self._size += len(message)
        self._change()

    async def take(self) -> list[bytes]:
        """As many as go well together, once there are any."""
        await self._until(lambda: bool(self._waiting))
        taken: list[bytes] = []
        while self._waiting and self._under_way < _AT_ONCE:
            taken.append(self._waiting.popleft())
            self._under_way += len(taken[-1])
        return taken

    def sent(self) -> None:
        self._size -= self._under_way
        self._under_way = 0
        self._change()

    async def room(self) -> None:
        if not self.has_room:
            await self._until(lambda: self._size <= OUTBOX // 2)
        if self._over:
            raise gone()

    async def emptied(self) -> None:
        await self._until(lambda: not self._size)

    def end(self) -> None:
        self._over = True
        self._waiting.clear()
        self._change()

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not (self._over or holds()):
            self._awaited = True
            await self._changed.wait()

    def _change(self) -> None:
        if self._awaited:
            self._awaited = False
            self._changed.set()
            self._changed = anyio.Event()


def gone() -> Disconnected:
    return Disconnected("The connection was lost.")
