"""The addresses the server listens on, and access from other machines."""

import os
import re
import socket
import ssl
import stat
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
import segno
from anyio.streams.tls import TLSStream
from msgspec.structs import replace
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from rookery.errors import SettingsError
from rookery.manager.web import web_server as server
from rookery.manager.web.access import CONNECTIONS
from rookery.manager.web.listeners import (
    Address,
    Certificate,
    ListenOptions,
    ListenPlan,
    address_of,
    self_signed,
    sockets_at,
)
from rookery.manager.web.request_guard import hosts_at
from rookery.manager.web.server_links import qr_code
from rookery.manager.web.web_server import access_notes
from support.web_server import (
    LOOPBACK,
    PATIENCE,
    Served,
    introduction,
    request,
    said_to,
    served,
)

pytestmark = pytest.mark.anyio

OUTSIDE = "127.0.0.2"
"""Of this machine, and not one that pages are opened at: it plays the one in the network."""
ELSEWHERE = Address("manager.example", OUTSIDE)
HAS_IPV6 = Path("/proc/net/if_inet6").exists() and "lo" in Path("/proc/net/if_inet6").read_text()


async def test_only_loopback_is_bound_by_default(tmp_path: Path):
    async with served(tmp_path) as here:
        expected = (LOOPBACK, "::1") if HAS_IPV6 else (LOOPBACK,)
        assert here.port > 0
        for address in expected:
            async with await anyio.connect_tcp(address, here.port) as stream:
                answer = await said_to(stream, request("GET /", "Host: @HOST@"), here.host)
                assert answer.status == 200
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((OUTSIDE, here.port))


async def test_the_port_is_random_unless_it_is_given(tmp_path: Path):
    async with served(tmp_path / "1") as one, served(tmp_path / "2") as two:
        assert one.port != two.port
        port = one.port
    async with served(tmp_path / "3", ListenPlan(port=port)) as again:
        assert again.port == port


