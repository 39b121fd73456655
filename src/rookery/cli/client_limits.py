"""How many clients a server has at once, and how long it has had none."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import anyio

MOST_CLIENTS = 100
"""At once, of one server."""
MOST_STRANGERS = 16
"""Who have not said the token yet; whoever has taken longest goes when another comes."""


class Seats:
    """So that a client that connects without end cannot use up what tasks need too."""

    def __init__(self) -> None:
        self._taken = 0
        self._changed = anyio.Event()

    async def empty_for(self, seconds: float) -> None:
        """Until none was taken for so long."""
        while True:
            changed = self._changed
            with anyio.move_on_after(math.inf if self._taken else seconds) as waited:
                await changed.wait()
            if waited.cancelled_caught:
                return

    def take(self) -> bool:
        """Whether there was one left."""
        if self._taken >= MOST_CLIENTS:
            return False
        self._change(1)
        return True

    def _change(self, by: int) -> None:
        self._taken += by
        self._changed.set()
        self._changed = anyio.Event()

    @contextmanager
    def later(self) -> Iterator["Seat"]:
        """For somebody who may take one."""
        seat = Seat(self)
        try:
            yield seat
        finally:
            if seat.is_taken:
                self._change(-1)


class Seat:
    def __init__(self, seats: Seats) -> None:
        self._seats = seats
        self.is_taken = False

    def take(self) -> bool:
        """Whether there is one left."""
        self.is_taken = self.is_taken or self._seats.take()
        return self.is_taken


class Strangers:
    """Those who came and are not known yet. They take no seat from those who are, and none can
    keep others out: the door is never closed, but whoever has stood in it longest has to go."""

    def __init__(self) -> None:
        self._there: list[Stranger] = []

    @contextmanager
    def one(self) -> Iterator["Stranger"]:
        if len(self._there) >= MOST_STRANGERS:
            self._there.pop(0).scope.cancel()
        stranger = Stranger(self._there)
        with stranger.scope:
            try:
                yield stranger
            finally:
                stranger.is_known()


class Stranger:
    def __init__(self, there: "list[Stranger]") -> None:
        self._there = there
        self.scope = anyio.CancelScope()
        there.append(self)

    def is_known(self) -> None:
        if self in self._there:
            self._there.remove(self)
