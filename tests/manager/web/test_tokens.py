"""Authentication: tokens, one-time codes and paired devices."""

import hashlib
import hmac
import json
import os
import socket
import stat
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.errors import CommandRejected, StorageError
from rookery.manager.handlers.router import Router
from rookery.manager.requests import ListDevices, RevokeDevice
from rookery.manager.web.access import (
    ADDRESSES_REMEMBERED,
    CODES,
    CONNECTIONS,
    CONNECTIONS_OF_A_DEVICE,
    LAUNCH_CODE,
    PAIRING_CODE,
    WRONG_PER_MINUTE,
    Identity,
    Keys,
    OneTimeCodes,
    Visitors,
    WrongGuesses,
    is_of_another_user,
)
from rookery.manager.web.devices import DEVICES, UNUSED_BROWSER, DeviceHandler, Devices
from support.web_server import LOOPBACK, SESSION, served

pytestmark = pytest.mark.anyio


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def milliseconds(self) -> int:
        return int(self.now * 1000)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def devices(tmp_path: Path, clock: Clock) -> Devices:
    return Devices(tmp_path / "state" / "devices.json", clock.milliseconds)


def test_every_browser_has_a_token_of_256_random_bits(devices: Devices):
    tokens = {devices.admit_browser("Firefox")[1] for _ in range(20)}
    assert len(tokens) == 20
    assert all(len(bytes.fromhex(token)) == 32 for token in tokens)


@given(st.one_of(st.text(), st.none(), st.integers(), st.binary(), st.lists(st.text())))
def test_other_strings_are_not_accepted_as_the_token_or_a_code(guess: object):
    with TemporaryDirectory() as folder:
        keys, codes = Keys(Devices(Path(folder, "devices.json"))), OneTimeCodes(LAUNCH_CODE)
        token, code = keys.devices.admit_browser("Firefox")[1], codes.new()
        assert keys.identity(guess, outside=False) is None
        for near in (token[:-1], f"{token}0", token.upper(), ""):
            assert near == token or not keys.identity(near, outside=False), near
        assert keys.identity(token, outside=False) is not None
        assert [codes.redeem(each) for each in (guess, code, code)] == [False, True, False]


def test_a_code_expires(clock: Clock):
    for seconds, later, good in (
        (LAUNCH_CODE, 59.9, True),
        (LAUNCH_CODE, 60.0, False),
        (LAUNCH_CODE, 6000.0, False),
        (PAIRING_CODE, 299.9, True),
        (PAIRING_CODE, 300.0, False),
    ):
        codes = OneTimeCodes(seconds, clock)
        code = codes.new()
        clock.now += later
        assert codes.redeem(code) is good, (seconds, later)
        assert not codes.redeem(code)


def test_only_the_newest_codes_stay_valid(clock: Clock):
    codes = OneTimeCodes(LAUNCH_CODE, clock)
    made = [codes.new() for _ in range(3 * CODES)]
    assert [codes.redeem(code) for code in made[-CODES:]] == [True] * CODES
    assert not any(map(codes.redeem, made[:-CODES]))


async def test_malformed_mismatched_or_expired_codes_are_refused(tmp_path: Path, clock: Clock):
    async with served(tmp_path) as server, server.client() as client:
        keys, blocked = server.access.keys, 0
        json_type = {"Content-Type": "application/json"}
        for path in ("/api/launch", "/api/pair"):
            for body in (b"", b"null", b"[]", b'{"code": 5}', b"{", b"\xff", b"[" * 1000):
                answer = await client.post(path, content=body, headers=json_type)
                blocked += 1
                assert (answer.status_code, answer.content) == (400, b""), (path, body)
                assert server.blocked == blocked
        launch, pairing = keys.launch_codes.new(), keys.pairing_codes.new()
        assert (await client.post("/api/pair", json={"code": launch})).status_code == 401
        assert (await client.post("/api/launch", json={"code": pairing})).status_code == 401
        assert (await client.post("/api/launch", json={"code": launch})).status_code == 200
        keys.launch_codes = OneTimeCodes(LAUNCH_CODE, clock)
        code = keys.launch_codes.new()
        clock.now += LAUNCH_CODE
        assert (await client.post("/api/launch", json={"code": code})).status_code == 401


def test_own_connections_are_not_taken_for_another_users():
    with (
        socket.create_server((LOOPBACK, 0)) as listener,
        socket.create_connection(listener.getsockname()) as near,
    ):
        assert not is_of_another_user(near.getsockname(), listener.getsockname())
    assert not is_of_another_user(("::1", 1), ("::1", 2))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change its user")