@pytest.mark.parametrize("address", [LOOPBACK, "::1"])
def test_a_port_in_use_is_not_shared(address: str):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    if family == socket.AF_INET6 and not HAS_IPV6:
        pytest.skip("this machine has no ::1")
    with closing(socket.socket(family)) as other:
        other.bind((address, 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(SettingsError, match="Give another with --port"):
            sockets_at(ListenPlan(port=port)).__enter__()
        with sockets_at(ListenPlan(port=port, may_move=True)) as moved:
            assert port < moved.port < port + 20


def test_wildcard_hosts_are_refused_and_loopback_hosts_are_allowed(tmp_path: Path):
    for host in ("0.0.0.0", "::", "0"):
        with pytest.raises(SettingsError, match="every network"):
            address_of(host)
    for host in ("localhost", "127.0.0.1", "::1", "127.0.0.2"):
        assert ListenOptions(host=host, port=5).plan(tmp_path) == ListenPlan(port=5), host


def test_an_unresolvable_or_remote_host_is_refused():
    with pytest.raises(SettingsError, match="cannot resolve"):
        address_of("no-such-name.invalid")
    elsewhere = Address("192.0.2.77", "192.0.2.77")
    with pytest.raises(SettingsError, match="not an address of this machine"):
        sockets_at(ListenPlan(address=elsewhere)).__enter__()


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "nothing said": ({"host": "192.0.2.9"}, "use --plain-text"),
    "half a certificate": ({"host": "192.0.2.9", "tls_cert": Path("c")}, "Give both"),
    "several ways": ({"host": "192.0.2.9", "tls": True, "plain_text": True}, "Give one of"),
    "a way to nowhere": ({"tls": True}, "need --host"),
    "plain text to nowhere": ({"plain_text": True}, "need --host"),
    "a tunnel and a host": (
        {"host": "192.0.2.9", "behind_tunnel": "https://a.example"},
        "--host or --behind-tunnel, not both",
    ),
    "an open tunnel": ({"behind_tunnel": "http://a.example"}, "begin with https"),
    "a tunnel with a path": ({"behind_tunnel": "https://a.example/x"}, "without a path"),
    "a tunnel with a user": ({"behind_tunnel": "https://u@a.example"}, "without a path"),
    "no tunnel": ({"behind_tunnel": "a.example"}, "begin with https"),
}


def test_unsafe_listen_options_are_refused(tmp_path: Path):
    for name, (flags, sentence) in REFUSED.items():
        with pytest.raises(SettingsError) as refused:
            ListenOptions(**flags).plan(tmp_path)
        assert sentence in str(refused.value), name


def test_explicit_listen_options_are_applied(tmp_path: Path):
    plain = ListenOptions(host="192.0.2.9", plain_text=True).plan(tmp_path)
    assert plain == ListenPlan(address=Address("192.0.2.9", "192.0.2.9"))
    own = ListenOptions(host="192.0.2.9", tls_cert=Path("c"), tls_key=Path("k")).plan(tmp_path)
    assert own.certificate == Certificate(Path("c"), Path("k"))
    made = ListenOptions(host="192.0.2.9", tls=True).plan(tmp_path)
    assert made.certificate
    assert made.certificate.self_signed
    tunnel = ListenOptions(behind_tunnel="https://Name.example:443/").plan(tmp_path)
    assert tunnel == ListenPlan(tunnel="https://name.example")
    assert ListenOptions().plan(tmp_path, 21_000) == ListenPlan(port=21_000, may_move=True)
    assert ListenOptions(port=0).plan(tmp_path, 21_000) == ListenPlan()


async def test_the_listen_plan_describes_its_risks(tmp_path: Path):
    plain = ListenPlan(address=ELSEWHERE)
    encrypted = replace(plain, certificate=self_signed(tmp_path, ELSEWHERE))
    tunnel = ListenPlan(tunnel="https://name.example")
    said = {}
    for name, plan in {
        "plain": plain,
        "tls": encrypted,
        "tunnel": tunnel,
        "": ListenPlan(),
    }.items():
        async with served(tmp_path / f"server {name}", plan) as here:
            said[name] = " ".join(access_notes(plan, here.server))
    assert "WARNING: nothing is encrypted" in said["plain"]
    assert encrypted.certificate
    assert encrypted.certificate.fingerprint in said["tls"]
    assert "https://name.example/" in said["tunnel"]
    assert said[""] == ""


def certificate_text(path: Path) -> str:
    command = ["openssl", "x509", "-in", str(path), "-noout", "-text", "-fingerprint", "-sha256"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_a_self_signed_certificate_names_the_address_and_is_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    made = self_signed(tmp_path / "tls", ELSEWHERE)
    assert stat.S_IMODE(made.certificate.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "tls").stat().st_mode) == 0o700
    assert os.listdir(tmp_path / "tls") == [made.certificate.name]
    text = certificate_text(made.certificate)
    assert "DNS:manager.example, IP Address:127.0.0.2" in text
    assert made.fingerprint in text
    made.context()
    assert self_signed(tmp_path / "tls", ELSEWHERE).fingerprint == made.fingerprint
    assert self_signed(tmp_path / "tls", Address("b", "127.0.0.3")).fingerprint != made.fingerprint
    before, old = made.fingerprint, time.time() - 301 * 24 * 3600
    os.utime(made.certificate, (old, old))
    assert self_signed(tmp_path / "tls", ELSEWHERE).fingerprint != before, "it is renewed"
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SettingsError, match="Install the program openssl"):
        self_signed(tmp_path / "other", ELSEWHERE)
    assert os.listdir(tmp_path / "other") == []


