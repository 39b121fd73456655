"""`rookery serve` and `rookery attach`, as processes."""

import json
import os
import resource
import signal
import socket
import stat
import subprocess
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import anyio.lowlevel
import pytest
from anyio.streams.stapled import StapledByteStream
from websockets.asyncio.client import connect

from rookery.cli.serve import MOST_CLIENTS
from rookery.core.asks import AskKind
from rookery.core.commands import Answer, OpenTask, ReopenTask
from rookery.core.facts import Asked, Event, ModeSwitched
from rookery.core.queries import AskAbout
from rookery.protocol.channels import LineChannel, unix_channel
from rookery.protocol.codec import Host
from rookery.protocol.jsonrpc import Disconnected
from rookery.protocol.remote import remote_host
from support.protocol_hosts import workplace
from support.protocol_story import SCRIPT, TASK, Story, reported
from support.terminal_session import COMMAND, CTRL_C, CTRL_D, PATIENCE, Installed, TerminalSession
from support.warm_start import PipedProcess
from support.web_channel import WebChannel, bearer

pytestmark = pytest.mark.anyio


@contextmanager
def serving(rookery: Installed, *arguments: str) -> Iterator["Serving"]:
    with rookery.piped("serve", *arguments) as process:
        try:
            yield Serving(process)
        finally:
            process.kill()


def attached(rookery: Installed, session: str) -> TerminalSession:
    command = [COMMAND, "attach", session]
    return TerminalSession(command, cwd=rookery.workspace, environ=rookery.environ)


class Serving:
    def __init__(self, process: "subprocess.Popen[bytes] | PipedProcess") -> None:
        self.process = process
        assert process.stdout
        line = process.stdout.readline()
        assert line, process.stderr and process.stderr.read().decode()
        self.where = json.loads(line)

    @property
    def socket(self) -> Path:
        return Path(self.where["socket"])

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)


@asynccontextmanager
async def over_stdio(rookery: Installed, script: list[str]) -> AsyncIterator[Host]:
    async with await anyio.open_process(
        [COMMAND, "serve", "--stdio", *script], cwd=rookery.workspace, env=rookery.environ
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        channel = LineChannel(StapledByteStream(process.stdin, process.stdout))
        async with remote_host(channel) as host:
            yield host
        with anyio.fail_after(PATIENCE):
            assert await process.wait() == 0
        assert [piece async for piece in process.stderr] == []


@asynccontextmanager
async def over_a_web_socket(rookery: Installed, script: list[str]) -> AsyncIterator[Host]:
    with serving(rookery, "--port", "0", *script) as server:
        token_file = Path(server.where["token_file"])
        token = await anyio.Path(token_file).read_text()
        async with (
            connect(server.where["url"], additional_headers=bearer(token)) as connection,
            remote_host(WebChannel(connection)) as host,
        ):
            yield host
        assert server.end(signal.SIGINT) == 130


Over: TypeAlias = Callable[[Installed, list[str]], AbstractAsyncContextManager[Host]]


@pytest.fixture(scope="module")
def near(tmp_path_factory: pytest.TempPathFactory) -> Any:
    async def report() -> Any:
        async with workplace(tmp_path_factory.mktemp("near"), SCRIPT) as host:
            return await reported(host)

    return anyio.run(report)


@pytest.mark.parametrize("over", [over_stdio, over_a_web_socket])
async def test_a_remote_client_sees_the_same_events(near: Any, rookery: Installed, over: Over):
    async with over(rookery, rookery.script(SCRIPT)) as host:
        assert await reported(host) == near


def test_a_server_runs_in_a_terminal(rookery: Installed):
    command = [COMMAND, "serve", *rookery.script(SCRIPT)]
    terminal = TerminalSession(command, cwd=rookery.workspace, environ=rookery.environ, columns=200)
    with terminal:
        terminal.wait_for('{"socket": "')
        listed = rookery.run("attach")
        assert listed.returncode == 0, listed.stderr
        terminal.press(CTRL_C)
        assert terminal.exit_code() == 130


def test_the_socket_and_the_token_are_private_to_their_owner(rookery: Installed):
    script = rookery.script(SCRIPT)
    with serving(rookery, *script) as server:
        assert stat.S_IMODE(server.socket.stat().st_mode) == 0o600
        assert stat.S_IMODE(server.socket.parent.stat().st_mode) == 0o700
        assert server.socket.is_relative_to(rookery.home / "state")
        second = rookery.run("serve", *script)
        assert (second.returncode, second.stdout) == (2, "")
        assert second.stderr.startswith("Error: A server is already listening on ")
        assert second.stderr.count("\n") == 1
        server.end(signal.SIGTERM)
        assert not server.socket.exists()
    with serving(rookery, "--port", "0", *script) as server:
        token_file = Path(server.where["token_file"])
        assert stat.S_IMODE(token_file.stat().st_mode) == 0o600
        assert len(token_file.read_text()) == 64
        assert server.where["url"].startswith("ws://127.0.0.1:")
        server.end(signal.SIGTERM)
        assert not token_file.exists()


def test_invalid_options_are_refused_in_one_sentence(rookery: Installed):
    for line in (
        "--stdio --port 0",
        "--port 70000",
        "--port x",
        "-y -a",
        "--socket no/such/folder/s",
        "--socket /",
        "--socket .",
    ):
        done = rookery.run("serve", *rookery.script(SCRIPT), *line.split())
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), line