def test_a_connection_of_another_user_is_detected():
    with socket.create_server((LOOPBACK, 0)) as listener, socket.socket() as far:
        os.fchown(far.fileno(), 65534, 65534)
        far.connect(listener.getsockname())
        assert is_of_another_user(far.getsockname(), listener.getsockname())


async def test_ids_are_random_and_useless_without_a_token(tmp_path: Path):
    async with served(tmp_path) as server, server.client() as client:
        ids = [server.access.keys.devices.pair(f"phone {n}")[0] for n in range(3)]
        assert all(len(bytes.fromhex(each)) == 16 for each in ids)
        rename = {"kind": "rename_session", "session_id": SESSION, "label": "x"}
        assert (await client.post("/api/do", json=rename)).status_code == 401
        known = server.bearer
        assert (await client.post("/api/do", json=rename, headers=known)).status_code == 200
        twice = f'{{"kind": "mark_read", "session_id": "x", "session_id": "{SESSION}"}}'
        said = await client.post(
            "/api/do", content=twice, headers={**known, "content-type": "application/json"}
        )
        assert said.status_code == 409
        assert "has the field 'session_id' twice. Nothing was done." in said.text
        other = {**rename, "session_id": SESSION.replace("5b", "5c")}
        refused = await client.post("/api/do", json=other, headers=known)
        assert refused.status_code == 409
        assert refused.json()["error"]["message"] == "There is no such session here."
        unknown = {"kind": "revoke_device", "id": "0" * 32}
        assert (await client.post("/api/do", json=unknown, headers=known)).status_code == 409


def found(devices: Devices, token: str) -> str | None:
    device = devices.find_by_token(token)
    return device.id if device else None


def test_device_tokens_are_stored_as_digests_in_a_private_file(tmp_path: Path, devices: Devices):
    device_id, token = devices.pair("My phone")
    file = tmp_path / "state" / "devices.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert token not in file.read_text(encoding="utf-8")
    later = Devices(file)
    assert [(each.id, each.name) for each in later.all()] == [(device_id, "My phone")]
    assert found(later, token) == device_id
    assert later.find_by_token(token[:-1]) is None
    assert later.find_by_token(json.loads(file.read_bytes())[0]["token_digest"]) is None


async def test_a_revoked_device_is_refused(tmp_path: Path, devices: Devices):
    sent_away: list[str] = []
    handler = Router([DeviceHandler(devices, sent_away.append)])
    device_id, token = devices.pair("My phone")
    other_id, other = devices.pair("Tablet")
    assert [each.name for each in await handler.do(ListDevices())] == ["My phone", "Tablet"]
    done = await handler.do(RevokeDevice(id=device_id))
    assert done.notes == ("My phone was revoked.",)
    assert sent_away == [device_id]
    for file in (devices, Devices(tmp_path / "state" / "devices.json")):
        assert (found(file, token), found(file, other)) == (None, other_id)
    with pytest.raises(CommandRejected, match="No such device"):
        await handler.do(RevokeDevice(id=device_id))


def test_the_last_seen_time_of_a_device_is_recorded(devices: Devices, clock: Clock):
    _, token = devices.pair("My phone")
    clock.now += 30
    devices.find_by_token(token)
    assert devices.all()[0].seen == 1_000_000
    clock.now += 31
    devices.find_by_token(token)
    assert (devices.all()[0].seen, devices.all()[0].paired) == (1_061_000, 1_000_000)


def test_the_number_of_devices_is_limited(devices: Devices):
    for number in range(DEVICES):
        devices.pair(str(number))
    with pytest.raises(CommandRejected, match="Revoke one"):
        devices.pair("one more")
    assert len(devices.all()) == DEVICES


def test_a_browser_is_admitted_again_by_the_next_server_but_not_from_elsewhere(
    tmp_path: Path, devices: Devices, clock: Clock
):
    _, token = devices.admit_browser("Firefox")
    _, phone = devices.pair("My phone")
    keys = Keys(Devices(tmp_path / "state" / "devices.json", clock.milliseconds))
    assert keys.identity(token, outside=False)
    assert keys.identity(token, outside=True) is None
    assert keys.identity(phone, outside=True)
    keys.devices.forget_browsers()
    assert keys.identity(token, outside=False) is None
    assert keys.identity(phone, outside=True)


