"""Unix sockets: only the owner can connect, and only one process listens."""

import os
import socket
import stat
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import pytest
from anyio.abc import SocketStream

from rookery.errors import SettingsError
from rookery.protocol.channels import (
    LONGEST_MESSAGE,
    channel_on,
    is_same_user,
    unix_channel,
    unix_listener,
)
from rookery.protocol.server import serve
from support.protocol_hosts import Caller, Logs

pytestmark = pytest.mark.anyio


async def test_only_the_owner_has_access(tmp_path: Path):
    path = tmp_path / "s"
    async with unix_listener(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == []


async def welcome(stream: SocketStream) -> None:
    async with stream:
        if is_same_user(stream):
            await serve(Logs(), channel_on(stream))


@pytest.mark.parametrize("folder", ["short", "long" * 30], ids=["short path", "long path"])
async def test_an_admitted_client_is_served(tmp_path: Path, folder: str):
    path = tmp_path / folder / "s"
    path.parent.mkdir()
    async with unix_listener(path) as listener, anyio.create_task_group() as group:
        group.start_soon(partial(listener.serve, welcome))
        client = Caller(await unix_channel(path))
        await client.initialize()
        await client.channel.aclose()
        with pytest.raises(SettingsError, match="already"):
            async with unix_listener(path):
                pass
        group.cancel_scope.cancel()
    assert os.listdir(path.parent) == []


async def test_a_truncated_or_overlong_line_affects_no_other_connection(tmp_path: Path):
    path = tmp_path / "s"
    async with unix_listener(path) as listener, anyio.create_task_group() as group:
        group.start_soon(partial(listener.serve, welcome))
        async with await anyio.connect_unix(path) as cut:
            await cut.send(b'{"jsonrpc":"2.0","id":1,"met')
        client = Caller(await unix_channel(path))
        await client.raw(b"x" * (LONGEST_MESSAGE + 1))
        assert (await client.receive())["error"]["message"] == "That message is too long."
        await client.initialize()
        await client.channel.aclose()
        group.cancel_scope.cancel()


async def test_a_socket_of_a_dead_server_is_replaced(tmp_path: Path):
    path = tmp_path / "s"
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(path))
    dead.listen()
    dead.close()
    async with unix_listener(path):
        await (await unix_channel(path)).aclose()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_socket_of_a_running_server_is_refused_with_one_sentence(tmp_path: Path):
    path = tmp_path / "s"
    async with unix_listener(path):
        before = path.stat().st_ino
        with pytest.raises(SettingsError, match=r"A server is already listening on "):
            async with unix_listener(path):
                pass
        assert path.stat().st_ino == before
        assert sorted(os.listdir(tmp_path)) == ["s", "s.lock"]
    with socket.socket(socket.AF_UNIX) as foreign:
        foreign.bind(str(path))
        foreign.listen()
        with pytest.raises(SettingsError, match=r"A server is already listening on "):
            async with unix_listener(path):
                pass
        assert os.listdir(tmp_path) == ["s"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("file", "is not a socket"),
        (".", "is not a socket"),
        ("..", "is not a socket"),
        ("/", "is not a socket"),
        ("no/such/folder/s", "No such file or directory"),
        ("x" * 120, "path too long"),
    ],
)
async def test_an_unusable_socket_path_gives_one_sentence(tmp_path: Path, name: str, words: str):
    work = tmp_path / "work"
    work.mkdir()
    (work / "file").write_text("mine")
    with pytest.raises(SettingsError, match=words):
        async with unix_listener(work / name):
            pass
    assert (os.listdir(tmp_path), os.listdir(work)) == (["work"], ["file"])


async def test_a_socket_without_a_listener_gives_one_sentence(tmp_path: Path):
    with pytest.raises(SettingsError, match="No server is listening on"):
        await unix_channel(tmp_path / "s")


CONNECT = """\
import os, socket, sys
os.setgid(65534)
os.setuid(65534)
end = socket.socket(socket.AF_UNIX)
try:
    end.connect(sys.argv[1])
    end.sendall(b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocol":1}}\\n')
    print(end.recv(1000))
except OSError as error:
    print(type(error).__name__)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("mode", [0o600, 0o666], ids=["default permissions", "changed permissions"])
async def test_another_user_cannot_connect(mode: int):
    with TemporaryDirectory() as folder:
        path = Path(folder) / "s"
        path.parent.chmod(0o755)
        async with unix_listener(path) as listener, anyio.create_task_group() as group:
            path.chmod(mode)
            group.start_soon(partial(listener.serve, welcome))
            done = await anyio.run_process([sys.executable, "-c", CONNECT, str(path)])
            group.cancel_scope.cancel()
    turned_away = (b"b''\n", b"ConnectionResetError\n", b"BrokenPipeError\n")
    assert done.stdout in ((b"PermissionError\n",) if mode == 0o600 else turned_away)