def test_an_invalid_certificate_is_refused(tmp_path: Path):
    nonsense = tmp_path / "c"
    nonsense.write_text("no certificate", encoding="utf-8")
    for path in (nonsense, tmp_path / "missing"):
        with pytest.raises(SettingsError, match="not a certificate and its key"):
            Certificate(path, path).context()


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shared folder, so that the certificate is created only once."""
    return tmp_path_factory.mktemp("tls")


@asynccontextmanager
async def outside(folder: Path, tls: Path) -> AsyncIterator[tuple[Served, ssl.SSLContext]]:
    """A server on a network address, and a client context that trusts it."""
    made = self_signed(tls, ELSEWHERE)
    trust = ssl.create_default_context(cafile=str(made.certificate))
    async with served(folder, ListenPlan(address=ELSEWHERE, certificate=made)) as here:
        yield here, trust


def device(here: Served, trust: ssl.SSLContext, **given: Any) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        base_url=f"https://{OUTSIDE}:{here.port}",
        verify=trust,
        timeout=PATIENCE,
        trust_env=False,
        **given,
    )


async def test_a_pairing_code_works_once(tmp_path: Path, tls: Path):
    async with outside(tmp_path, tls) as (here, trust), device(here, trust) as phone:
        link, code = here.server.pairing_url().split("#pair=")
        assert link == f"https://manager.example:{here.port}/"
        assert (await phone.get("/")).status_code == 200
        paired = await phone.post("/api/pair", json={"code": code, "name": "My phone"})
        assert paired.status_code == 200
        token, device_id = paired.json()["token"], paired.json()["device_id"]
        assert here.paired == [device_id]
        assert (await phone.post("/api/pair", json={"code": code})).status_code == 401
        known = {"Authorization": f"Bearer {token}"}
        assert (await phone.get("/api/health", headers=known)).status_code == 200
        listed = await phone.post("/api/do", headers=known, json={"kind": "list_devices"})
        shown = [(each["id"], each["name"]) for each in listed.json() if not each["local"]]
        assert shown == [(device_id, "My phone")]


async def test_only_paired_devices_connect_from_outside(tmp_path: Path, tls: Path):
    async with outside(tmp_path, tls) as (here, trust), device(here, trust) as phone:
        for headers in ({}, here.bearer):
            assert (await phone.get("/api/health", headers=headers)).status_code == 401
        code = here.access.keys.launch_codes.new()
        assert (await phone.post("/api/launch", json={"code": code})).status_code == 403
        async with here.client() as near:
            assert (await near.post("/api/launch", json={"code": code})).status_code == 200
        url, origin = f"wss://{OUTSIDE}:{here.port}/ws", f"https://{OUTSIDE}:{here.port}"
        async with connect(url, ssl=trust, proxy=None, origin=origin) as page:  # type: ignore[arg-type]
            await page.send(introduction(here.token))
            with pytest.raises(ConnectionClosed):
                await page.recv()


NAMES = {
    "its name": ("manager.example:PORT", None, 200),
    "its address": ("127.0.0.2:PORT", "https://127.0.0.2:PORT", 200),
    "our own name": ("127.0.0.1:PORT", None, 421),
    "localhost": ("localhost:PORT", None, 421),
    "another": ("evil.example:PORT", None, 421),
    "a page without encryption": ("127.0.0.2:PORT", "http://127.0.0.2:PORT", 403),
    "a page of our own": ("127.0.0.2:PORT", "http://127.0.0.1:PORT", 403),
}


async def test_each_address_accepts_only_its_own_hosts_and_scheme(tmp_path: Path, tls: Path):
    async with outside(tmp_path, tls) as (here, trust):
        for name, (host, origin, status) in NAMES.items():
            lines = [f"Host: {host}", *([f"Origin: {origin}"] if origin else [])]
            sent = request("GET /", *lines).replace("PORT", str(here.port))
            async with await TLSStream.wrap(
                await anyio.connect_tcp(OUTSIDE, here.port),
                hostname="manager.example",
                ssl_context=trust,
                standard_compatible=False,
            ) as stream:
                assert (await said_to(stream, sent, here.host)).status == status, name
        inside = await here.say(request("GET /", f"Host: manager.example:{here.port}"))
        assert inside.status == 421
        async with await anyio.connect_tcp(OUTSIDE, here.port) as stream:
            received = await said_to(stream, request("GET /", f"Host: {OUTSIDE}:{here.port}"), "")
            assert b"HTTP" not in received.raw
        await here.is_left_alone()


async def test_unfinished_tls_handshakes_are_limited_and_time_out(
    tmp_path: Path, tls: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(server, "HANDSHAKE", 1.0)
    async with outside(tmp_path, tls) as (here, trust), device(here, trust) as phone:
        crowd = [socket.create_connection((OUTSIDE, here.port)) for _ in range(2 * CONNECTIONS)]
        try:
            assert (await phone.get("/")).status_code == 200
            assert len(here.access.visitors) <= CONNECTIONS
            await phone.aclose()
            await here.is_left_alone()
        finally:
            for each in crowd:
                each.close()


TUNNEL = ListenPlan(tunnel="https://name.example")
THROUGH = {
    "its own name": ("Host: name.example", "Origin: https://name.example"),
    "our name put in": ("Host: @HOST@", "Origin: https://name.example"),
    "forwarded": ("Host: @HOST@", "X-Forwarded-For: 203.0.113.5"),
    "forwarded by the standard": ("Host: @HOST@", "Forwarded: for=203.0.113.5"),
}


async def test_only_devices_and_the_tunnels_own_pages_connect_through_it(tmp_path: Path):
    """Although the tunnel ends on this machine."""
    async with served(tmp_path, TUNNEL) as here:
        _, token = here.access.keys.devices.pair("My phone")
        for name, headers in THROUGH.items():
            for given, status in ((here.token, 401), (token, 200)):
                bearer = f"Authorization: Bearer {given}"
                answer = await here.say(request("GET /api/health", *headers, bearer))
                assert answer.status == status, name
        own = request("GET /api/health", "Host: @HOST@", f"Authorization: Bearer {here.token}")
        assert (await here.say(own)).status == 200
        for *lines, status in (
            ("Host: name.example", "Origin: https://evil.example", 403),
            ("Host: name.example", "Origin: http://@HOST@", 403),
            ("Host: name.example", "Origin: http://name.example", 403),
            ("Host: name.example:8443", 421),
            ("Host: evil.name.example", 421),
        ):
            assert (await here.say(request("GET /", *map(str, lines)))).status == status, lines


async def test_without_a_tunnel_forwarded_requests_are_refused(tmp_path: Path):
    async with served(tmp_path) as here:
        for header in ("X-Forwarded-For: 203.0.113.5", "Forwarded: for=x", "X-Real-IP: x"):
            answer = await here.say(request("GET /", "Host: @HOST@", header))
            assert answer.status == 403, header
        assert (here.server.outside_url, here.server.pairing_url()) == ("", "")


@pytest.mark.parametrize(("port", "scheme"), [(80, "http"), (443, "https")])
def test_a_default_port_may_be_omitted_from_the_host(port: int, scheme: str):
    doors = {door.host: door.origin for door in hosts_at(scheme, ["Name.example", "::1"], port)}
    assert doors == {
        f"name.example:{port}": f"{scheme}://name.example",
        "name.example": f"{scheme}://name.example",
        f"[::1]:{port}": f"{scheme}://[::1]",
        "[::1]": f"{scheme}://[::1]",
    }


def test_a_qr_code_is_dark_on_light_in_every_terminal():
    link = "https://192.0.2.9:43211/#pair=" + "0" * 64
    drawn = qr_code(link)
    lines = drawn.splitlines()
    assert len({len(line) for line in lines}) == 1
    assert all(line.startswith("\x1b[38;5;16;48;5;231m") for line in lines)
    assert all(line.endswith("\x1b[0m") for line in lines)
    inside = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]
    assert {*"".join(inside)} <= {*" ▀▄█"}
    assert (inside[0].strip(), inside[-1].strip()) == ("", "")
    assert len(inside[0]) < 80
    halves = [
        (["▀█".count(cell) for cell in row], ["▄█".count(cell) for cell in row]) for row in inside
    ]
    dark = [row for pair in halves for row in pair if any(row)]
    wanted = [[*row] for row in segno.make_qr(link, error="l").matrix_iter(border=4)]
    assert dark == [row for row in wanted if any(row)]