async def test_a_server_can_restart_after_a_kill_and_clients_reconnect(
    rookery: Installed,
):
    script = rookery.script(SCRIPT)
    seen: list[Event] = []
    with serving(rookery, *script) as server:
        async with remote_host(await unix_channel(server.socket)) as host:
            await host.send(OpenTask(task_id=TASK, text="Do it"))

            async def see() -> None:
                async for event in host.follow(TASK):
                    seen.append(event)
                    if isinstance(event.fact, Asked):
                        server.process.kill()

            with anyio.fail_after(PATIENCE), pytest.raises(Disconnected):
                await see()
        assert server.socket.exists()
    with serving(rookery, *script) as server:
        async with remote_host(await unix_channel(server.socket)) as host:
            await host.send(ReopenTask(task_id=TASK))
            last = max(event.seq for event in seen)
            with anyio.fail_after(PATIENCE):
                async for event in host.follow(TASK, last):
                    seen.append(event)
                    if isinstance(event.fact, Asked):
                        break
            with anyio.fail_after(PATIENCE):
                whole = []
                async for event in host.follow(TASK):
                    whole.append(event)
                    if event.seq == seen[-1].seq:
                        break
    assert [event for event in seen if not event.sub] == whole
    assert isinstance(seen[-1].fact, Asked)
    assert seen[-1].fact.ask is AskKind.RESUME_TASK


async def test_a_user_attaches_answers_and_detaches(rookery: Installed):
    """While another client is attached, which sees the answer."""
    with serving(rookery, *rookery.script(SCRIPT)) as server:
        async with remote_host(await unix_channel(server.socket)) as host:
            nothing = rookery.run("attach").stdout
            assert nothing.startswith(
                "No session is running there. To start one in this terminal: "
            )
            stranger = rookery.run("attach", "0123")
            assert stranger.returncode == 2
            assert stranger.stderr == "Error: 0123 is not a session there. See rookery list.\n"
            await host.send(OpenTask(task_id=TASK, text="Do it"))
            story = Story(host)
            async with anyio.create_task_group() as group:
                group.start_soon(story.follow)
                await story.asked(AskKind.TOOL)
                await anyio.to_thread.run_sync(_follow_answer_and_leave, rookery)
                with anyio.fail_after(PATIENCE):
                    await story.asked(AskKind.COMPLETION_RESULT)
                await anyio.to_thread.run_sync(_leave_and_come_back, rookery)
                with anyio.fail_after(PATIENCE):
                    await story.until(lambda event: event.seq == 0)


