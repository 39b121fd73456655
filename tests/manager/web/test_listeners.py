"""Where the server can be reached from, and what other machines need."""

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
from rookery.manager.web import listeners
from rookery.manager.web import web_server as server
from rookery.manager.web.listeners import (
    Address,
    Certificate,
    ListenOptions,
    ListenPlan,
    address_of,
    self_made,
    sockets_at,
)
from rookery.manager.web.request_guard import doors_at
from rookery.manager.web.server_links import qr_code
from rookery.manager.web.web_limits import CONNECTIONS
from rookery.manager.web.web_server import told_plainly
from support.web_server import (
    LOOPBACK,
    PATIENCE,
    Served,
    call,
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


async def test_only_this_machines_own_addresses_are_bound(tmp_path: Path):
    async with served(tmp_path) as here:
        expected = (LOOPBACK, "::1") if HAS_IPV6 else (LOOPBACK,)
        assert here.server.addresses == expected
        assert here.port > 0
        for address in expected:
            async with await anyio.connect_tcp(address, here.port) as stream:
                answer = await said_to(stream, request("GET /", "Host: @HOST@"), here.host)
                assert answer.status == 200
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((OUTSIDE, here.port))


async def test_a_port_can_be_named_and_is_different_every_time_if_not(tmp_path: Path):
    async with served(tmp_path / "1") as one, served(tmp_path / "2") as two:
        assert one.port != two.port
        port = one.port
    async with served(tmp_path / "3", ListenPlan(port=port)) as again:
        assert again.port == port


@pytest.mark.parametrize("address", [LOOPBACK, pytest.param("::1", marks=())])
def test_a_port_that_somebody_else_has_is_not_shared(address: str):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    if family == socket.AF_INET6 and not HAS_IPV6:
        pytest.skip("this machine has no ::1")
    with closing(socket.socket(family)) as other:
        other.bind((address, 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(SettingsError, match="Give another with --port"):
            sockets_at(port, None).__enter__()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "0"])
def test_all_networks_at_once_are_refused(host: str):
    with pytest.raises(SettingsError, match="every network"):
        address_of(host)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1", "127.0.0.2"])
def test_this_machine_needs_no_leave(tmp_path: Path, host: str):
    assert ListenOptions(host=host, port=5).plan(tmp_path) == ListenPlan(port=5)


def test_an_unknown_name_or_an_address_of_another_machine_is_refused():
    with pytest.raises(SettingsError, match="cannot resolve"):
        address_of("no-such-name.invalid")
    elsewhere = Address("192.0.2.77", "192.0.2.77")
    with pytest.raises(SettingsError, match="not an address of this machine"):
        sockets_at(0, elsewhere).__enter__()


REFUSED = {
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


@pytest.mark.parametrize(("flags", "said"), REFUSED.values(), ids=REFUSED)
def test_other_machines_are_let_near_only_if_it_is_said_how(
    tmp_path: Path, flags: dict[str, Any], said: str
):
    with pytest.raises(SettingsError, match=re.escape(said)):
        ListenOptions(**flags).plan(tmp_path)


def test_what_was_spelled_out_is_done(tmp_path: Path):
    plain = ListenOptions(host="192.0.2.9", plain_text=True).plan(tmp_path)
    assert plain == ListenPlan(address=Address("192.0.2.9", "192.0.2.9"))
    own = ListenOptions(host="192.0.2.9", tls_cert=Path("c"), tls_key=Path("k")).plan(tmp_path)
    assert own.certificate == Certificate(Path("c"), Path("k"))
    made = ListenOptions(host="192.0.2.9", tls=True).plan(tmp_path)
    assert made.certificate
    assert made.certificate.self_made
    tunnel = ListenOptions(behind_tunnel="https://Name.example:443/").plan(tmp_path)
    assert tunnel == ListenPlan(tunnel="https://name.example")


async def test_what_it_means_is_said_plainly(tmp_path: Path):
    plain = ListenPlan(address=ELSEWHERE)
    encrypted = replace(plain, certificate=self_made(tmp_path, ELSEWHERE))
    tunnel = ListenPlan(tunnel="https://name.example")
    said = {}
    for name, plan in {
        "plain": plain,
        "tls": encrypted,
        "tunnel": tunnel,
        "": ListenPlan(),
    }.items():
        async with served(tmp_path / f"server {name}", plan) as here:
            said[name] = " ".join(told_plainly(plan, here.server))
    assert "WARNING: nothing is encrypted" in said["plain"]
    assert encrypted.certificate
    assert encrypted.certificate.fingerprint in said["tls"]
    assert "https://name.example/" in said["tunnel"]
    assert said[""] == ""


def certificate_text(path: Path) -> str:
    command = ["openssl", "x509", "-in", str(path), "-noout", "-text", "-fingerprint", "-sha256"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("maker", ["_made_by_library", "_made_by_program"])
def test_a_certificate_is_made_for_the_address_and_kept_private(
    tmp_path: Path, maker: str, monkeypatch: pytest.MonkeyPatch
):
    if maker == "_made_by_program":
        monkeypatch.setattr(listeners, "find_spec", lambda _: None)
    made = self_made(tmp_path / "tls", ELSEWHERE)
    assert stat.S_IMODE(made.certificate.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "tls").stat().st_mode) == 0o700
    assert os.listdir(tmp_path / "tls") == [made.certificate.name]
    text = certificate_text(made.certificate)
    assert "DNS:manager.example, IP Address:127.0.0.2" in text
    assert made.fingerprint in text
    made.context()
    assert self_made(tmp_path / "tls", ELSEWHERE).fingerprint == made.fingerprint
    assert self_made(tmp_path / "tls", Address("b", "127.0.0.3")).fingerprint != made.fingerprint


def test_an_old_certificate_is_made_anew(tmp_path: Path):
    made = self_made(tmp_path, ELSEWHERE)
    before = made.fingerprint
    old = time.time() - 301 * 24 * 3600
    os.utime(made.certificate, (old, old))
    assert self_made(tmp_path, ELSEWHERE).fingerprint != before


def test_where_none_can_be_made_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(listeners, "find_spec", lambda _: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SettingsError, match="Install the Python package"):
        self_made(tmp_path / "tls", ELSEWHERE)
    assert os.listdir(tmp_path / "tls") == []


def test_what_is_no_certificate_is_refused(tmp_path: Path):
    nonsense = tmp_path / "c"
    nonsense.write_text("no certificate", encoding="utf-8")
    for path in (nonsense, tmp_path / "missing"):
        with pytest.raises(SettingsError, match="not a certificate and its key"):
            Certificate(path, path).context()


@asynccontextmanager
async def outside(folder: Path) -> AsyncIterator[tuple[Served, ssl.SSLContext]]:
    """A server in a network, and the trust in its certificate."""
    made = self_made(folder / "tls", ELSEWHERE)
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


async def test_a_device_is_paired_with_a_code_that_is_good_once(tmp_path: Path):
    async with outside(tmp_path) as (here, trust), device(here, trust) as phone:
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
        assert [(each["id"], each["name"]) for each in listed.json()] == [(device_id, "My phone")]


async def test_from_outside_only_devices_are_let_in(tmp_path: Path):
    async with outside(tmp_path) as (here, trust), device(here, trust) as phone:
        for headers in ({}, here.bearer):
            assert (await phone.get("/api/health", headers=headers)).status_code == 401
        code = here.watch.keys.launch_codes.new()
        assert (await phone.post("/api/launch", json={"code": code})).status_code == 403
        async with here.client() as near:
            assert (await near.post("/api/launch", json={"code": code})).status_code == 200
        url, origin = f"wss://{OUTSIDE}:{here.port}/ws", f"https://{OUTSIDE}:{here.port}"
        async with connect(url, ssl=trust, proxy=None, origin=origin) as page:  # type: ignore[arg-type]
            await page.send(introduction(here.token))
            with pytest.raises(ConnectionClosed):
                await page.recv()


async def test_a_revoked_device_loses_its_connection_at_once(tmp_path: Path):
    async with outside(tmp_path) as (here, trust):
        device_id, token = here.watch.keys.devices.pair("My phone")
        url, origin = f"wss://{OUTSIDE}:{here.port}/ws", f"https://{OUTSIDE}:{here.port}"
        async with (
            connect(url, ssl=trust, proxy=None, origin=origin) as page,  # type: ignore[arg-type]
            here.socket() as own,
        ):
            assert "result" in await call(page, "initialize", protocol=1, token=token)
            assert "result" in await call(own, "initialize", protocol=1, token=here.token)
            revoke = {"kind": "revoke_device", "id": device_id}
            async with here.client() as near:
                done = await near.post("/api/do", headers=here.bearer, json=revoke)
                assert done.json() == {"notes": ["My phone was revoked."]}
            with anyio.fail_after(PATIENCE), pytest.raises(ConnectionClosed):
                await page.recv()
            assert "result" in await call(own, "echo")
        async with device(here, trust, headers={"Authorization": f"Bearer {token}"}) as phone:
            assert (await phone.get("/api/health")).status_code == 401


NAMES = {
    "its name": ("manager.example:PORT", None, 200),
    "its address": ("127.0.0.2:PORT", "https://127.0.0.2:PORT", 200),
    "our own name": ("127.0.0.1:PORT", None, 421),
    "localhost": ("localhost:PORT", None, 421),
    "another": ("evil.example:PORT", None, 421),
    "a page without encryption": ("127.0.0.2:PORT", "http://127.0.0.2:PORT", 403),
    "a page of our own": ("127.0.0.2:PORT", "http://127.0.0.1:PORT", 403),
}


@pytest.mark.parametrize(("host", "origin", "status"), NAMES.values(), ids=NAMES)
async def test_each_address_has_its_own_names(
    tmp_path: Path, host: str, origin: str | None, status: int
):
    async with outside(tmp_path) as (here, trust):
        lines = [f"Host: {host}", *([f"Origin: {origin}"] if origin else [])]
        sent = request("GET /", *lines).replace("PORT", str(here.port))
        async with await TLSStream.wrap(
            await anyio.connect_tcp(OUTSIDE, here.port),
            hostname="manager.example",
            ssl_context=trust,
            standard_compatible=False,
        ) as stream:
            assert (await said_to(stream, sent, here.host)).status == status
        inside = await here.say(request("GET /", f"Host: manager.example:{here.port}"))
        assert inside.status == 421


async def test_without_encryption_nobody_talks_to_an_encrypted_address(tmp_path: Path):
    async with outside(tmp_path) as (here, _):
        async with await anyio.connect_tcp(OUTSIDE, here.port) as stream:
            heard = await said_to(stream, request("GET /", f"Host: {OUTSIDE}:{here.port}"), "")
            assert b"HTTP" not in heard.raw
        await here.is_left_alone()


async def test_handshakes_that_do_not_end_are_counted_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(server, "INTRODUCTION", 1.0)
    async with outside(tmp_path) as (here, trust), device(here, trust) as phone:
        crowd = [socket.create_connection((OUTSIDE, here.port)) for _ in range(2 * CONNECTIONS)]
        try:
            assert (await phone.get("/")).status_code == 200
            assert len(here.watch.visitors) <= CONNECTIONS
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


@pytest.mark.parametrize("headers", THROUGH.values(), ids=THROUGH)
async def test_through_a_tunnel_only_devices_are_let_in(tmp_path: Path, headers: tuple[str, ...]):
    """Although the tunnel ends on this machine."""
    async with served(tmp_path, TUNNEL) as here:
        _, token = here.watch.keys.devices.pair("My phone")
        for given, status in ((here.token, 401), (token, 200)):
            bearer = f"Authorization: Bearer {given}"
            answer = await here.say(request("GET /api/health", *headers, bearer))
            assert answer.status == status
        own = request("GET /api/health", "Host: @HOST@", f"Authorization: Bearer {here.token}")
        assert (await here.say(own)).status == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (("Host: name.example", "Origin: https://evil.example"), 403),
        (("Host: name.example", "Origin: http://127.0.0.1:PORT"), 403),
        (("Host: name.example", "Origin: http://name.example"), 403),
        (("Host: name.example:8443",), 421),
        (("Host: evil.name.example",), 421),
    ],
)
async def test_a_tunnel_lets_in_no_other_pages(
    tmp_path: Path, headers: tuple[str, ...], status: int
):
    async with served(tmp_path, TUNNEL) as here:
        sent = request("GET /", *headers).replace("PORT", str(here.port))
        assert (await here.say(sent)).status == status


async def test_what_was_forwarded_without_a_tunnel_is_refused(tmp_path: Path):
    async with served(tmp_path) as here:
        for header in ("X-Forwarded-For: 203.0.113.5", "Forwarded: for=x", "X-Real-IP: x"):
            answer = await here.say(request("GET /", "Host: @HOST@", header))
            assert answer.status == 403


async def test_there_is_no_link_for_devices_where_none_can_come(tmp_path: Path):
    async with served(tmp_path) as here:
        assert (here.server.outside_url, here.server.pairing_url()) == ("", "")


@pytest.mark.parametrize(("port", "scheme"), [(80, "http"), (443, "https")])
def test_the_usual_port_may_be_left_out(port: int, scheme: str):
    doors = {door.host: door.origin for door in doors_at(scheme, ["Name.example", "::1"], port)}
    assert doors == {
        f"name.example:{port}": f"{scheme}://name.example",
        "name.example": f"{scheme}://name.example",
        f"[::1]:{port}": f"{scheme}://[::1]",
        "[::1]": f"{scheme}://[::1]",
    }


def test_a_link_becomes_a_picture_that_is_dark_on_light_everywhere():
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
