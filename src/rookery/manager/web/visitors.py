"""Who is connected, who may come in, and who was turned away.

Nobody can keep others out: whoever is not known has little time, and the one who has waited
longest goes when there is no room for the next. Connections from other machines take no room from
those on this one, and each device has a limit. Wrong tokens and codes are counted by address.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from time import monotonic

import anyio

from rookery.manager.web.devices import Guest, Keys
from rookery.manager.web.web_limits import (
    ADDRESSES_REMEMBERED,
    BETWEEN_REQUESTS,
    CONNECTIONS,
    CONNECTIONS_OF_A_DEVICE,
    INTRODUCTION,
    STALLED,
    STRANGERS_REQUEST,
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

    def enter(self, *, outside: bool = False) -> "Visitor | None":
        """Somebody who has come, if there is room for them."""
        beside = [visitor for visitor in self._here if visitor.outside == outside]
        if len(beside) >= CONNECTIONS and not _make_room(beside):
            return None
        visitor = Visitor(self, outside=outside)
        self._here[visitor] = None
        return visitor

    def forget(self, visitor: "Visitor") -> None:
        self._here.pop(visitor, None)

    def send_away(self, device_id: str, *, but: int = 0) -> None:
        """All that are this device, but so many that came last."""
        them = [each for each in self if each.guest and each.guest.device_id == device_id]
        for visitor in them[: max(0, len(them) - but)]:
            visitor.send_away()


class Watch:
    def __init__(self, keys: Keys, visitors: Visitors, tell: Callable[[int], None]) -> None:
        self.keys = keys
        self.visitors = visitors
        self.wrong_tokens = WrongGuesses()
        self.wrong_codes = WrongGuesses()
        self.blocked_requests = 0
        self._tell = tell

    def block(self) -> None:
        """A request was refused, of which the user is told."""
        self.blocked_requests += 1
        self._tell(self.blocked_requests)

    def guest(self, token: object, *, outside: bool, address: str) -> Guest | HTTPStatus:
        """Who has the token. Nobody who has one is kept out by what others get wrong, so that
        a page of yesterday that tries again and again does not lock out that of today."""
        if guest := self.keys.guest(token, outside=outside):
            return guest
        return _wrong(self.wrong_tokens, address)

    def wrong_code(self, address: str) -> HTTPStatus:
        """What somebody is told. Whoever has a right one is let in whatever others try: all who
        come through a tunnel have one address, and it is that of the user at this machine."""
        return _wrong(self.wrong_codes, address)


class WrongGuesses:
    """Of tokens, or of codes. Of each address no more is remembered than it takes to say no."""

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
    """Whoever is at the other end of one connection."""

    def __init__(self, visitors: Visitors, *, outside: bool = False) -> None:
        self.outside = outside
        """They came to the address for other machines."""
        self.guest: Guest | None = None
        """Who it is, once they have said a token."""
        self.shaking_hands = anyio.CancelScope()
        self._visitors = visitors
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._requests = 0
        self._unsent = 0

    def arrived(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.allow(INTRODUCTION)

    def left(self) -> None:
        self._allow_any_time()
        self._visitors.forget(self)

    def introduce(self, guest: Guest) -> None:
        """From now on it takes as long as it takes."""
        self.guest = guest
        self._allow_any_time()
        if guest.device_id:
            self._visitors.send_away(guest.device_id, but=CONNECTIONS_OF_A_DEVICE)

    def send_away(self) -> None:
        """At once, and whatever is still to be sent to them is not."""
        self.left()
        if self._transport:
            self._transport.abort()
        else:
            self.shaking_hands.cancel()

    @contextmanager
    def request(self) -> Iterator[None]:
        """They have asked for something. One connection may be used for several requests."""
        self._requests += 1
        if self.guest:
            self._allow_any_time()
        else:
            self.allow(STRANGERS_REQUEST)
        try:
            yield
        finally:
            self._requests -= 1
            if not self._requests:
                self.allow(BETWEEN_REQUESTS + INTRODUCTION)

    def allow(self, seconds: float) -> None:
        """They are sent away after that time, unless something happens before."""
        self._allow_any_time()
        if self._transport and self in self._visitors:
            loop = asyncio.get_running_loop()
            self._unsent = self._transport.get_write_buffer_size()
            self._deadline = loop.call_later(seconds, self._too_late)

    def _allow_any_time(self) -> None:
        if self._deadline:
            self._deadline.cancel()
            self._deadline = None

    def _too_late(self) -> None:
        assert self._transport
        if 0 < self._transport.get_write_buffer_size() < self._unsent:
            self.allow(STALLED)  # they take what is sent to them, only slowly
        else:
            self.send_away()


def _wrong(guesses: WrongGuesses, address: str) -> HTTPStatus:
    too_many = guesses.too_many(address)
    guesses.note(address)
    return HTTPStatus.TOO_MANY_REQUESTS if too_many else HTTPStatus.UNAUTHORIZED


def _make_room(beside: list["Visitor"]) -> bool:
    oldest = next((visitor for visitor in beside if not visitor.guest), None)
    if oldest:
        oldest.send_away()
    return oldest is not None
