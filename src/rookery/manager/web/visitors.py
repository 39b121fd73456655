"""Connections of the web server, their authentication and their limits.

No client can keep others out: unauthenticated connections have little time, and the oldest is
closed when there is no room. Connections from other machines have a separate limit, and so has each
device. Wrong tokens and codes are counted by address.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from time import monotonic

import anyio

from rookery.manager.web.devices import Identity, Keys
from rookery.manager.web.web_limits import (
    ADDRESSES_REMEMBERED,
    ANONYMOUS_REQUEST,
    BETWEEN_REQUESTS,
    CONNECTIONS,
    CONNECTIONS_OF_A_DEVICE,
    HANDSHAKE,
    STALLED,
    WRONG_PER_MINUTE,
)

_MINUTE = 60.0


class Visitors:
    def __init__(self) -> None:
        self._here: dict[Visitor, None] = {}

    def __len__(self) -> int:
        return len(self._here)

    def __iter__(self) -> Iterator["Visitor"]:
        return iter([*self._here])

    def add(self, *, outside: bool = False) -> "Visitor | None":
        """Register a connection; None if there is no room."""
        beside = [visitor for visitor in self._here if visitor.outside == outside]
        if len(beside) >= CONNECTIONS and not _make_room(beside):
            return None
        visitor = Visitor(self, outside=outside)
        self._here[visitor] = None
        return visitor

    def remove(self, visitor: "Visitor") -> None:
        self._here.pop(visitor, None)

    def disconnect(self, device_id: str, *, keep: int = 0) -> None:
        """Close the connections of a device, except the newest `keep`."""
        them = [each for each in self if each.identity and each.identity.device_id == device_id]
        for visitor in them[: max(0, len(them) - keep)]:
            visitor.disconnect()


class Access:
    def __init__(self, keys: Keys, visitors: Visitors, on_blocked: Callable[[int], None]) -> None:
        self.keys = keys
        self.visitors = visitors
        self.wrong_tokens = WrongGuesses()
        self.wrong_codes = WrongGuesses()
        self.blocked_requests = 0
        self._on_blocked = on_blocked

    def count_blocked(self) -> None:
        """Count a refused request, which the user is shown."""
        self.blocked_requests += 1
        self._on_blocked(self.blocked_requests)

    def identity(self, token: object, *, outside: bool, address: str) -> Identity | HTTPStatus:
        """Authenticate a token. A valid one is never limited by wrong ones from the same
        address, so an old page that keeps retrying does not lock out a new one."""
        if identity := self.keys.identity(token, outside=outside):
            return identity
        return _wrong(self.wrong_tokens, address)

    def wrong_code(self, address: str) -> HTTPStatus:
        """Status for a wrong code. A valid one is never limited, because all clients of a tunnel
        have one address, which is also that of the user at this machine."""
        return _wrong(self.wrong_codes, address)


class WrongGuesses:
    """Recent wrong tokens or codes by address."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._by_address: dict[str, deque[float]] = {}

    def note(self, address: str) -> None:
        times = self._by_address.pop(address, None) or deque(maxlen=WRONG_PER_MINUTE)
        times.append(self._clock())
        self._by_address[address] = times
        while len(self._by_address) > ADDRESSES_REMEMBERED:
            del self._by_address[next(iter(self._by_address))]

    def too_many(self, address: str) -> bool:
        times = self._by_address.get(address)
        if not times or len(times) < WRONG_PER_MINUTE:
            return False
        return self._clock() - times[0] < _MINUTE


class Visitor:
    """The client of one connection."""

    def __init__(self, visitors: Visitors, *, outside: bool = False) -> None:
        self.outside = outside
        """Whether it connected to the address for other machines."""
        self.identity: Identity | None = None
        """Set once it has authenticated."""
        self.handshake = anyio.CancelScope()
        self._visitors = visitors
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._requests = 0
        self._unsent = 0

    def connected(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.set_deadline(HANDSHAKE)

    def closed(self) -> None:
        self._clear_deadline()
        self._visitors.remove(self)

    def authenticate(self, identity: Identity) -> None:
        """Mark as authenticated, which lifts the time limit."""
        self.identity = identity
        self._clear_deadline()
        if identity.device_id:
            self._visitors.disconnect(identity.device_id, keep=CONNECTIONS_OF_A_DEVICE)

    def disconnect(self) -> None:
        """Disconnect at once, dropping unsent data."""
        self.closed()
        if self._transport:
            self._transport.abort()
        else:
            self.handshake.cancel()

    @contextmanager
    def request(self) -> Iterator[None]:
        """Serve a request. A connection can be used for several."""
        self._requests += 1
        if self.identity:
            self._clear_deadline()
        else:
            self.set_deadline(ANONYMOUS_REQUEST)
        try:
            yield
        finally:
            self._requests -= 1
            if not self._requests:
                self.set_deadline(BETWEEN_REQUESTS + HANDSHAKE)

    def set_deadline(self, seconds: float) -> None:
        """Disconnect after `seconds`, unless something happens before."""
        self._clear_deadline()
        if self._transport and self in self._visitors:
            loop = asyncio.get_running_loop()
            self._unsent = self._transport.get_write_buffer_size()
            self._deadline = loop.call_later(seconds, self._on_deadline)

    def _clear_deadline(self) -> None:
        if self._deadline:
            self._deadline.cancel()
            self._deadline = None

    def _on_deadline(self) -> None:
        assert self._transport
        if 0 < self._transport.get_write_buffer_size() < self._unsent:
            self.set_deadline(STALLED)  # the client is reading, only slowly
        else:
            self.disconnect()


def _wrong(guesses: WrongGuesses, address: str) -> HTTPStatus:
    too_many = guesses.too_many(address)
    guesses.note(address)
    return HTTPStatus.TOO_MANY_REQUESTS if too_many else HTTPStatus.UNAUTHORIZED


def _make_room(beside: list["Visitor"]) -> bool:
    oldest = next((visitor for visitor in beside if not visitor.identity), None)
    if oldest:
        oldest.disconnect()
    return oldest is not None