def _follow_answer_and_leave(rookery: Installed) -> None:
    assert rookery.run("attach").stdout == f"{TASK[:8]}\tDo it\n"
    with attached(rookery, TASK[:8]) as terminal:
        terminal.wait_for("I will write it.")
        terminal.wait_for("Approve?")
        terminal.press(CTRL_D)
        terminal.wait_for("Detached. The session continues")
        assert terminal.exit_code() == 0
    with attached(rookery, TASK[:8]) as terminal:
        terminal.wait_for("Approve?")
        terminal.type("y")
        terminal.wait_for("one two")
        terminal.press(CTRL_D)
        assert terminal.exit_code() == 0


def _leave_and_come_back(rookery: Installed) -> None:
    with attached(rookery, TASK) as terminal:
        terminal.wait_for("Done. [Enter")
        terminal.press(CTRL_D)
        assert terminal.exit_code() == 0
    with attached(rookery, TASK) as terminal:
        terminal.wait_for("Done. [Enter")
        terminal.type("")
        assert terminal.exit_code() == 0


async def test_a_user_stops_a_task_and_the_server_can_end(rookery: Installed):
    slow = SCRIPT.replace("pause: 0.03", "pause: 1")
    with serving(rookery, "-y", *rookery.script(slow)) as server:
        async with remote_host(await unix_channel(server.socket)) as host:
            await host.send(OpenTask(task_id=TASK, text="Do it"))
            await anyio.to_thread.run_sync(_stop_and_lose, rookery, server)
    done = rookery.run("attach", TASK)
    assert done.returncode == 2
    assert done.stderr.startswith("Error: No server is listening on ")


def _stop_and_lose(rookery: Installed, server: Serving) -> None:
    with attached(rookery, TASK) as terminal:
        terminal.wait_for("one ")
        terminal.press(CTRL_C)
        terminal.wait_for("Continue? [Y/n")
        os.kill(server.process.pid, signal.SIGTERM)
        terminal.wait_for("The server has ended.")
        assert terminal.exit_code() == 1


CROWD = 80


@pytest.mark.parametrize("flags", [(), ("--port", "0")], ids=["unix", "web"])
async def test_a_server_recovers_from_running_out_of_descriptors(
    rookery: Installed, flags: tuple[str, ...]
):
    with serving(rookery, *flags, *rookery.script(SCRIPT)) as server:
        pid = server.process.pid
        few = max(map(int, os.listdir(f"/proc/{pid}/fd"))) + 10
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (few, few))
        callers = [_call(server) for _ in range(CROWD)]
        await anyio.lowlevel.checkpoint()
        for caller in callers:
            caller.close()
        with anyio.fail_after(PATIENCE):
            async with _known(server) as host:
                assert (await host.query(AskAbout())).provider == "scripted"
        assert server.end(signal.SIGTERM) == 143


async def test_silent_connections_do_not_block_authenticated_clients(rookery: Installed):
    with serving(rookery, "--port", "0", *rookery.script(SCRIPT)) as server:
        strangers = [_call(server) for _ in range(MOST_CLIENTS + 20)]
        with anyio.fail_after(PATIENCE):
            async with _known(server) as host:
                assert (await host.query(AskAbout())).provider == "scripted"
        for stranger in strangers:
            stranger.close()


def _call(server: Serving) -> socket.socket:
    if "socket" in server.where:
        caller = socket.socket(socket.AF_UNIX)
        folder = os.open(server.socket.parent, os.O_PATH)
        caller.connect(f"/proc/self/fd/{folder}/{server.socket.name}")  # which is never too long
        os.close(folder)
        return caller
    return socket.create_connection(("127.0.0.1", int(server.where["url"].rpartition(":")[2])))


@asynccontextmanager
async def _known(server: Serving) -> AsyncIterator[Host]:
    if "socket" in server.where:
        async with remote_host(await unix_channel(server.socket)) as host:
            yield host
        return
    token = await anyio.Path(server.where["token_file"]).read_text()
    async with (
        connect(server.where["url"], additional_headers=bearer(token)) as connection,
        remote_host(WebChannel(connection)) as host,
    ):
        yield host


