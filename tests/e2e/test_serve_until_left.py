"""An idle server without clients ends itself; a busy one does not."""

from pathlib import Path

import anyio
import pytest

from e2e.test_serve import serving
from rookery.core.asks import AskKind
from rookery.core.commands import CloseTask, OpenTask
from rookery.core.facts import Asked
from rookery.core.queries import AskRest
from rookery.protocol.channels import unix_channel
from rookery.protocol.codec import Host
from rookery.protocol.remote import remote_host
from support.terminal_session import PATIENCE, Installed

pytestmark = pytest.mark.anyio

DONE = """\
- calls:
  - {tool: attempt_completion, arguments: {result: "Done."}}
"""
RISKY = """\
- calls:
  - {tool: write_to_file, arguments: {path: made.txt, content: "one\\n"}}
"""
SOON = ("--until-left", "1")


async def asked(socket: Path, kind: AskKind) -> None:
    """A client connects, starts a task, waits for a question and disconnects."""
    async with remote_host(await unix_channel(socket)) as host:
        await host.send(OpenTask(task_id="t", text="Do it"))
        await until_asked(host, kind)
        assert await host.query(AskRest()) == (kind is AskKind.COMPLETION_RESULT)


async def until_asked(host: Host, kind: AskKind) -> None:
    with anyio.fail_after(PATIENCE):
        async for event in host.follow("t"):
            if isinstance(event.fact, Asked) and event.fact.ask is kind:
                return


def test_a_server_without_clients_ends(rookery: Installed):
    with serving(rookery, *rookery.script(DONE), *SOON) as server:
        assert server.process.wait(PATIENCE) == 0
        assert not server.socket.exists()


async def test_a_server_with_a_finished_task_ends_after_the_last_client(rookery: Installed):
    with serving(rookery, *rookery.script(DONE), *SOON) as server:
        await asked(server.socket, AskKind.COMPLETION_RESULT)
        assert await anyio.to_thread.run_sync(server.process.wait, PATIENCE) == 0
        assert not server.socket.exists()


async def test_a_server_with_an_open_question_waits_for_its_answer(rookery: Installed):
    with serving(rookery, *rookery.script(RISKY), *SOON, "--require-approval") as server:
        await asked(server.socket, AskKind.TOOL)
        await anyio.sleep(2)
        async with remote_host(await unix_channel(server.socket)) as host:
            await until_asked(host, AskKind.TOOL)
            await host.send(CloseTask(task_id="t"))
        assert await anyio.to_thread.run_sync(server.process.wait, PATIENCE) == 0


def test_until_left_needs_a_unix_socket(rookery: Installed):
    done = rookery.run("serve", "--stdio", *SOON)
    assert done.returncode == 2
    assert "--until-left needs a server on a Unix socket." in done.stderr
