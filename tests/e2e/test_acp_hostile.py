"""What broken, slow and hostile clients send to the real `rookery acp`."""

import json
import os
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from llm_server import LlmServer, call, finish, gate, say
from rookery.compat.acp.agent import NOT_FOUND
from rookery.compat.acp.questions import AUTH_REQUIRED
from rookery.protocol.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    REQUESTS_AT_ONCE,
)
from support.acp_lines import LineClient, Message, line_client
from support.model_words import received, shell, write
from support.terminal_session import Installed

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("unconfined")]
SHARED = {"fs": {"readTextFile": True, "writeTextFile": True}}
SELECTED = {"outcome": {"outcome": "selected", "optionId": "once"}}
PERMISSION = "session/request_permission"
LARGE = 64
"""Mebibytes, more than the agent itself needs."""


async def test_malformed_lines_are_answered_and_end_nothing(rookery: Installed):
    lines: list[tuple[bytes, int]] = [
        (b"{", PARSE_ERROR),
        (b"\xff\xfe{}", PARSE_ERROR),
        (b"[" * 100_000, PARSE_ERROR),
        (b'"%s"' % (b"x" * (65 * 2**20)), PARSE_ERROR),
        (b"[]", INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":true,"method":"initialize"}', INVALID_REQUEST),
        (b'{"jsonrpc":"1.0","id":"a","method":"initialize"}', INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":"b","method":"session/new","params":[1]}', INVALID_PARAMS),
        (b'{"jsonrpc":"2.0","id":"c","method":"session/new","params":{"cwd":7}}', INVALID_PARAMS),
        (b'{"jsonrpc":"2.0","id":"d","method":"no/such"}', METHOD_NOT_FOUND),
        (b'{"jsonrpc":"2.0","id":"e","method":"half of \\ud83d"}', METHOD_NOT_FOUND),
    ]
    with LlmServer() as server:
        async with line_client(rookery, server) as client:
            for line, code in lines:
                await client.send(line)
                answer = await client.next(lambda each: "error" in each)
                assert (line[:60], answer["error"]["code"]) == (line[:60], code)
            await client.notify("session/cancel", sessionId=5)
            await client.reply({"id": 99}, result={})
            await client.reply({"id": "x"}, error={"code": 1, "message": "no"})
            assert await client.new(rookery.workspace)


async def test_after_a_logout_sessions_need_a_sign_in(rookery: Installed):
    rookery.run("auth", "anthropic", "--file", input="sk-ant-stored\n")
    named = {"cwd": str(rookery.workspace), "mcpServers": []}
    with LlmServer([say("Hi.")]) as server:
        async with line_client(rookery, server) as client:
            assert (await client.call("logout"))["result"] == {}
            refused = (await client.call("session/new", **named))["error"]
            assert (refused["code"], "logged out" in refused["message"]) == (AUTH_REQUIRED, True)
            assert (await client.call("authenticate", methodId="key"))["result"] == {}
            assert await client.new(rookery.workspace)
    assert rookery.run("auth", "status", "anthropic").returncode == 1


async def test_unknown_sessions_and_folders(rookery: Installed):
    asked: list[tuple[str, dict[str, Any], int]] = [
        ("session/prompt", {"prompt": [{"type": "text", "text": "hi"}]}, NOT_FOUND),
        ("session/load", {"cwd": str(rookery.workspace)}, NOT_FOUND),
        ("session/resume", {"cwd": str(rookery.workspace)}, NOT_FOUND),
        ("session/fork", {"cwd": str(rookery.workspace)}, NOT_FOUND),
        ("session/close", {}, NOT_FOUND),
        ("session/delete", {}, NOT_FOUND),
        ("session/set_mode", {"modeId": "code"}, NOT_FOUND),
        ("session/set_config_option", {"configId": "mode", "value": "code"}, NOT_FOUND),
        ("session/new", {"cwd": "."}, INVALID_PARAMS),
        ("session/new", {"cwd": "/a\0b"}, INVALID_PARAMS),
        ("session/new", {"cwd": "/a" * 5000}, INVALID_PARAMS),
        ("session/new", {"cwd": ""}, INVALID_PARAMS),
        ("session/new", {"cwd": "/no/such"}, INVALID_PARAMS),
        ("session/new", {"cwd": "/", "additionalDirectories": ["x"]}, INVALID_PARAMS),
        ("session/new", {"cwd": "/\0"}, INVALID_PARAMS),
        ("session/list", {"cwd": "relative"}, INVALID_PARAMS),
    ]
    with LlmServer() as server:
        async with line_client(rookery, server) as client:
            for method, params, code in asked:
                answer = await client.call(method, sessionId="../../etc", **params)
                assert (method, params, answer.get("error", {}).get("code")) == (
                    method,
                    params,
                    code,
                )


@pytest.mark.parametrize("waits", [False, True])
async def test_two_prompts_at_once_are_one_turn(rookery: Installed, waits: bool):
    held = gate()
    with LlmServer([say("Working", held), write("a.txt")], [finish("Both.")]) as server:
        async with line_client(rookery, server) as client:
            session = await client.new(rookery.workspace)
            first = await client.prompt(session, "one")
            if waits:
                await client.next(lambda each: "Working" in json.dumps(each))
            second = await client.prompt(session, "two")
            await client.call("session/list")
            held.open()
            await client.reply(await client.asked(PERMISSION), result=SELECTED)
            ends = [await client.next(lambda each: "stopReason" in str(each)) for _ in range(2)]
            assert {each["id"] for each in ends} == {first, second}
        assert "two" in json.dumps(server.requests[1].body["messages"])


async def test_an_answer_is_read_however_many_prompts_are_open(rookery: Installed):
    with LlmServer([write("a.txt")], [finish("All.")]) as server:
        async with line_client(rookery, server) as client:
            session = await client.new(rookery.workspace)
            prompts = [await client.prompt(session, "begin")]
            asked = await client.asked(PERMISSION)
            prompts += [await client.prompt(session, "more") for _ in range(REQUESTS_AT_ONCE)]
            await client.reply(asked, result=SELECTED)
            for _ in prompts:
                assert "stopReason" in str(await client.next(lambda each: each.get("id")))


async def test_a_cancel_between_turns_changes_nothing(rookery: Installed):
    with LlmServer([say("One.")], [say("Two.")]) as server:
        async with line_client(rookery, server) as client:
            session = await client.new(rookery.workspace)
            for words in ("one", "two"):
                await client.notify("session/cancel", sessionId=session)
                answer = await client.answer_to(await client.prompt(session, words))
                assert answer["result"]["stopReason"] == "end_turn"
                await client.notify("session/cancel", sessionId=session)


async def test_a_cancel_right_behind_the_prompt_cancels_it(rookery: Installed):
    with LlmServer([say("One", gate())]) as server:
        async with line_client(rookery, server) as client:
            session = await client.new(rookery.workspace)
            number = await client.prompt(session, "one")
            await client.notify("session/cancel", sessionId=session)
            answer = await client.answer_to(number)
            assert answer["result"]["stopReason"] == "cancelled"


@pytest.mark.parametrize(
    "answer",
    [
        {"result": "once"},
        {"error": {"code": -32603, "message": "no window"}},
        {"error": "once"},
    ],
)
async def test_no_other_answer_approves(rookery: Installed, answer: dict[str, Any]):
    with LlmServer([write("a.txt")], [finish("Not written.")]) as server:
        async with line_client(rookery, server) as client:
            session = await client.new(rookery.workspace)
            number = await client.prompt(session, "write it")
            await client.reply(await client.asked(PERMISSION), **answer)
            assert (await client.answer_to(number))["result"]["stopReason"] == "end_turn"
    assert not (rookery.workspace / "a.txt").exists()


async def test_a_client_that_dies_over_a_question_approves_nothing(rookery: Installed):
    with LlmServer([write("a.txt")]) as server:
        async with line_client(rookery, server) as client:
            session = await client.new(rookery.workspace)
            await client.prompt(session, "write it")
            await client.asked(PERMISSION)
            client.agent.stop_reading()
    assert not (rookery.workspace / "a.txt").exists()
    assert session[:8] in rookery.run("list").stdout


async def editor_that_saves_nothing(client: LineClient, shown: str | None) -> Message:
    """Shares a text, approves everything, fails to save, and returns the end of the turn."""
    while True:
        message = await client.next(lambda each: "id" in each)
        match message.get("method"):
            case "fs/read_text_file" if shown is not None:
                await client.reply(message, result={"content": shown})
            case "fs/read_text_file" | "fs/write_text_file":
                await client.reply(message, error={"code": -32603, "message": "no such buffer"})
            case "session/request_permission":
                await client.reply(message, result=SELECTED)
            case _:
                return message


async def test_a_write_that_the_editor_refuses_still_reaches_the_disk(rookery: Installed):
    with LlmServer([write("a.txt", "new\n")], [finish("Written.")]) as server:
        async with line_client(rookery, server, **SHARED) as client:
            session = await client.new(rookery.workspace)
            number = await client.prompt(session, "write it")
            assert (await editor_that_saves_nothing(client, None))["id"] == number
    assert (rookery.workspace / "a.txt").read_text() == "new\n"


async def test_unsaved_text_that_cannot_be_saved_is_not_overwritten(rookery: Installed):
    file = rookery.workspace / "a.txt"
    file.write_text("on disk\n")
    edit = call("edit", file_path="a.txt", old_string="typed", new_string="changed")
    with LlmServer([call("read_file", path="a.txt")], [edit], [finish("No.")]) as server:
        async with line_client(rookery, server, **SHARED) as client:
            session = await client.new(rookery.workspace)
            number = await client.prompt(session, "change it")
            assert (await editor_that_saves_nothing(client, "typed\n"))["id"] == number
        assert "save" in received(server.requests[2])
    assert file.read_text() == "on disk\n"


@pytest.mark.parametrize(
    "answer",
    [{"error": {"code": -32603, "message": "no"}}, {"result": None}, {"result": {"terminalId": 7}}],
)
async def test_without_the_terminal_of_the_editor_output_is_text(
    rookery: Installed, answer: dict[str, Any]
):
    with LlmServer([shell("echo one")], [shell("echo two")], [finish("Done.")]) as server:
        async with line_client(rookery, server, "-y", terminal=True) as client:
            number = await client.prompt(await client.new(rookery.workspace), "run it")
            await client.reply(await client.asked("terminal/create"), **answer)
            end = await client.next(lambda each: "id" in each)
            assert (end["id"], "result" in end) == (number, True)  # not asked for a second one
    shown = json.dumps(client.updates)
    assert "one" in shown
    assert "two" in shown
    assert '"terminal"' not in shown


async def test_files_outside_the_folder_are_not_asked_of_the_editor_without_approval(
    rookery: Installed, tmp_path: Path
):
    secret = tmp_path / "outside.txt"
    secret.write_text("outside\n")
    with LlmServer([call("read_file", path=str(secret))], [finish("No.")]) as server:
        async with line_client(rookery, server, **SHARED) as client:
            session = await client.new(rookery.workspace)
            number = await client.prompt(session, "read it")
            first = await client.next(lambda each: "id" in each)
            if first.get("method") == PERMISSION:
                chosen = {"outcome": {"outcome": "selected", "optionId": "reject"}}
                await client.reply(first, result=chosen)
                first = await client.answer_to(number)
            assert first["id"] == number
        assert "outside\n" not in received(server.requests[1])


async def test_a_running_session_is_loaded_again_by_its_client_but_not_by_another(
    rookery: Installed,
):
    with LlmServer([say("Working", gate())], [say("Again.")]) as server:
        async with line_client(rookery, server) as client, line_client(rookery, server) as other:
            session = await client.new(rookery.workspace)
            number = await client.prompt(session, "one")
            await client.next(lambda each: "Working" in json.dumps(each))
            named = {"sessionId": session, "cwd": str(rookery.workspace), "mcpServers": []}
            refused = await other.call("session/load", **named)
            assert "error" in refused, refused
            load = await client.post("session/load", **named)
            ended = await client.answer_to(number)
            assert ended["result"]["stopReason"] == "cancelled"
            assert "error" not in await client.answer_to(load)
            answer = await client.answer_to(await client.prompt(session, "again"))
            assert answer["result"]["stopReason"] == "end_turn"


@pytest.mark.parametrize("command", ["/no/such/program", "relative", ""])
async def test_a_server_that_does_not_start_ends_no_session(rookery: Installed, command: str):
    broken = {"name": "broken", "command": command, "args": [], "env": []}
    with LlmServer([say("Fine.")]) as server:
        async with line_client(rookery, server) as client:
            cwd = str(rookery.workspace)
            answer = await client.call("session/new", cwd=cwd, mcpServers=[broken])
            session = answer["result"]["sessionId"]
            end = await client.answer_to(await client.prompt(session, "hi"))
            assert end["result"]["stopReason"] == "end_turn"


async def test_a_client_that_reads_late_gets_all_updates(rookery: Installed):
    pieces = [f"{number:06} {'x' * 500}\n" for number in range(10_000)]
    sent = gate()
    with LlmServer([say(*pieces, sent)]) as server:
        async with line_client(rookery, server) as client:
            session = await client.new(rookery.workspace)
            number = await client.prompt(session, "talk")
            await anyio.to_thread.run_sync(sent.wait_until_reached)
            sent.open()
            await client.answer_to(number)
    texts = [each["content"]["text"] for each in client.updates if "content" in each]
    assert "".join(texts) == "".join(pieces)


async def test_output_that_the_client_does_not_read_takes_no_memory(rookery: Installed):
    ended = gate()
    flood = shell(f"yes 0123456789 | head -c {LARGE * 2**20}")
    with LlmServer([flood], [say("Done.", ended)]) as server:
        async with line_client(rookery, server, "-y") as client:
            session = await client.new(rookery.workspace)
            before = memory(client.agent.process.pid)
            number = await client.prompt(session, "flood")
            await anyio.to_thread.run_sync(ended.wait_until_reached)
            grown = memory(client.agent.process.pid) - before
            ended.open()
            await client.answer_to(number)
    assert grown < LARGE / 2


def memory(pid: int) -> float:
    """Its resident memory in MiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