def test_an_unused_browser_is_forgotten(devices: Devices, clock: Clock):
    _, token = devices.admit_browser("Firefox")
    for _ in range(3):
        clock.now += 0.9 * UNUSED_BROWSER / 1000
        assert devices.find_by_token(token)
    clock.now += UNUSED_BROWSER / 1000
    assert devices.find_by_token(token) is None
    assert devices.all() == ()


def test_a_new_link_replaces_what_the_browser_had_and_no_paired_device(devices: Devices):
    phone, _ = devices.pair("My phone")
    first, token = devices.admit_browser("Firefox")
    second, _ = devices.admit_browser("Firefox", replaced=first)
    assert devices.find_by_token(token) is None
    devices.admit_browser("Firefox", replaced=phone)
    assert [each.local for each in devices.all()] == [False, True, True]
    for number in range(DEVICES):
        devices.admit_browser(str(number))
    names = [each.name for each in devices.all()]
    assert (len(names), names[0], names[-1]) == (DEVICES + 1, "My phone", str(DEVICES - 1))
    assert second not in {each.id for each in devices.all()}


async def test_only_the_real_server_can_prove_that_it_knows_a_browser(tmp_path: Path):
    """The proof holds for one origin, so that it cannot be fetched from another port."""
    async with served(tmp_path) as server, server.client() as client:
        code = server.access.keys.launch_codes.new()
        admitted = (await client.post("/api/launch", json={"code": code})).json()
        asked = {"device_id": admitted["device_id"], "nonce": "n1"}
        key = hashlib.sha256(admitted["token"].encode()).digest()
        for host in (server.host, f"localhost:{server.port}"):
            answer = await client.post("/api/prove", json=asked, headers={"Host": host})
            expected = hmac.new(key, f"http://{host} n1".encode(), "sha256").hexdigest()
            assert answer.json() == {"proof": expected}
        assert admitted["token"] not in answer.text
        unknown = await client.post("/api/prove", json={**asked, "device_id": "0" * 32})
        assert (unknown.status_code, unknown.content) == (401, b"")
        broken = await client.post("/api/prove", json={"device_id": 5})
        assert (broken.status_code, broken.content) == (400, b"")


def test_a_damaged_device_list_is_reported_and_left_unchanged(tmp_path: Path):
    file = tmp_path / "devices.json"
    for content in ("", "{", "[{}]", "null", '[{"id": 5}]'):
        file.write_text(content, encoding="utf-8")
        with pytest.raises(StorageError, match="Remove it, and pair your devices again"):
            Devices(file)
        assert file.read_text(encoding="utf-8") == content


def test_a_device_that_cannot_be_saved_is_not_paired(tmp_path: Path):
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    devices = Devices(folder / "devices.json")
    folder.chmod(0o500)
    with pytest.raises(StorageError):
        devices.pair("My phone")
    assert devices.all() == ()


def test_device_names_are_sanitized(devices: Devices):
    for said, shown in (
        ("My\nphone\x1b[31m", "My phone [31m"),
        ("\u202eevil", "evil"),
        ("", "a device"),
        (" \t", "a device"),
        ("x" * 1000, "x" * 60),
    ):
        devices.pair(said)
        assert devices.all()[-1].name == shown


async def test_only_unauthenticated_connections_give_way_to_others():
    here, from_outside = Visitors(), Visitors()
    first, second = here.add(), here.add()
    assert first
    assert second
    first.authenticate(Identity("token", "a browser", local=True))
    for _ in range(CONNECTIONS):
        assert here.add()
        assert here.add(outside=True), "authenticated connections have their own limit"
    assert len(here) == 2 * CONNECTIONS
    assert (first in here, second in here) == (True, False)
    for visitor in here:
        visitor.authenticate(Identity("token", "a browser", local=True))
    assert here.add() is None

    devices = [from_outside.add(outside=True) for _ in range(CONNECTIONS_OF_A_DEVICE + 1)]
    for device in devices:
        assert device
        device.authenticate(Identity("its token", "its id"))
    assert [each in from_outside for each in devices] == [False] + [True] * CONNECTIONS_OF_A_DEVICE


def test_wrong_guesses_are_counted_by_address_and_forgotten_after_a_minute(clock: Clock):
    wrong = WrongGuesses(clock)
    assert {wrong.note("a") for _ in range(WRONG_PER_MINUTE)} == {401}
    clock.now += 30
    assert (wrong.note("a"), wrong.note("b")) == (429, 401)
    clock.now += 60
    assert wrong.note("a") == 401
    for number in range(2 * ADDRESSES_REMEMBERED):
        wrong.note(str(number))
    assert len(wrong._by_address) == ADDRESSES_REMEMBERED
