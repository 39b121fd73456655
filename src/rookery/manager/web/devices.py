"""What lets somebody in: a token per start, one-time codes, and the tokens of paired devices.

None of it is ever written down, except the digests of the devices' tokens, which let nobody in.
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
_SEEN_AGAIN = 60_000
"""Milliseconds that have to pass before it is written down again that a device was there."""


class Guest(Struct, frozen=True):
    """Somebody who is known: the user at this machine, or one of their devices."""

    token: str
    device_id: str = ""


class OneTimeCodes:
    """Each is good once, and for a while."""

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
        """Whether it was one; from now on it is none."""
        now = self._clock()
        # all are compared, so that the time it takes tells nothing
        fitting = [code for code in self._open if same_token(code, given)]
        return any([self._open.pop(code) > now for code in fitting])


class _Kept(Struct, frozen=True, kw_only=True):
    id: str
    name: str
    token_digest: str
    paired: int
    seen: int


def now_in_milliseconds() -> int:
    return time.time_ns() // 1_000_000


class Devices:
    """Those in a file. Raises `StorageError` if it cannot be understood: to begin anew would let
    none of them in any more, and nobody would know why."""

    def __init__(self, file: Path, now: Callable[[], int] = now_in_milliseconds) -> None:
        self._file = file
        self._now = now
        self._kept = {kept.id: kept for kept in _read(file)}

    def all(self) -> tuple[Device, ...]:
        return tuple(
            Device(id=kept.id, name=kept.name, paired=kept.paired, seen=kept.seen)
            for kept in self._kept.values()
        )

    def pair(self, name: str) -> tuple[str, str]:
        """The id of a new device, and its token, which nobody else will ever be told."""
        if len(self._kept) >= DEVICES:
            raise CommandRejected(f"{DEVICES} devices are already paired. Revoke one of them.")
        device_id, token, now = secrets.token_hex(16), new_token(), self._now()
        self._put(
            _Kept(
                id=device_id,
                name=_as_a_name(name),
                token_digest=_digest(token),
                paired=now,
                seen=now,
            )
        )
        return device_id, token

    def whose(self, token: str) -> str | None:
        """The id of the device that has this token."""
        given = _digest(token)
        found = [
            kept for kept in self._kept.values() if hmac.compare_digest(kept.token_digest, given)
        ]
        for kept in found:
            self._note_visit(kept)
        return found[0].id if found else None

    def revoke(self, device_id: str) -> str:
        """The name of the device, which is let in no more."""
        if device_id not in self._kept:
            raise CommandRejected(f"No such device. See: {NAME} sessions devices list")
        rest = {each: kept for each, kept in self._kept.items() if each != device_id}
        self._write(rest)
        name = self._kept[device_id].name
        self._kept = rest
        return name

    def _note_visit(self, kept: _Kept) -> None:
        if self._now() - kept.seen > _SEEN_AGAIN:
            with suppress(StorageError):  # a full disk is no reason to keep a device out
                self._put(replace(kept, seen=self._now()))

    def _put(self, kept: _Kept) -> None:
        changed = {**self._kept, kept.id: kept}
        self._write(changed)
        self._kept = changed

    def _write(self, kept: dict[str, _Kept]) -> None:
        private_folder(self._file.parent)
        try:
            put(self._file, [msgspec.json.encode(list(kept.values()))])
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

    def guest(self, given: object, *, outside: bool) -> Guest | None:
        """Who has this token. From outside only that of a device counts."""
        if same_token(self.token, given):
            return None if outside else Guest(self.token)
        if isinstance(given, str) and (device_id := self.devices.whose(given)):
            return Guest(given, device_id)
        return None


class DeviceHandler:
    def __init__(self, devices: Devices, send_away: Callable[[str], None]) -> None:
        self._devices = devices
        self._send_away = send_away
        self.handlers: Handlers = {ListDevices: self._list, RevokeDevice: self._revoke}

    async def _list(self, _: ListDevices) -> tuple[Device, ...]:
        return self._devices.all()

    async def _revoke(self, request: RevokeDevice) -> Done:
        name = self._devices.revoke(request.id)
        self._send_away(request.id)
        return Done(notes=(f"{name} was revoked.",))


def _read(file: Path) -> list[_Kept]:
    try:
        with file.open("rb") as stream:
            return msgspec.json.decode(stream.read(_LARGEST_FILE), type=list[_Kept])
    except FileNotFoundError:
        return []
    except (OSError, msgspec.MsgspecError, UnicodeError) as error:
        raise StorageError(
            f"{file} cannot be read ({error}). Remove it, and pair your devices again."
        ) from error


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def _as_a_name(said: str) -> str:
    shown = "".join(letter if letter.isprintable() else " " for letter in said)
    return " ".join(shown.split())[:_LONGEST_NAME] or "a device"
