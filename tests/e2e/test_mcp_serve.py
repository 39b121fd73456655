"""The official MCP client drives the real `rookery mcp serve`. It is imported in functions, because
importing it takes a third of a second in each worker."""

import json
import signal
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from llm_server import LlmServer, finish, gate, say
from rookery.compat.mcp_server.mcp_server import MOST_RUNNING
from support.model_words import question, received, write
from support.terminal_session import COMMAND, Installed, at

if TYPE_CHECKING:
    from mcp.client import Client

pytestmark = pytest.mark.anyio


class User:
    """Answers forms with a decision; none cancels the form."""

    def __init__(self, decide: Callable[[str], str | None]) -> None:
        self._decide = decide
        self.forms: list[str] = []

    async def __call__(self, context: Any, params: Any) -> Any:
        from mcp.types import ElicitResult

        self.forms.append(params.message)
        word = self._decide(params.message)
        if word is None:
            return ElicitResult(action="cancel")
        return ElicitResult(action="accept", content={"decision": word})


@asynccontextmanager
async def calling(
    rookery: Installed, server: LlmServer, user: User | None = None, *flags: str
) -> "AsyncIterator[Client]":
    from mcp import StdioServerParameters
    from mcp.client import Client

    started = StdioServerParameters(
        command=COMMAND,
        args=["mcp", "serve", *at(server), *flags],
        env=rookery.environ,
        cwd=rookery.workspace,
    )
    async with Client(started, elicitation_callback=user) as client:
        yield client