async def test_waiting_tasks_are_listed_and_closed_tasks_are_not(
    rookery: Installed,
):
    done = "- calls:\n  - {tool: attempt_completion, arguments: {result: Ready.}}\n"
    with serving(rookery, *rookery.script(done)) as server:
        async with remote_host(await unix_channel(server.socket)) as host:
            for task_id in (TASK, OTHER_TASK):
                await host.send(OpenTask(task_id=task_id, text=f"Do {task_id[:4]}"))
                with anyio.fail_after(PATIENCE):
                    async for event in host.follow(task_id):
                        if isinstance(event.fact, Asked):
                            break
            assert isinstance(event.fact, Asked)
            yes = Answer(
                task_id=OTHER_TASK,
                ask_id=event.fact.ask_id,
                reply="yes",
                digest=event.fact.digest,
            )
            await host.send(yes)
            with anyio.fail_after(PATIENCE):
                [event async for event in host.follow(OTHER_TASK)]
            open_tasks = ""
            with anyio.fail_after(PATIENCE):  # the host releases a task after its last event
                while open_tasks != f"{TASK[:8]}\tDo {TASK[:4]}\n":
                    open_tasks = (await anyio.to_thread.run_sync(rookery.run, "attach")).stdout


OTHER_TASK = "A1B2c44f-5b1d-4c53-9f0e-0c8f2b7a9d10"


async def test_slash_commands_work_in_an_attached_client(rookery: Installed):
    with serving(rookery, *rookery.script(SCRIPT)) as server:
        async with remote_host(await unix_channel(server.socket)) as host:
            await host.send(OpenTask(task_id=OTHER_TASK, text="Do it"))
            await anyio.to_thread.run_sync(_use_slash_lines, rookery)
            with anyio.fail_after(PATIENCE):
                async for event in host.follow(OTHER_TASK):
                    if isinstance(event.fact, ModeSwitched):
                        break


def _use_slash_lines(rookery: Installed) -> None:
    """The id, which another client has chosen, is given as it is written and as it is not."""
    with attached(rookery, OTHER_TASK) as terminal:
        terminal.wait_for("Approve?")
        terminal.type("/help")
        terminal.wait_for("/condense")
        terminal.type("/undo")
        terminal.wait_for("Nothing to undo")
        terminal.type("/mode nosuch")
        terminal.wait_for("No such mode: nosuch")
    with attached(rookery, OTHER_TASK[:8].lower()) as terminal:
        terminal.wait_for("Approve?")
        terminal.type("/mode ask")
        terminal.wait_for("Approve?")


def test_attaching_without_a_terminal_shows_the_open_question(rookery: Installed):
    with serving(rookery, *rookery.script(SCRIPT)) as server:

        async def begin() -> None:
            async with remote_host(await unix_channel(server.socket)) as host:
                await host.send(OpenTask(task_id=TASK, text="Do it"))

        anyio.run(begin)
        rookery.environ["PYTHONUNBUFFERED"] = "1"
        with rookery.piped("attach", TASK) as process:
            process.stdin.close()
            shown = iter(process.stdout.readline, b"")
            waits = next(line for line in shown if b"Waiting for an answer" in line)
            process.kill()
        assert waits.strip() == b"Waiting for an answer at a terminal: Create made.txt"


def test_attaching_to_a_foreign_socket_is_reported(rookery: Installed):
    path = rookery.workspace.parent / "s"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        hang_up = threading.Thread(target=lambda: other.accept()[0].close())
        hang_up.start()
        done = rookery.run("attach", "--socket", str(path))
        hang_up.join()
    assert done.returncode == 2
    assert done.stderr.startswith(f"Error: There is no rookery server at {path}: ")
    assert done.stderr.endswith("Start one: rookery serve\n")
