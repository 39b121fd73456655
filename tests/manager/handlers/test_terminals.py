"""A shell of the user's own in a session's worktree, over the manager's connection."""

import base64
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio
import pytest

from rookery.permissions.trust import TrustStore
from support.manager_project import PATIENCE, Project
from support.manager_service import Client, Refused, serving
from support.worktree_requests import DONE, with_repository, worktree_manager

pytestmark = pytest.mark.anyio

SIZE = {"columns": 80, "rows": 24}


@pytest.fixture
def project(project: Project) -> Project:
    project.environ["SHELL"] = "/bin/sh"
    return with_repository(project)


class Screen:
    """A terminal as a client sees it."""

    def __init__(self, client: Client, follow_id: int) -> None:
        self.client = client
        self.follow_id = follow_id

    @property
    def output(self) -> bytes:
        told = self.client.reported("terminal", self.follow_id)
        return b"".join(base64.b64decode(each["data"]) for each in told)

    async def type(self, words: bytes) -> None:
        data = base64.b64encode(words).decode()
        await self.call("type_in_terminal", data=data)

    async def call(self, method: str, **fields: Any) -> None:
        await self.client.call(method, follow_id=self.follow_id, **fields)

    async def until(self, holds: Callable[[], Any]) -> Any:
        return await self.client.until(holds)


async def opened(client: Client, session_id: str) -> Screen:
    answer = await client.call("open_terminal", session_id=session_id, size=SIZE)
    return Screen(client, answer["follow_id"])


async def test_a_shell_runs_in_the_worktree_and_ends_with_its_connection(project: Project):
    async with worktree_manager(project) as at, serving(project, at.watched) as connect:
        shown = await at.completed(DONE)
        session_id, folder = shown.record.session_id, at.place(shown)
        async with connect() as client:
            screen = await opened(client, session_id)
            await screen.type(b'pwd; echo "[$WORKTREE_PATH]"; tty; stty size; echo $((6 * 7))\n')
            await screen.until(lambda: b"42" in screen.output)
            assert f"[{folder}]".encode() in screen.output
            assert b"/dev/pts/" in screen.output
            assert b"24 80" in screen.output
            await screen.call("resize_terminal", size={"columns": 120, "rows": 40})
            await screen.type(b"stty size; printf '\\377\\000\\001|'; sleep 1000 & echo pid=$!.\n")
            await screen.until(lambda: b"\xff\0\1|" in screen.output)
            await screen.until(lambda: b"pid=" in screen.output.partition(b"\1|")[2])
            assert b"40 120" in screen.output
            await screen.until(lambda: b"." in screen.output.rpartition(b"pid=")[2])
            pid = int(screen.output.rpartition(b"pid=")[2].partition(b".")[0])
            process = os.pidfd_open(pid)
        with anyio.fail_after(PATIENCE):
            await anyio.wait_readable(process)  # it has ended
        os.close(process)


async def test_output_waits_for_a_client_that_does_not_show_it(project: Project):
    async with worktree_manager(project) as at, serving(project, at.watched) as connect:
        shown = await at.completed(DONE)
        async with connect() as client:
            screen = await opened(client, shown.record.session_id)
            await screen.type(b"stty -echo -onlcr; head -c 600000 /dev/zero; echo end; exit\n")
            await screen.until(lambda: len(screen.output) > 250_000)
            await screen.call("resize_terminal", size=SIZE)
            assert len(screen.output) < 400_000
            seen = 0
            while not client.reported("ended", screen.follow_id):
                count, seen = len(screen.output) - seen, len(screen.output)
                with suppress(Refused):  # it has just ended
                    await screen.call("acknowledge_output", count=count)
            assert screen.output.count(b"\0") == 600_000
            assert b"end\n" in screen.output


async def test_no_shell_without_trust_for_strangers_or_with_wrong_fields(project: Project):
    async with worktree_manager(project) as at, serving(project, at.watched) as connect:
        shown = await at.completed(DONE)
        session_id = shown.record.session_id
        async with connect() as client:
            for fields, words in (
                ({"session_id": "none", "size": SIZE}, "is not a session id"),
                ({"session_id": session_id, "size": {"columns": 0, "rows": 1}}, "1 to 1000"),
                ({"session_id": session_id, "size": SIZE, "shell": "x"}, "has no field 'shell'"),
            ):
                with pytest.raises(Refused, match=words):
                    await client.call("open_terminal", **fields)
            with pytest.raises(Refused, match="follow_id of a terminal"):
                await client.call("type_in_terminal", follow_id=1, data="")
            TrustStore(project.places.trust_file).forget(project.path)
            with pytest.raises(Refused, match="not trusted, so no shell is started"):
                await client.call("open_terminal", session_id=session_id, size=SIZE)
