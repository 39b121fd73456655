"""Editors drive the real `rookery acp`: the official Python SDK, and the npm SDK in test_acp_npm.
What each fact becomes is in tests/compat/acp."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from llm_server import LlmServer, call, finish, say
from rookery.protocol.jsonrpc import METHOD_NOT_FOUND
from support.acp_editor import Editor, editing, refusal
from support.model_words import question, received, shell, system, write
from support.scripted_model import Model
from support.terminal_session import Installed

FILE_SERVER = str(Path(__file__).parents[1] / "support" / "mcp_file_server.py")

pytestmark = pytest.mark.anyio


def words(text: str) -> list[Any]:
    from acp import text_block

    return [text_block(text)]


@pytest.mark.usefixtures("unconfined")
async def test_a_conversation_with_an_approval_a_rejection_and_a_question(rookery: Installed):
    here = str(rookery.workspace)
    editor = Editor(lambda call: "once" if "made" in call.title else "reject")
    answers = (
        [say("I will."), shell("touch made")],
        [shell("touch other")],
        [question()],
        [finish("It is made.")],
    )
    with LlmServer(*answers) as server:
        async with editing(rookery, server, editor) as agent:
            session = (await agent.new_session(here, mcp_servers=[])).session_id
            first = await agent.prompt(session, words("make it"))
            assert first.stop_reason == "end_turn"
            assert editor.text == "I will.Which port?\n- 8080"
            assert (await agent.prompt(session, words("9090"))).stop_reason == "end_turn"
            with refusal() as refused:
                await agent.ext_method("nothing", {})
            assert refused.value.code == METHOD_NOT_FOUND
        assert "9090" in received(server.requests[3])
    assert (rookery.workspace / "made").exists()
    assert not (rookery.workspace / "other").exists()
    call, options = editor.asked[0]
    assert (call.title, call.kind, call.raw_input["command"]) == (
        "Run touch made",
        "execute",
        "touch made",
    )
    assert [each.kind for each in options] == ["allow_once", "allow_always", "reject_once"]
    assert "exactly this command" in options[1].name
    ends = {each.tool_call_id: each.status for each in editor.of("tool_call_update")}
    assert list(ends.values()) == ["completed", "failed"]
    assert editor.text.endswith("It is made.")


async def test_a_cancelled_turn_approves_nothing_and_the_session_goes_on(rookery: Installed):
    here = str(rookery.workspace)
    editor = Editor(lambda call: None)
    with LlmServer([write("a.txt")], [say("Still here.")]) as server:
        async with editing(rookery, server, editor) as agent:
            session = (await agent.new_session(here, mcp_servers=[])).session_id
            async with anyio.create_task_group() as group:
                stops: list[str] = []

                async def send() -> None:
                    stops.append((await agent.prompt(session, words("write it"))).stop_reason)

                group.start_soon(send)
                await editor.was_asked.wait()
                await agent.cancel(session)
                editor.released.set()  # too late
            assert stops == ["cancelled"]
            assert (await agent.prompt(session, words("and?"))).stop_reason == "end_turn"
    assert editor.text == "Still here."
    assert not (rookery.workspace / "a.txt").exists()


@pytest.mark.usefixtures("unconfined")
async def test_output_is_shown_while_a_command_runs_and_a_cancel_ends_it(rookery: Installed):
    editor = Editor()
    running = shell("echo first; echo second; echo $$ > pid; exec sleep 100")
    shows = {"terminal_output": True}
    with LlmServer([running]) as server:
        async with editing(rookery, server, editor, field_meta=shows) as agent:
            session = (await agent.new_session(str(rookery.workspace))).session_id
            async with anyio.create_task_group() as group:
                group.start_soon(agent.prompt, session, words("run it"))
                await editor.until(lambda: "first\nsecond" in editor.terminal)
                await agent.cancel(session)
    end = editor.of("tool_call_update")[-1]
    assert (end.status, "terminal_exit" in end.field_meta) == ("failed", True)
    process = int((rookery.workspace / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


@pytest.mark.usefixtures("unconfined")
async def test_a_terminal_of_the_editor_shows_a_command_that_stays_ours(rookery: Installed):
    editor = Editor()
    ends = shell("echo $PPID > parent; echo one; echo two >&2; exit 3")
    with LlmServer([ends], [shell("true")], [finish("Done.")]) as server:
        async with editing(rookery, server, editor, "-y", terminal=True) as agent:
            session = (await agent.new_session(str(rookery.workspace))).session_id
            await agent.prompt(session, words("run it"))
            for each in editor.terminals.values():
                await each.was_released.wait()
        assert "one\ntwo" in received(server.requests[1])
    told, silent = editor.terminals.values()
    assert (told.text, told.process.returncode) == ("one\ntwo\n", 3)
    assert (silent.process.returncode, "Exit code: 0" in silent.text) == (0, True)
    parent = int((rookery.workspace / "parent").read_text())
    assert parent not in (os.getpid(), told.process.pid)
    shown = [each.content for each in editor.of("tool_call_update") if each.content]
    assert {(*(part.type for part in each),) for each in shown} == {("terminal",)}


@pytest.mark.usefixtures("unconfined")
async def test_closing_the_terminal_stops_a_command_and_cancelling_ends_the_terminal(
    rookery: Installed,
):
    editor = Editor()
    running = shell("echo $$ > pid; echo working; exec sleep 100")
    with LlmServer([running], [say("I see.")], [running]) as server:
        async with editing(rookery, server, editor, "-y", terminal=True) as agent:
            session = (await agent.new_session(str(rookery.workspace))).session_id
            for number in (1, 2):
                async with anyio.create_task_group() as group:
                    group.start_soon(agent.prompt, session, words("run it"))
                    await editor.until(lambda count=number: len(editor.terminals) == count)
                    terminal = editor.terminals[f"terminal-{number}"]
                    await terminal.until("working")
                    if number == 1:
                        terminal.process.kill()
                    else:
                        await agent.cancel(session)
            assert await terminal.shown() == 130
        assert "Ended by the user" in received(server.requests[1])
    process = int((rookery.workspace / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


async def test_the_agent_ends_when_the_editor_leaves_a_question_open(rookery: Installed):
    editor = Editor(lambda call: None)
    with LlmServer([write("a.txt")]) as server:
        async with editing(rookery, server, editor) as agent:
            session = (await agent.new_session(str(rookery.workspace))).session_id
            async with anyio.create_task_group() as group:
                group.start_soon(agent.prompt, session, words("write it"))
                await editor.was_asked.wait()
                group.cancel_scope.cancel()
    assert not (rookery.workspace / "a.txt").exists()
    assert session[:8] in rookery.run("list").stdout


async def test_a_session_is_listed_and_loaded_by_another_process(rookery: Installed):
    here = str(rookery.workspace)
    first, second = Editor(), Editor()
    with LlmServer([write("a.txt", "hi\n")], [finish("Written.")], [say("Yes.")]) as server:
        async with editing(rookery, server, first) as agent:
            session = (await agent.new_session(here, mcp_servers=[])).session_id
            await agent.set_session_mode(session, "debug")
            await agent.set_config_option("permissions", session, "edits")
            await agent.prompt(session, words("write a.txt"))
        async with editing(rookery, server, second) as agent:
            (listed,) = (await agent.list_sessions(here)).sessions
            loaded = await agent.load_session(here, session, mcp_servers=[])
            await agent.prompt(session, words("done?"))
            assert (rookery.workspace / "a.txt").exists()
            undone = await agent.prompt(session, words("/undo"))
    assert first.asked == []
    assert (listed.session_id, listed.title, listed.cwd) == (session, "write a.txt", here)
    assert loaded.modes.current_mode_id == "debug"
    assert [each.content.text for each in second.of("user_message_chunk")] == ["write a.txt"]
    edit = second.of("tool_call_update")[-1]
    assert (edit.status, edit.content[0].new_text) == ("completed", "hi\n")
    assert second.text == "Written.Yes.Restored: a.txt.\n\n"
    assert undone.stop_reason == "end_turn"
    assert not (rookery.workspace / "a.txt").exists()


async def test_unsaved_text_of_the_editor_is_read_changed_and_can_be_restored(rookery: Installed):
    file = rookery.workspace / "a.txt"
    file.write_text("saved\n")
    editor = Editor()
    editor.buffers[str(file)] = "typed\nkept\n"
    edit = call("edit", file_path="a.txt", old_string="typed", new_string="changed")
    answers = ([call("read_file", path="a.txt")], [edit], [finish("Done.")])
    shares = {"read_text_file": True, "write_text_file": True}
    with LlmServer(*answers) as server:
        async with editing(rookery, server, editor, fs=shares) as agent:
            session = (await agent.new_session(str(rookery.workspace))).session_id
            await agent.prompt(session, words("change it"))
        assert "typed" in received(server.requests[1])
        assert "as you specified" in received(server.requests[2])
    assert editor.asked[0][0].content[0].old_text == "typed\nkept\n"
    assert editor.written == [str(file), str(file)]  # saved, then changed
    assert file.read_text() == "changed\nkept\n"
    assert rookery.run("rewind", session, "--last", "-y").returncode == 0
    assert file.read_text() == "typed\nkept\n"


async def test_a_folder_without_trust_asks_and_brings_nothing_along(fresh: Installed):
    rules = fresh.workspace / "AGENTS.md"
    rules.write_text("Always use tabs.\n")
    editor = Editor()
    with LlmServer([write("a.txt")], [finish("Written.")]) as server:
        async with editing(fresh, server, editor) as agent:
            session = (await agent.new_session(str(fresh.workspace))).session_id
            await agent.prompt(session, words("write it"))
        assert "tabs" not in system(server.requests[0])
    assert "not trusted" in editor.of("agent_thought_chunk")[0].content.text
    assert [each.kind for each, _ in editor.asked] == ["edit"]
    assert (fresh.workspace / "a.txt").exists()


async def test_two_sessions_with_their_own_folders_and_servers(rookery: Installed, tmp_path: Path):
    from acp.schema import McpServerStdio

    other, heard = tmp_path / "other", tmp_path / "heard.jsonl"
    other.mkdir()
    files = McpServerStdio(
        name="files", command=sys.executable, args=[FILE_SERVER, str(heard)], env=[]
    )
    editor = Editor()
    asks_server = call("use_mcp_tool", server="files", tool="write_file", arguments={"path": "x"})
    outside = write(str(other / "b.txt"))
    with Model() as server:
        server.plays("use the server", [asks_server], [finish("Used.")])
        server.plays("write there", [outside], [finish("Written.")])
        async with editing(rookery, server, editor) as agent:
            first = await agent.new_session(str(rookery.workspace), mcp_servers=[files])
            second = await agent.new_session(
                str(rookery.workspace), additional_directories=[str(other)], mcp_servers=[]
            )
            async with anyio.create_task_group() as group:
                group.start_soon(agent.prompt, first.session_id, words("use the server"))
                group.start_soon(agent.prompt, second.session_id, words("write there"))
    assert json.loads(heard.read_text()) == {"path": "x"}
    assert (other / "b.txt").read_text() == "hi\n"
    titles = sorted(each.title for each, _ in editor.asked)
    assert len(titles) == 2
    assert any("every call of 'write_file'" in option.name for _, o in editor.asked for option in o)


async def test_the_reasoning_effort_is_chosen_changed_and_kept(rookery: Installed):
    here, chosen = str(rookery.workspace), ["-m", "claude-opus-5"]
    with LlmServer([say("One.")], [say("Two.")], [say("Three.")]) as server:
        async with editing(rookery, server, Editor(), *chosen) as agent:
            session = (await agent.new_session(here)).session_id
            for effort in ("high", "low"):
                options = (await agent.set_config_option("effort", session, effort)).config_options
                assert (options[3].category, options[3].current_value) == ("thought_level", effort)
                await agent.prompt(session, words("think"))
            with refusal("has no value 'endless'"):
                await agent.set_config_option("effort", session, "endless")
        async with editing(rookery, server, Editor(), *chosen) as agent:
            loaded = await agent.load_session(here, session, mcp_servers=[])
            assert loaded.config_options[3].current_value == "low"
            await agent.prompt(session, words("think"))
        sent = [each.body["output_config"]["effort"] for each in server.requests]
    assert sent == ["high", "low", "low"]


async def test_a_plan_is_rejected_commented_and_carried_out(rookery: Installed):
    answers = iter(("reject", "edits"))
    editor = Editor(lambda call: next(answers))
    plans = [[call("present_plan", plan=f"1. Write {name}")] for name in ("b.txt", "a.txt")]
    with LlmServer(*plans, [write("a.txt")], [finish("Written.")]) as server:
        async with editing(rookery, server, editor) as agent:
            session = (await agent.new_session(str(rookery.workspace))).session_id
            await agent.set_config_option("permissions", session, "plan")
            await agent.prompt(session, words("plan it"))
            assert not editor.of("tool_call")
            await agent.prompt(session, words("rather a.txt"))
        assert "rather a.txt" in received(server.requests[1])
    assert [each.title for each, _ in editor.asked] == ["Carry out this plan?"] * 2
    assert (rookery.workspace / "a.txt").exists()
    level = editor.of("config_option_update")[-1].config_options[2]
    assert level.current_value == "edits"


async def test_messages_that_no_editor_should_send(rookery: Installed):
    with LlmServer() as server:
        async with editing(rookery, server, Editor()) as agent:
            with refusal("absolute paths"):
                await agent.new_session("here", mcp_servers=[])
            with refusal("No such folder"):
                await agent.new_session("/no/such/folder", mcp_servers=[])
            with refusal("No such session"):
                await agent.prompt("1-2", words("hi"))
            session = (await agent.new_session(str(rookery.workspace))).session_id
            with refusal("has no value 'wizard'"):
                await agent.set_session_mode(session, "wizard")
            with refusal("is empty"):
                await agent.prompt(session, words(" "))