async def use(client: "Client", tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    if result.is_error:
        return result.content[0].text
    return result.structured_content


async def test_the_user_decides_in_forms_and_a_session_goes_on(rookery: Installed):
    user = User(
        lambda form: "Allow once" if "a.txt" in form else "Reject" if "b.txt" in form else None
    )
    answers = (
        [write("a.txt")],
        [write("b.txt")],
        [write("c.txt")],
        [question()],
        [finish("Done with 9090.")],
    )
    lines: list[str | None] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        lines.append(message)

    with LlmServer(*answers) as server:
        async with calling(rookery, server, user) as client:
            tools = {each.name: each for each in (await client.list_tools()).tools}
            begun = await client.call_tool(
                "start_session", {"prompt": "write them"}, progress_callback=progress
            )
            first = begun.structured_content
            assert first
            assert first["status"] == "question"
            assert first["question"] == "Which port?\n- 8080"
            assert [each["tool_input"]["path"] for each in first["refused"]] == ["b.txt", "c.txt"]
            named = {"session_id": first["session_id"]}
            second = await use(client, "send_message", **named, message="9090")
            listed = await use(client, "list_sessions")
            shown = await use(client, "read_session", **named)
        assert "9090" in received(server.requests[4])
    # the user's -m holds, so no other model is offered
    assert [*tools["start_session"].input_schema["properties"]] == ["prompt", "folder", "mode"]
    assert (second["status"], second["answer"]) == ("completed", "Done with 9090.")
    assert [each["session_id"] for each in listed["sessions"]] == [first["session_id"]]
    assert (shown["status"], shown["answer"]) == ("completed", "Done with 9090.")
    assert [path.name for path in rookery.workspace.glob("*.txt")] == ["a.txt"]
    assert len(user.forms) == 3
    assert "+hi" in user.forms[0]
    assert any(line and "a.txt" in line for line in lines)
    assert [(each["path"], each["change"]) for each in shown["changes"]] == [("a.txt", "added")]
    assert "+hi" in first["changes"][0]["diff"]


async def test_without_forms_an_action_waits_and_wrong_calls_do_nothing(rookery: Installed):
    with LlmServer([write("a.txt")], [finish("I could not.")]) as server:
        async with calling(rookery, server) as client:
            waiting = await use(client, "start_session", prompt="write it")
            assert waiting["status"] == "waiting_for_approval"
            named = {"session_id": waiting["session_id"]}
            assert (await use(client, "read_session", **named))["approval"] == waiting["approval"]
            refused = await use(client, "send_message", **named, message="Leave it.")
            wrong = [
                await use(client, "start_session"),
                await use(client, "start_session", prompt=" "),
                await use(client, "start_session", prompt="x", model="other"),
                await use(client, "start_session", prompt="x", level="auto"),
                await use(client, "start_session", prompt="x", mode="nothing"),
                await use(client, "start_session", prompt="x", folder="/"),
                await use(client, "start_session", prompt="x", folder="missing"),
                await use(client, "start_session", prompt="x", folder="a\0b"),
                await use(client, "start_session", prompt="x", folder="a" * 5000),
                await use(client, "send_message", session_id="nothing", message="x"),
                await use(client, "nothing"),
            ]
        assert len(server.requests) == 2
        assert "Leave it." in received(server.requests[1])
    assert "a.txt" in waiting["approval"]
    assert "+hi" in waiting["approval"]
    assert f"rookery --resume {waiting['session_id']}" in waiting["note"]
    assert refused["status"] == "completed"
    assert refused["refused"][0]["tool_input"]["path"] == "a.txt"
    assert not (rookery.workspace / "a.txt").exists()
    here = rookery.workspace
    assert wrong == [
        "start_session: Object missing required field `prompt`. Nothing was done.",
        "start_session: prompt is empty. Nothing was done.",
        "start_session: the user set the model for this server. Leave it out.",
        "start_session: Object contains unknown field `level`. Nothing was done.",
        wrong[4],
        f"/ is outside {here}. Nothing was done.",
        f"No such folder: {here}/missing. Nothing was done.",
        "'a\\x00b' is not a folder. Nothing was done.",
        f"'{'a' * 60}' is not a folder. Nothing was done.",
        f"There is no session 'nothing' in {here}.",
        "There is no tool 'nothing'. The tools are start_session, send_message, read_session, "
        "list_sessions, cancel_session.",
    ]
    assert wrong[4].startswith("No such mode: 'nothing'. Available: ")


async def test_a_session_that_the_user_finished_in_a_terminal_is_read_anew(rookery: Installed):
    def approve(session_id: str) -> None:
        with rookery.terminal("--resume", session_id, *at(server)) as terminal:
            terminal.wait_for("Continue?")
            terminal.type("y")
            terminal.wait_for("Approve?")
            terminal.type("y")
            terminal.wait_for("Done. [")
            terminal.type("")
            assert terminal.exit_code() == 0

    with LlmServer([write("a.txt")], [finish("Written.")]) as server:
        async with calling(rookery, server) as client:
            waiting = await use(client, "start_session", prompt="write it")
            await anyio.to_thread.run_sync(approve, waiting["session_id"])
            read = await use(client, "read_session", session_id=waiting["session_id"])
    assert waiting["status"] == "waiting_for_approval"
    assert (read["status"], read["answer"], "approval" in read) == ("completed", "Written.", False)


async def test_a_level_of_the_user_allows_edits_and_an_untrusted_folder_stays_as_it_is(
    rookery: Installed,
):
    (rookery.workspace.parent / "other").mkdir()
    answers = ([write("a.txt")], [finish()], [write("b.txt")], [finish()])
    root = str(rookery.workspace.parent)
    flags = ("--permission-mode", "edits", "-w", root)
    with LlmServer(*answers) as server:
        async with calling(rookery, server, User(lambda form: "Allow once"), *flags) as client:
            await use(client, "start_session", prompt="write", folder="work")
            untrusted = await use(client, "start_session", prompt="write", folder="other")
    assert (rookery.workspace / "a.txt").exists()
    assert not (rookery.workspace.parent / "other" / "b.txt").exists()
    assert "not trusted" in untrusted["note"]


async def test_a_cancelled_call_stops_its_turn_and_the_session_is_continued(rookery: Installed):
    held = gate()
    with LlmServer([say("Let me see."), held, say("!")], [finish("Done.")]) as server:
        async with calling(rookery, server) as client:
            async with anyio.create_task_group() as group:
                group.start_soon(lambda: use(client, "start_session", prompt="look"))
                await anyio.to_thread.run_sync(server.wait_for_request)
                working = (await use(client, "list_sessions"))["sessions"][0]
                assert working["status"] == "working"
                group.cancel_scope.cancel()
            named = {"session_id": working["session_id"]}
            with anyio.fail_after(60):
                while (await use(client, "read_session", **named))["status"] == "working":
                    await anyio.lowlevel.checkpoint()
            held.open()
            again = await use(client, "send_message", **named, message="go on")
    assert (again["status"], again["answer"]) == ("completed", "Done.")


async def test_more_sessions_than_can_work_at_once_are_refused(rookery: Installed):
    held = gate()
    refused: list[str] = []
    with LlmServer(*([say("Let me see."), held] for _ in range(MOST_RUNNING))) as server:
        async with calling(rookery, server) as client, anyio.create_task_group() as group:

            async def start() -> None:
                if isinstance(said := await use(client, "start_session", prompt="look"), str):
                    refused.append(said)
                    group.cancel_scope.cancel()

            for _ in range(MOST_RUNNING + 1):
                group.start_soon(start)
        held.open()
    assert refused == [
        "16 sessions are working. Wait for one, or cancel it. Nothing was done.",
    ]


@pytest.mark.parametrize("end", ["close", "kill"])
def test_a_client_that_leaves_ends_the_server_and_the_session_can_be_resumed(
    rookery: Installed, end: str
):
    with LlmServer([say("Let me see."), gate(), say("!")], [finish("Done.")]) as server:
        process = subprocess.Popen(
            [COMMAND, "mcp", "serve", *at(server)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=rookery.workspace,
            env=rookery.environ,
        )
        assert process.stdin
        calls: list[tuple[str, dict[str, Any]]] = [
            ("initialize", {"protocolVersion": "2024-11-05", "capabilities": {}}),
            ("tools/call", {"name": "start_session", "arguments": {"prompt": "look"}}),
        ]
        for number, (method, params) in enumerate(calls):
            line = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            process.stdin.write(json.dumps(line).encode() + b"\n")
        process.stdin.flush()
        server.wait_for_request()
        if end == "kill":
            process.kill()
        out, _ = process.communicate(timeout=60)
        assert json.loads(out.splitlines()[0])["result"]["protocolVersion"] == "2024-11-05"
        assert process.returncode == (0 if end == "close" else -signal.SIGKILL)
        resumed = rookery.run("-p", "-c", "go on", *at(server))
    assert resumed.stdout.strip() == "Done."
