"""Devices that may use the web server: browsers and programs on this machine, and paired devices.

A token outlives the server, so that a page is admitted again after a restart. Only digests of the
tokens are stored, which cannot be used to log in. A browser on this machine is forgotten when it
was not used for a month, or when another program may have seen its token.
"""

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rookery import NAME
from rookery.errors import CommandRejected, StorageError
from rookery.first_use import prepared
from rookery.manager.handlers.router import Handlers
from rookery.manager.requests import ListDevices, ReadPushKey, RevokeDevice, SubscribePush
from rookery.manager.shown_rows import Device, Done
from rookery.platform.disk import private_folder, put, reason
from rookery.protocol.server import new_token

if TYPE_CHECKING:
    from rookery.manager.web.push import Pusher

DEVICES = 32
"""Paired devices, and as many browsers on this machine; a further browser replaces the one that
was not used for longest."""
DEVICES_FILE = "devices.json"
UNUSED_BROWSER = 30 * 24 * 3600 * 1000
"""Milliseconds without a visit after which a browser on this machine needs a new link."""
_LARGEST_FILE = 2**20
_LONGEST_NAME = 60
_VISIT_INTERVAL = 60_000
"""Milliseconds between two updates of a device's last visit in the file."""


class _StoredDevice(Struct, frozen=True, kw_only=True):
    id: str
    name: str
    token_digest: str
    paired: int
    seen: int
    local: bool = False
    push: str = ""
    """Where to push to, an address of the browser's push service."""


def now_in_milliseconds() -> int:
    return time.time_ns() // 1_000_000


class Devices:
    """The devices, stored in a file. Raises `StorageError` if the file cannot be read: starting
    with an empty list would lock all devices out without a message."""

    def __init__(self, file: Path, now: Callable[[], int] = now_in_milliseconds) -> None:
        self._file = file
        self._now = now
        self._stored = {device.id: device for device in _read(file)}

    def all(self) -> tuple[Device, ...]:
        return tuple(map(_shown, self._current()))

    def pair(self, name: str) -> tuple[str, str]:
        """Pair a device. Return its id and its token, which is not stored."""
        others = [*self._current()]
        if sum(not each.local for each in others) >= DEVICES:
            raise CommandRejected(f"{DEVICES} devices are already paired. Revoke one of them.")
        device, token = self._new(name)
        self._write([*others, device])
        return device.id, token

    def admit_browser(self, name: str, *, replaced: str = "") -> tuple[str, str]:
        """Admit a browser or program on this machine, in place of what it had before. It is
        admitted until the server ends if that cannot be stored."""
        others = [each for each in self._current() if each.id != replaced or not each.local]
        browsers = sorted((each for each in others if each.local), key=lambda each: each.seen)
        excess = browsers[: max(0, len(browsers) + 1 - DEVICES)]
        device, token = self._new(name or "a program", local=True)
        devices = [*(each for each in others if each not in excess), device]
        try:
            self._write(devices)
        except StorageError:
            self._stored = {each.id: each for each in devices}
        return device.id, token

    def forget_browsers(self) -> None:
        """Forget all browsers on this machine; they need a new link."""
        self._write(each for each in self._stored.values() if not each.local)

    def find_by_token(self, token: str) -> Device | None:
        given = _digest(token)
        # compare all, so that the time taken reveals nothing
        found = [each for each in self._current() if hmac.compare_digest(each.token_digest, given)]
        if found and self._now() - found[0].seen > _VISIT_INTERVAL:
            visited = replace(found[0], seen=self._now())
            with suppress(StorageError):  # a full disk must not lock a device out
                self._write((self._stored | {visited.id: visited}).values())
        return _shown(found[0]) if found else None

    def proof(self, device_id: str, challenge: str) -> str | None:
        """The answer to a challenge that only a server can give that knows the device. Pages ask
        for it before they send their token, because another program may have taken the port."""
        known = {each.id: each for each in self._current()}
        if not (device := known.get(device_id)):
            return None
        key = bytes.fromhex(device.token_digest)
        return hmac.new(key, challenge.encode("utf-8", "replace"), "sha256").hexdigest()

    def set_push(self, device_id: str, endpoint: str) -> None:
        if not (device := {each.id: each for each in self._current()}.get(device_id)):
            raise CommandRejected(
                f"The manager does not know this browser. For a new link: {NAME} manager"
            )
        if device.push != endpoint:
            self._write((self._stored | {device_id: replace(device, push=endpoint)}).values())

    def push_endpoints(self) -> tuple[tuple[str, str], ...]:
        """Ids of devices that want pushes, and where to push to."""
        return tuple((each.id, each.push) for each in self._current() if each.push)

    def revoke(self, device_id: str) -> str:
        """Revoke a device and return its name."""
        if not (device := self._stored.get(device_id)):
            raise CommandRejected(f"No such device. See: {NAME} sessions devices list")
        self._write(each for each in self._stored.values() if each.id != device_id)
        return device.name

    def _current(self) -> Iterable[_StoredDevice]:
        since = self._now() - UNUSED_BROWSER
        return (each for each in self._stored.values() if not each.local or each.seen > since)

    def _new(self, name: str, *, local: bool = False) -> tuple[_StoredDevice, str]:
        token, now = new_token(), self._now()
        device = _StoredDevice(
            id=secrets.token_hex(16),
            name=_sanitized(name),
            token_digest=_digest(token),
            paired=now,
            seen=now,
            local=local,
        )
        return device, token

    def _write(self, devices: Iterable[_StoredDevice]) -> None:
        written = {each.id: each for each in devices}
        private_folder(self._file.parent)
        try:
            put(self._file, [msgspec.json.encode(list(written.values()))])
        except OSError as error:
            raise StorageError(
                f"{self._file} cannot be written ({reason(error)}). The paired "
                "devices were not changed."
            ) from error
        self._stored = written


