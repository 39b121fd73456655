"""Who may use the web server: limits, one-time codes, connections and their authentication.

No client can keep others out: unauthenticated connections have little time, and the oldest is
closed when there is no room. Connections from other machines have a separate limit, and so has each
device. Wrong tokens and codes are counted by address. Sizes are in bytes, times in seconds.
"""

import asyncio
import os
import socket
import struct
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from time import monotonic

import anyio
from msgspec import Struct
from starlette.types import Scope

from rookery.core.limits import KIB, MIB
from rookery.manager.web.devices import Devices
from rookery.protocol.server import new_token, same_token

HEAD = 16 * KIB
"""Request line and headers."""
HEADERS = 64
"""Number of headers."""
CODE_BODY = KIB
"""Body of a request that exchanges a code, which is not authenticated yet."""
WEBHOOK_BODY = 64 * KIB
BODY = 2 * MIB
UPLOAD = 20 * MIB
"""Body of a request with images."""
FRAME = MIB
FIRST_FRAME = 4 * KIB
"""A frame before authentication."""
ANONYMOUS_FRAMES = 16 * KIB
"""All that is read from a WebSocket before authentication, including pings."""

CONNECTIONS = 64
"""Concurrent connections from this machine, and as many from others. A further one closes the
oldest unauthenticated one."""
CONNECTIONS_OF_A_DEVICE = 16
"""A further one closes its oldest."""
WRONG_PER_MINUTE = 10
"""Wrong tokens, and wrong codes, per address."""
ADDRESSES_REMEMBERED = 1000

HANDSHAKE = 5.0
"""For the head of a request, and for the token on a WebSocket."""
ANONYMOUS_REQUEST = 20.0
"""For an unauthenticated request."""
WHOLE_BODY = 60.0
BETWEEN_REQUESTS = 15.0
STALLED = 30.0
"""For a client that does not read what is sent."""
PING = 20.0
SHUTDOWN = 3.0
"""For all connections when the server ends."""

LAUNCH_CODE = 60.0
PAIRING_CODE = 300.0
CODES = 16
"""Valid codes; a further one replaces the oldest."""
_MINUTE = 60.0
_TABLES = {socket.AF_INET: Path("/proc/net/tcp"), socket.AF_INET6: Path("/proc/net/tcp6")}
_ROOT = 0
_NO_FILE = "0"


class Identity(Struct, frozen=True):
    """An authenticated client: a browser or program of the user, or a paired device."""

    token: str
    device_id: str
    local: bool = False
    """Valid on this machine only, for processes of the same user."""


class OneTimeCodes:
    """Codes that can be used once, within a time limit."""

    def __init__(self, seconds: float, clock: Callable[[], float] = monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._open: dict[str, float] = {}

    def new(self) -> str:
        code = new_token()
        self._open[code] = self._clock() + self._seconds
        while len(self._open) > CODES:
            del self._open[next(iter(self._open))]
        return code

    def redeem(self, given: object) -> bool:
        """Use up a code. Return whether it was valid."""
        now = self._clock()
        # compare all codes, so that the time taken reveals nothing
        fitting = [code for code in self._open if same_token(code, given)]
        return any([self._open.pop(code) > now for code in fitting])


class Keys:
    def __init__(self, devices: Devices, clock: Callable[[], float] = monotonic) -> None:
        self.launch_codes = OneTimeCodes(LAUNCH_CODE, clock)
        self.pairing_codes = OneTimeCodes(PAIRING_CODE, clock)
        self.devices = devices

    def identity(self, given: object, *, outside: bool) -> Identity | None:
        """Authenticate a token. From outside only tokens of paired devices are valid."""
        device = self.devices.find_by_token(given) if isinstance(given, str) else None
        if not device or (outside and device.local):
            return None
        return Identity(str(given), device.id, device.local)


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
        if len(beside) >= CONNECTIONS:
            oldest = next((visitor for visitor in beside if not visitor.identity), None)
            if not oldest:
                return None
            oldest.disconnect()
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

    def identity(self, token: object, scope: Scope, *, outside: bool) -> Identity | HTTPStatus:
        """Authenticate a token. A valid one, like a valid code, is never limited by wrong ones
        from the same address: an old page may keep retrying there, and all clients of a tunnel
        have one address."""
        identity = self.keys.identity(token, outside=outside)
        if identity and (not identity.local or scope["state"]["visitor"].is_same_user(scope)):
            return identity
        return self.wrong_tokens.note(address_in(scope))


class WrongGuesses:
    """Recent wrong tokens or codes by address."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._by_address: dict[str, deque[float]] = {}

    def note(self, address: str) -> HTTPStatus:
        """Count a wrong guess. Return the status to refuse it with."""
        now = self._clock()
        times = self._by_address.pop(address, None) or deque(maxlen=WRONG_PER_MINUTE)
        too_many = len(times) == WRONG_PER_MINUTE and now - times[0] < _MINUTE
        times.append(now)
        self._by_address[address] = times
        while len(self._by_address) > ADDRESSES_REMEMBERED:
            del self._by_address[next(iter(self._by_address))]
        return HTTPStatus.TOO_MANY_REQUESTS if too_many else HTTPStatus.UNAUTHORIZED


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
        self._same_user: bool | None = None

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
        if not identity.local:
            self._visitors.disconnect(identity.device_id, keep=CONNECTIONS_OF_A_DEVICE)

    def is_same_user(self, scope: Scope) -> bool:
        """Whether the connection is of the server's user. The table is read once."""
        if self._same_user is None:
            self._same_user = not is_of_another_user(scope["client"], scope["server"])
        return self._same_user

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


def address_in(scope: Scope) -> str:
    return scope["client"][0] if scope.get("client") else ""


def is_of_another_user(client: tuple[str, int], server: tuple[str, int]) -> bool:
    """Whether the system's connection table names another user; without a table the code or token
    must do. The owner of a closed connection is unknown, so it counts as another user's."""
    family = socket.AF_INET6 if ":" in client[0] else socket.AF_INET
    wanted = f"{_table_entry(family, client)} {_table_entry(family, server)}"
    try:
        lines = _TABLES[family].read_text(encoding="ascii").splitlines()
    except OSError:
        return False
    found = [line.split() for line in lines if " ".join(line.split()[1:3]) == wanted]
    closed = any(words[9] == _NO_FILE for words in found)
    return closed or bool({int(words[7]) for words in found} - {os.geteuid(), _ROOT})


def _table_entry(family: socket.AddressFamily, end: tuple[str, int]) -> str:
    """An address as in that table: 32-bit words in native byte order."""
    packed = socket.inet_pton(family, end[0])
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{end[1]:04X}"
