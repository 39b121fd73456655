"""Web push: wakes browsers that asked for it when a session needs the user and the page is closed.

A push is empty. The push service of the browser's maker learns when a session needs the user, and
nothing else; the service worker shows a sentence of its own. Pushes are signed with a key made
here, by openssl, as VAPID (RFC 8292) asks for.
"""

import base64
import os
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import msgspec

from rookery.errors import CommandRejected
from rookery.manager.web.devices import Devices
from rookery.platform.disk import private_folder, put
from rookery.platform.own_programs import run_program

KEY_FILE = "push-key.pem"
SERVICES = (
    "fcm.googleapis.com",
    "push.services.mozilla.com",
    "push.apple.com",
    "notify.windows.com",
)
"""The push services of browsers; also the hosts below them."""
SECONDS_BETWEEN = 5.0
SECONDS = 15.0
_SUBJECT = "mailto:rookery@example.org"
"""The push service could write there about problems; it is not the user's address."""
_KEPT_SECONDS = 4 * 3600
_VALID_SECONDS = 3600
_POINT = 65
"""Length of an uncompressed point of P-256."""
_GONE = (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)


def is_push_service(url: str) -> bool:
    with suppress(ValueError):
        parts = urlsplit(url)
        host = parts.hostname or ""
        known = any(host == each or host.endswith(f".{each}") for each in SERVICES)
        plain = not parts.username and parts.port in (None, 443) and url.isprintable()
        return parts.scheme == "https" and known and plain
    return False


class VapidKey:
    """Raises `CommandRejected` if there is no key and none can be made."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / KEY_FILE

    def public(self) -> str:
        """The public key as browsers want it."""
        self._make()
        encoded = _openssl("pkey", "-in", str(self._file), "-pubout", "-outform", "DER")
        return _base64(encoded[-_POINT:])

    def headers(self, endpoint: str, now: float) -> dict[str, str]:
        parts = urlsplit(endpoint)
        claims = {
            "aud": f"{parts.scheme}://{parts.netloc}",
            "exp": int(now) + _VALID_SECONDS,
            "sub": _SUBJECT,
        }
        head = {"typ": "JWT", "alg": "ES256"}
        said = f"{_base64(msgspec.json.encode(head))}.{_base64(msgspec.json.encode(claims))}"
        public = self.public()
        token = f"{said}.{_base64(self._sign(said.encode()))}"
        return {"Authorization": f"vapid t={token}, k={public}"}

    def _sign(self, said: bytes) -> bytes:
        with tempfile.NamedTemporaryFile() as file:
            file.write(said)
            file.flush()
            key = str(self._file)
            signature = _openssl("dgst", "-sha256", "-sign", key, file.name)
        numbers = _numbers_in(signature)
        return b"".join(number.to_bytes(32, "big") for number in numbers)

    def _make(self) -> None:
        if self._file.exists():
            return
        private_folder(self._file.parent)
        curve = ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")
        put(self._file, [_openssl("genpkey", *curve)])


class Pusher:
    def __init__(
        self,
        devices: Devices,
        key: VapidKey,
        is_service: Callable[[str], bool] = is_push_service,
    ) -> None:
        self._devices = devices
        self._key = key
        self._is_service = is_service
        self._wanted = anyio.Event()

    def subscribe(self, device_id: str, endpoint: str) -> None:
        """Push to a device from now on; without an endpoint, no more."""
        if endpoint and not self._is_service(endpoint):
            raise CommandRejected(
                "Push works only with the services of Google, Mozilla, Apple and Microsoft."
            )
        self._devices.set_push(device_id, endpoint)

    def public_key(self) -> str:
        return self._key.public()

    def push_soon(self) -> None:
        self._wanted.set()

    async def run(self) -> None:
        """Send pushes, until cancelled. Several within `SECONDS_BETWEEN` are one."""
        while True:
            await self._wanted.wait()
            self._wanted = anyio.Event()
            await self.push()
            await anyio.sleep(SECONDS_BETWEEN)

    async def push(self) -> None:
        for device_id, endpoint in self._devices.push_endpoints():
            if await anyio.to_thread.run_sync(self._send, endpoint, abandon_on_cancel=True):
                with suppress(CommandRejected):  # revoked meanwhile
                    self._devices.set_push(device_id, "")

    def _send(self, endpoint: str) -> bool:
        """Returns whether the browser no longer wants pushes."""
        if not self._is_service(endpoint):
            return True
        with suppress(CommandRejected, OSError, ValueError):
            headers = self._key.headers(endpoint, time.time())
            headers |= {"TTL": str(_KEPT_SECONDS), "Urgency": "high"}
            request = urllib.request.Request(endpoint, b"", headers, method="POST")
            try:
                _opener.open(request, timeout=SECONDS).close()
            except urllib.error.HTTPError as error:
                return error.code in _GONE
        return False


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *given: Any) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirects)


def _openssl(*words: str) -> bytes:
    path = {"PATH": os.environ.get("PATH", "")}
    try:
        done = run_program(("openssl", *words), cwd=os.sep, environment=path, seconds=30)
    except OSError as error:
        raise CommandRejected("Push needs openssl. Install it, then try again.") from error
    if done.status:
        raise CommandRejected("Push needs openssl, which failed. Check: openssl version")
    return done.out


def _numbers_in(signature: bytes) -> Sequence[int]:
    """The two numbers of a DER signature of P-256, whose lengths take one byte each."""
    first = signature[4 : 4 + signature[3]]
    second = signature[4 + len(first) + 2 :]
    return int.from_bytes(first, "big"), int.from_bytes(second, "big")


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