class DeviceHandler:
    def __init__(
        self,
        devices: Devices,
        disconnect: Callable[[str], None],
        push: "Pusher | None" = None,
    ) -> None:
        self._devices = devices
        self._disconnect = disconnect
        self._push = push
        self.handlers: Handlers = {
            ListDevices: self._list,
            RevokeDevice: self._revoke,
            ReadPushKey: self._key,
            SubscribePush: self._subscribe,
        }

    async def _list(self, _: ListDevices) -> tuple[Device, ...]:
        return self._devices.all()

    async def _key(self, _: ReadPushKey) -> str:
        return await anyio.to_thread.run_sync(self._pushing().public_key)

    async def _subscribe(self, request: SubscribePush) -> Done:
        self._pushing().subscribe(request.device_id, request.endpoint)
        return Done()

    def _pushing(self) -> "Pusher":
        if not self._push:
            raise CommandRejected(f"Only the server of {NAME} manager sends pushes.")
        return self._push

    async def _revoke(self, request: RevokeDevice) -> Done:
        name = self._devices.revoke(request.id)
        self._disconnect(request.id)
        return Done(notes=(f"{name} was revoked.",))


def _shown(device: _StoredDevice) -> Device:
    return Device(
        id=device.id, name=device.name, paired=device.paired, seen=device.seen, local=device.local
    )


def _sanitized(name: str) -> str:
    shown = "".join(char if char.isprintable() else " " for char in name)
    return " ".join(shown.split())[:_LONGEST_NAME] or "a device"


def _read(file: Path) -> list[_StoredDevice]:
    try:
        with file.open("rb") as stream:
            return msgspec.json.decode(
                stream.read(_LARGEST_FILE), type=prepared(list[_StoredDevice])
            )
    except FileNotFoundError:
        return []
    except (OSError, msgspec.MsgspecError, UnicodeError) as error:
        raise StorageError(
            f"{file} cannot be read ({error}). Remove it, and pair your devices again."
        ) from error


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
