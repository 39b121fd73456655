"""What lets somebody in: tokens, codes that are good once, and paired devices."""

import json
import os
import socket
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.errors import CommandRejected, StorageError
from rookery.manager.handlers.router import Router
from rookery.manager.requests import (
    ListDevices,
    RevokeDevice,
)
from rookery.manager.web.devices import DeviceHandler, Devices, Keys, OneTimeCodes
from rookery.manager.web.routes import is_of_another_user
from rookery.manager.web.visitors import WrongGuesses
from rookery.manager.web.web_limits import (
    ADDRESSES_REMEMBERED,
    CODES,
    DEVICES,
    LAUNCH_CODE,
    PAIRING_CODE,
    WRONG_PER_MINUTE,
)
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


def test_every_start_has_a_token_of_256_random_bits(devices: Devices):
    tokens = {Keys(devices).token for _ in range(20)}
    assert len(tokens) == 20
    assert all(len(bytes.fromhex(token)) == 32 for token in tokens)


@given(st.one_of(st.text(), st.none(), st.integers(), st.binary(), st.lists(st.text())))
def test_nothing_else_is_the_token(guess: object):
    keys = Keys(Devices(Path("nowhere") / "devices.json"))
    assert keys.guest(guess, outside=False) is None
    assert keys.guest(keys.token, outside=False) is not None


@pytest.mark.parametrize("change", [lambda t: t[:-1], lambda t: t + "0", str.upper, lambda t: ""])
def test_nor_is_nearly_the_token(devices: Devices, change: object):
    keys = Keys(devices)
    assert callable(change)
    assert change(keys.token) == keys.token or not keys.guest(change(keys.token), outside=False)


def test_a_code_is_good_once(clock: Clock):
    codes = OneTimeCodes(LAUNCH_CODE, clock)
    code, other = codes.new(), codes.new()
    assert [codes.redeem(code), codes.redeem(code), codes.redeem(other)] == [True, False, True]


@pytest.mark.parametrize(
    ("seconds", "later", "good"),
    [
        (LAUNCH_CODE, 59.9, True),
        (LAUNCH_CODE, 60.0, False),
        (LAUNCH_CODE, 6000.0, False),
        (PAIRING_CODE, 299.9, True),
        (PAIRING_CODE, 300.0, False),
    ],
)
def test_and_only_for_a_while(clock: Clock, seconds: float, later: float, good: bool):
    codes = OneTimeCodes(seconds, clock)
    code = codes.new()
    clock.now += later
    assert codes.redeem(code) is good
    assert not codes.redeem(code)


def test_few_codes_are_open_at_once(clock: Clock):
    codes = OneTimeCodes(LAUNCH_CODE, clock)
    made = [codes.new() for _ in range(100 * CODES)]
    assert [codes.redeem(code) for code in made[-CODES:]] == [True] * CODES
    assert not any(map(codes.redeem, made[:-CODES]))


@given(st.one_of(st.text(), st.none(), st.integers()))
def test_no_guess_is_a_code(guess: object):
    codes = OneTimeCodes(LAUNCH_CODE)
    code = codes.new()
    assert not codes.redeem(guess)
    assert codes.redeem(code)


async def test_a_launch_link_lets_in_once_and_sets_no_cookie(tmp_path: Path):
    async with served(tmp_path) as server, server.client() as client:
        link = server.server.launch_url()
        address, code = link.split("#launch=")
        assert address == f"http://{LOOPBACK}:{server.port}/"
        first = await client.post("/api/launch", json={"code": code})
        assert (first.status_code, first.json()) == (200, {"token": server.token})
        assert (first.headers["cache-control"], "set-cookie" in first.headers) == (
            "no-store",
            False,
        )
        again = await client.post("/api/launch", json={"code": code})
        assert (again.status_code, again.content) == (401, b"")
        assert server.blocked == 1


async def test_an_expired_launch_link_is_refused(tmp_path: Path, clock: Clock):
    async with served(tmp_path) as server, server.client() as client:
        server.watch.keys.launch_codes = OneTimeCodes(LAUNCH_CODE, clock)
        code = server.watch.keys.launch_codes.new()
        clock.now += LAUNCH_CODE
        assert (await client.post("/api/launch", json={"code": code})).status_code == 401


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b'{"code": 5}', b"{", b"\xff", b"[" * 1000])
@pytest.mark.parametrize("path", ["/api/launch", "/api/pair"])
async def test_what_holds_no_code_is_refused(tmp_path: Path, path: str, body: bytes):
    async with served(tmp_path) as server, server.client() as client:
        json_type = {"Content-Type": "application/json"}
        answer = await client.post(path, content=body, headers=json_type)
        assert (answer.status_code, answer.content, server.blocked) == (400, b"", 1)


