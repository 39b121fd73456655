"""Web push: what is sent, to whom, and that nothing else can be reached with it."""

import base64
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from rookery.errors import CommandRejected
from rookery.manager.web.devices import Devices
from rookery.manager.web.push import Pusher, VapidKey, is_push_service

pytestmark = pytest.mark.anyio


class PushServer(HTTPServer):
    """A push service on this machine, which answers with a status."""

    status = 201

    def __init__(self) -> None:
        self.received: list[tuple[str, dict[str, str], bytes]] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/send/abc"


class _Handler(BaseHTTPRequestHandler):
    server: PushServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): held for name, held in self.headers.items()}
        self.server.received.append((self.path, headers, body))
        self.send_response(self.server.status)
        self.send_header("location", "/elsewhere")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *given: object) -> None:
        pass


@contextmanager
def push_server() -> Iterator[PushServer]:
    server = PushServer()
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


async def test_a_push_is_empty_signed_and_only_for_devices_that_asked(tmp_path: Path):
    devices = Devices(tmp_path / "devices.json")
    key = VapidKey(tmp_path)
    asked, _ = devices.admit_browser("Firefox")
    devices.admit_browser("Chrome")
    with push_server() as server:
        pusher = Pusher(devices, key, lambda url: url == server.url)
        pusher.subscribe(asked, server.url)
        await Pusher(Devices(tmp_path / "devices.json"), key, lambda url: True).push()
        ((path, headers, body),) = server.received
        assert (path, body, headers["urgency"]) == ("/send/abc", b"", "high")
        token, public = headers["authorization"].removeprefix("vapid t=").split(", k=")
        said, _, signature = token.rpartition(".")
        _check_signature(said, decoded(signature), decoded(public))
        claims = json.loads(decoded(said.partition(".")[2]))
        assert claims["aud"] == server.url.removesuffix("/send/abc")
        assert public == VapidKey(tmp_path).public()
        assert os.stat(tmp_path / "push-key.pem").st_mode & 0o077 == 0

        server.status = 301
        await pusher.push()
        assert [each[0] for each in server.received] == ["/send/abc"] * 2, "no redirect is followed"
        server.status = 410
        await pusher.push()
        assert devices.push_endpoints() == (), "the browser no longer wants pushes"
        pusher.subscribe(asked, server.url)
        devices.revoke(asked)
        await pusher.push()
        assert len(server.received) == 3
        with pytest.raises(CommandRejected, match="does not know this browser"):
            pusher.subscribe(asked, server.url)


def _check_signature(said: str, signature: bytes, point: bytes) -> None:
    numbers = (int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big"))
    public = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    public.verify(encode_dss_signature(*numbers), said.encode(), ec.ECDSA(SHA256()))


@pytest.mark.parametrize(
    ("url", "good"),
    [
        ("https://fcm.googleapis.com/fcm/send/x", True),
        ("https://updates.push.services.mozilla.com/wpush/v2/x", True),
        ("https://web.push.apple.com/x", True),
        ("http://fcm.googleapis.com/x", False),
        ("https://fcm.googleapis.com:8443/x", False),
        ("https://fcm.googleapis.com@127.0.0.1/x", False),
        ("https://me@fcm.googleapis.com/x", False),
        ("https://evilfcm.googleapis.com.example/x", False),
        ("https://notfcm.googleapis.com.evil/x", False),
        ("https://127.0.0.1/x", False),
        ("https://[::1/x", False),
        ("https://fcm.googleapis.com/x\r\nHost: y", False),
        ("file:///etc/passwd", False),
        ("", False),
    ],
)
def test_only_known_push_services_are_reached(url: str, good: bool):
    assert is_push_service(url) == good
