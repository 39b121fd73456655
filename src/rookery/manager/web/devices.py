"""Credentials of the web server: a token per start, one-time codes, and tokens of paired devices.

Nothing is stored except digests of the device tokens, which cannot be used to log in.
"""

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rookery import NAME
from rookery.errors import CommandRejected, StorageError
from rookery.manager.handlers.router import Handlers
from rookery.manager.requests import (
    ListDevices,
    RevokeDevice,
)
from rookery.manager.shown_rows import Device, Done
from rookery.manager.web.web_limits import CODES, DEVICES, LAUNCH_CODE, PAIRING_CODE
from rookery.platform.disk import private_folder, put, reason
from rookery.protocol.server import new_token, same_token

_LARGEST_FILE = 2**20
_LONGEST_NAME = 60
_VISIT_INTERVAL = 60_000
"""Milliseconds between two updates of a device's last visit in the file."""


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
        self._put(
            _StoredDevice(
                id=device_id,
                name=_clean_name(name),
                token_digest=_digest(token),
                paired=now,
                seen=now,
            )
        )
        return device_id, token

    def find_by_token(self, token: str) -> str | None:
        """The id of the device with this token."""
        given = _digest(token)
        found = [
            each for each in self._stored.values() if hmac.compare_digest(each.token_digest, given)
        ]
        for device in found:
            self._note_visit(device)
        return found[0].id if found else None

    def revoke(self, device_id: str) -> str:
        """Revoke a device and return its name."""
        if device_id not in self._stored:
            raise CommandRejected(f"No such device. See: {NAME} sessions devices list")
        rest = {each: device for each, device in self._stored.items() if each != device_id}
        self._write(rest)
        name = self._stored[device_id].name
        self._stored = rest
        return name

    def _note_visit(self, device: _StoredDevice) -> None:
        if self._now() - device.seen > _VISIT_INTERVAL:
            with suppress(StorageError):  # a full disk must not lock a device out
                self._put(replace(device, seen=self._now()))

    def _put(self, device: _StoredDevice) -> None:
        changed = {**self._stored, device.id: device}
        self._write(changed)
        self._stored = changed

    def _write(self, devices: dict[str, _StoredDevice]) -> None:
        private_folder(self._file.parent)
        try:
            put(self._file, [msgspec.json.encode(list(devices.values()))])
        except OSError as error:
            raise StorageError(
                f"{self._file} cannot be written ({reason(error)}). The paired "
                "devices were not changed."
            ) from error


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


def _clean_name(name: str) -> str:
    shown = "".join(char if char.isprintable() else " " for char in name)
    return " ".join(shown.split())[:_LONGEST_NAME] or "a device"
