"""The server file, which holds no secrets, and the private socket for links."""

import json
import os
import stat
from pathlib import Path

import anyio
import pytest

from rookery.errors import SettingsError
from rookery.manager.sessions.session_process import start_ticks
from rookery.manager.web.server_links import (
    SOCKET_FILE,
    LinkRequest,
    Links,
    ask_for_links,
    own_port,
    record_own_port,
    record_port,
    serve_links,
)
from support.web_server import said_to

pytestmark = pytest.mark.anyio

LINKS = Links(url="http://127.0.0.1:1/", launch_url="http://127.0.0.1:1/#launch=x", pid=5)


def test_the_server_file_is_private_and_removed_on_exit(tmp_path: Path):
    """The file of a killed server, or a link in its place, is replaced."""
    folder, victim = tmp_path / "state" / "manager", tmp_path / "victim"
    victim.write_text("precious", encoding="utf-8")
    folder.mkdir(parents=True)
    file = folder / "server.json"
    file.symlink_to(victim)
    with record_port(folder, 4711):
        assert not file.is_symlink()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert json.loads(file.read_bytes()) == {
            "port": 4711,
            "pid": os.getpid(),
            "born": start_ticks(os.getpid()),
        }
    assert not file.exists()
    assert victim.read_text(encoding="utf-8") == "precious"


def test_the_port_of_the_user_is_random_and_remembered(tmp_path: Path):
    folder = tmp_path / "state" / "manager"
    assert len({own_port(folder) for _ in range(20)}) > 1
    record_own_port(folder, 20_123)
    assert (own_port(folder), own_port(folder)) == (20_123, 20_123)
    for nonsense in ("nonsense", "", "80", "-1", "70000", "20123.5"):
        (folder / "port").write_text(nonsense, encoding="utf-8")
        assert own_port(folder) in range(20_000, 30_000), nonsense


async def test_links_are_requested_through_a_private_socket(tmp_path: Path):
    folder = tmp_path / "manager"
    asked: list[LinkRequest] = []

    async def links(request: LinkRequest) -> Links:
        asked.append(request)
        return LINKS

    async with serve_links(folder, links):
        path = folder / "web.sock"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert await ask_for_links(folder) == LINKS
        environ = {"KEY": "é" * 100_000, "BROKEN": "\udcff"}
        links_again = await ask_for_links(folder, pair=True, project=Path("/a"), environ=environ)
        assert links_again == LINKS
        del environ["BROKEN"]
        assert asked == [LinkRequest(), LinkRequest(pair=True, project="/a", environ=environ)]
        with pytest.raises(SettingsError, match="already listening on"):
            async with serve_links(folder, links):
                pass
    assert await ask_for_links(folder) is None
    assert [path.name for path in folder.iterdir()] == []


NONSENSE = (
    *(b"x\n", b"[]\n", b'{"pair": 5}\n', b"y" * 2**21 + b"\n", b'{"x":' + b"[" * 1000 + b"\n"),
    *(b"\xff\xfe\n", b'{"pair":"\\ud800"}\n'),
)


async def test_invalid_input_does_not_stop_the_links_socket(tmp_path: Path):
    async def links(_: LinkRequest) -> Links:
        return LINKS

    async with serve_links(tmp_path, links):
        for said in NONSENSE:
            async with await anyio.connect_unix(str(tmp_path / SOCKET_FILE)) as stream:
                assert (await said_to(stream, said, "")).raw == b"", said
        assert await ask_for_links(tmp_path) == LINKS
