"""Where a server is found: a note without secrets, and a socket for its owner."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from rookery.errors import SettingsError, StorageError
from rookery.manager.sessions.session_process import born
from rookery.manager.web.server_links import Links, ask_for_links, giving_links, noted, running_at

pytestmark = pytest.mark.anyio

LINKS = Links(url="http://127.0.0.1:1/", launch_url="http://127.0.0.1:1/#launch=x", pid=5)


def test_the_note_is_private_and_gone_afterwards(tmp_path: Path):
    folder = tmp_path / "state" / "manager"
    with noted(folder, 4711):
        file = folder / "server.json"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert json.loads(file.read_bytes()) == {
            "port": 4711,
            "pid": os.getpid(),
            "born": born(os.getpid()),
        }
        assert running_at(folder) == 4711
    assert not file.exists()
    assert running_at(folder) is None


def test_a_link_in_its_place_is_not_followed(tmp_path: Path):
    victim = tmp_path / "victim"
    victim.write_text("precious", encoding="utf-8")
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    (folder / "server.json").symlink_to(victim)
    with noted(folder, 1):
        assert not (folder / "server.json").is_symlink()
    assert victim.read_text(encoding="utf-8") == "precious"


def test_a_note_of_a_process_that_is_gone_is_replaced(tmp_path: Path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    leave_note(tmp_path, pid=gone.pid, began=12345)
    assert running_at(tmp_path) is None
    with noted(tmp_path, 2):
        assert running_at(tmp_path) == 2


def test_a_number_that_another_process_has_by_now_tells_nothing(tmp_path: Path):
    leave_note(tmp_path, pid=os.getpid(), began=born(os.getpid()) - 1)
    assert running_at(tmp_path) is None


def test_the_note_of_a_server_that_runs_is_left_alone(tmp_path: Path):
    leave_note(tmp_path, pid=os.getpid(), began=born(os.getpid()))
    with pytest.raises(StorageError), noted(tmp_path, 2):
        pass
    assert running_at(tmp_path) == 1


@pytest.mark.parametrize("content", ["", "{", "[]", '{"port": "1"}', '{"port": 1, "pid": -1}'])
def test_a_damaged_note_tells_nothing(tmp_path: Path, content: str):
    (tmp_path / "server.json").write_text(content, encoding="utf-8")
    assert running_at(tmp_path) is None


def leave_note(folder: Path, *, pid: int, began: int) -> None:
    note = {"port": 1, "pid": pid, "born": began}
    (folder / "server.json").write_text(json.dumps(note), encoding="utf-8")


async def test_links_are_asked_for_at_a_private_socket(tmp_path: Path):
    folder = tmp_path / "manager"
    asked: list[bool] = []

    def links(pair: bool) -> Links:
        asked.append(pair)
        return LINKS

    async with giving_links(folder, links):
        path = folder / "web.sock"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert await ask_for_links(folder) == LINKS
        assert await ask_for_links(folder, pair=True) == LINKS
        assert asked == [False, True]
        with pytest.raises(SettingsError, match="already listening on"):
            async with giving_links(folder, links):
                pass
    assert await ask_for_links(folder) is None
    assert [path.name for path in folder.iterdir()] == []


async def test_nonsense_at_the_socket_ends_nothing(tmp_path: Path):
    from rookery.protocol.unix_sockets import unix_channel

    async with giving_links(tmp_path, lambda _: LINKS):
        for said in (b"x", b"[]", b'{"pair": 5}', b"y" * 5000):
            channel = await unix_channel(tmp_path / "web.sock")
            await channel.send([said])
            await channel.aclose()
        assert await ask_for_links(tmp_path) == LINKS
