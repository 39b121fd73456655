"""Who may use the web server: limits, credentials, connections and their authentication.

Nothing is stored except digests of the device tokens, which cannot be used to log in. No client can
keep others out: unauthenticated connections have little time, and the oldest is closed when there
is no room. Connections from other machines have a separate limit, and so has each device. Wrong
tokens and codes are counted by address. Sizes are in bytes, times in seconds.
"""

import asyncio
import hashlib
import hmac
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from time import monotonic

import anyio
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rookery import NAME
from rookery.core.limits import KIB, MIB
from rookery.errors import CommandRejected, StorageError
from rookery.manager.handlers.router import Handlers
from rookery.manager.requests import ListDevices, RevokeDevice
from rookery.manager.shown_rows import Device, Done
from rookery.platform.disk import private_folder, put, reason
from rookery.protocol.server import new_token, same_token

HEAD = 16 * KIB
"""Request line and headers."""
HEADERS = 64
"""Number of headers."""
CODE_BODY = KIB
"""Body of a request that exchanges a code, which is not authenticated yet."""
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
DEVICES = 32

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
_LARGEST_FILE = 2**20
_LONGEST_NAME = 60
_VISIT_INTERVAL = 60_000
"""Milliseconds between two updates of a device's last visit in the file."""
_MINUTE = 60.0


class Identity(Struct, frozen=True):
    """An authenticated client: the user at this machine, or a paired device."""

    token: str
    device_id: str = ""


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


class _StoredDevice(Struct, frozen=True, kw_only=True):
    id: str
    name: str
    token_digest: str
    paired: int
    seen: int


def now_in_milliseconds() -> int:
    return time.time_ns() // 1_000_000


class Devices:
    """Paired devices, stored in a file. Raises `StorageError` if the file cannot be read:
    starting with an empty list would lock all devices out without a message."""

    def __init__(self, file: Path, now: Callable[[], int] = now_in_milliseconds) -> None:
        self._file = file
        self._now = now
        self._stored = {device.id: device for device in _read(file)}

    def all(self) -> tuple[Device, ...]:
        return tuple(
            Device(id=device.id, name=device.name, paired=device.paired, seen=device.seen)
            for device in self._stored.values()
        )

    def pair(self, name: str) -> tuple[str, str]:
        """Pair a device. Return its id and its token, which is not stored."""
        if len(self._stored) >= DEVICES:
            raise CommandRejected(f"{DEVICES} devices are already paired. Revoke one of them.")
        device_id, token, now = secrets.token_hex(16), new_token(), self._now()
        shown = "".join(char if char.isprintable() else " " for char in name)
        name = " ".join(shown.split())[:_LONGEST_NAME] or "a device"
        digest = _digest(token)
        self._put(_StoredDevice(id=device_id, name=name, token_digest=digest, paired=now, seen=now))
        return device_id, token

    def find_by_token(self, token: str) -> str | None:
        """The id of the device with this token."""
        given = _digest(token)
        # compare all, so that the time taken reveals nothing
        known = [*self._stored.values()]
        found = [each for each in known if hmac.compare_digest(each.token_digest, given)]
        if found and self._now() - found[0].seen > _VISIT_INTERVAL:
            with suppress(StorageError):  # a full disk must not lock a device out
                self._put(replace(found[0], seen=self._now()))
        return found[0].id if found else None

    def revoke(self, device_id: str) -> str:
        """Revoke a device and return its name."""
        if device_id not in self._stored:
            raise CommandRejected(f"No such device. See: {NAME} sessions devices list")
        rest = {each: device for each, device in self._stored.items() if each != device_id}
        name = self._stored[device_id].name
        self._write(rest)
        return name

    def _put(self, device: _StoredDevice) -> None:
        self._write({**self._stored, device.id: device})

    def _write(self, devices: dict[str, _StoredDevice]) -> None:
        private_folder(self._file.parent)
        try:
            put(self._file, [msgspec.json.encode(list(devices.values()))])
        except OSError as error:
            raise StorageError(
                f"{self._file} cannot be written ({reason(error)}). The paired "
                "devices were not changed."
            ) from error
        self._stored = devices


class Keys:
    def __init__(self, devices: Devices, clock: Callable[[], float] = monotonic) -> None:
        self.token = new_token()
        self.launch_codes = OneTimeCodes(LAUNCH_CODE, clock)
        self.pairing_codes = OneTimeCodes(PAIRING_CODE, clock)
        self.devices = devices

    def identity(self, given: object, *, outside: bool) -> Identity | None:
        """Authenticate a token. From outside only device tokens are valid."""
        if same_token(self.token, given):
            return None if outside else Identity(self.token)
        if isinstance(given, str) and (device_id := self.devices.find_by_token(given)):
            return Identity(given, device_id)
        return None


class DeviceHandler:
    def __init__(self, devices: Devices, disconnect: Callable[[str], None]) -> None:
        self._devices = devices
        self._disconnect = disconnect
        self.handlers: Handlers = {ListDevices: self._list, RevokeDevice: self._revoke}

    async def _list(self, _: ListDevices) -> tuple[Device, ...]:
        return self._devices.all()

    async def _revoke(self, request: RevokeDevice) -> Done:
        name = self._devices.revoke(request.id)
        self._disconnect(request.id)
        return Done(notes=(f"{name} was revoked.",))


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

    def identity(self, token: object, *, outside: bool, address: str) -> Identity | HTTPStatus:
        """Authenticate a token. A valid one, like a valid code, is never limited by wrong ones
        from the same address: an old page may keep retrying there, and all clients of a tunnel
        have one address."""
        if identity := self.keys.identity(token, outside=outside):
            return identity
        return self.wrong_tokens.note(address)


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


def _read(file: Path) -> list[_StoredDevice]:
    try:
        with file.open("rb") as stream:
            return msgspec.json.decode(stream.read(_LARGEST_FILE), type=list[_StoredDevice])
    except FileNotFoundError:
        return []
    except (OSError, msgspec.MsgspecError, UnicodeError) as error:
        raise StorageError(
            f"{file} cannot be read ({error}). Remove it, and pair your devices again."
        ) from error


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