async def test_a_pairing_code_is_no_launch_code_nor_the_other_way(tmp_path: Path):
    async with served(tmp_path) as server, server.client() as client:
        keys = server.watch.keys
        launch, pairing = keys.launch_codes.new(), keys.pairing_codes.new()
        assert (await client.post("/api/pair", json={"code": launch})).status_code == 401
        assert (await client.post("/api/launch", json={"code": pairing})).status_code == 401
        assert (await client.post("/api/launch", json={"code": launch})).status_code == 200


def test_other_users_of_the_machine_are_known_by_their_connections():
    with (
        socket.create_server((LOOPBACK, 0)) as listener,
        socket.create_connection(listener.getsockname()) as near,
    ):
        assert not is_of_another_user(near.getsockname(), listener.getsockname())
    assert not is_of_another_user(("::1", 1), ("::1", 2))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_and_are_found_out():
    with socket.create_server((LOOPBACK, 0)) as listener, socket.socket() as far:
        os.fchown(far.fileno(), 65534, 65534)
        far.connect(listener.getsockname())
        assert is_of_another_user(far.getsockname(), listener.getsockname())


async def test_ids_are_random_and_of_use_only_to_who_is_known(tmp_path: Path):
    async with served(tmp_path) as server, server.client() as client:
        ids = [server.watch.keys.devices.pair(f"phone {n}")[0] for n in range(3)]
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


def test_devices_are_kept_as_digests_in_a_private_file(tmp_path: Path, devices: Devices):
    device_id, token = devices.pair("My phone")
    file = tmp_path / "state" / "devices.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert token not in file.read_text(encoding="utf-8")
    later = Devices(file)
    assert [(each.id, each.name) for each in later.all()] == [(device_id, "My phone")]
    assert later.whose(token) == device_id
    assert later.whose(token[:-1]) is None
    assert later.whose(json.loads(file.read_bytes())[0]["token_digest"]) is None


async def test_a_revoked_device_is_let_in_no_more(tmp_path: Path, devices: Devices):
    sent_away: list[str] = []
    desk = Router([DeviceHandler(devices, sent_away.append)])
    device_id, token = devices.pair("My phone")
    other_id, other = devices.pair("Tablet")
    assert [each.name for each in await desk.do(ListDevices())] == ["My phone", "Tablet"]
    done = await desk.do(RevokeDevice(id=device_id))
    assert done.notes == ("My phone was revoked.",)
    assert sent_away == [device_id]
    for file in (devices, Devices(tmp_path / "state" / "devices.json")):
        assert (file.whose(token), file.whose(other)) == (None, other_id)
    with pytest.raises(CommandRejected, match="No such device"):
        await desk.do(RevokeDevice(id=device_id))


def test_it_is_noted_when_a_device_was_last_there(devices: Devices, clock: Clock):
    _, token = devices.pair("My phone")
    clock.now += 30
    devices.whose(token)
    assert devices.all()[0].seen == 1_000_000
    clock.now += 31
    devices.whose(token)
    assert (devices.all()[0].seen, devices.all()[0].paired) == (1_061_000, 1_000_000)


def test_there_are_not_many_devices(devices: Devices):
    for number in range(DEVICES):
        devices.pair(str(number))
    with pytest.raises(CommandRejected, match="Revoke one"):
        devices.pair("one more")
    assert len(devices.all()) == DEVICES


@pytest.mark.parametrize("content", ["", "{", "[{}]", "null", '[{"id": 5}]'])
def test_a_damaged_list_of_devices_is_left_as_it_is(tmp_path: Path, content: str):
    file = tmp_path / "devices.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(StorageError, match="Remove it, and pair your devices again"):
        Devices(file)
    assert file.read_text(encoding="utf-8") == content


def test_what_cannot_be_kept_is_not_paired(tmp_path: Path):
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    devices = Devices(folder / "devices.json")
    folder.chmod(0o500)
    with pytest.raises(StorageError):
        devices.pair("My phone")
    assert devices.all() == ()


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("My\nphone\x1b[31m", "My phone [31m"),
        ("\u202eevil", "evil"),
        ("", "a device"),
        (" \t", "a device"),
        ("x" * 1000, "x" * 60),
    ],
)
def test_the_name_of_a_device_is_harmless(devices: Devices, said: str, shown: str):
    devices.pair(said)
    assert devices.all()[0].name == shown


def test_wrong_guesses_are_forgotten_after_a_minute(clock: Clock):
    wrong = WrongGuesses(clock)
    for _ in range(WRONG_PER_MINUTE - 1):
        wrong.note("a")
    clock.now += 30
    assert not wrong.too_many("a")
    wrong.note("a")
    assert wrong.too_many("a")
    assert not wrong.too_many("b")
    clock.now += 30
    assert not wrong.too_many("a")


def test_guesses_from_everywhere_take_little_memory(clock: Clock):
    wrong = WrongGuesses(clock)
    for number in range(100 * ADDRESSES_REMEMBERED):
        wrong.note(str(number))
    assert len(wrong._by_address) == ADDRESSES_REMEMBERED
