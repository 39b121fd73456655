"""What the user's MCP configuration promises, kept by the real command and over many calls."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from llm_server import LlmServer, Recorded, call, finish
from rookery.core.asks import AskKind
from rookery.core.facts import Answered, Asked, TaskOpened
from rookery.core.folds.task_record import advance
from rookery.core.folds.task_state import TaskState
from rookery.mcp.server import State
from support.mcp_workspace import MISBEHAVING, Bench, age, short_waits
from support.terminal_session import Installed, at

NOBODY = "Not interactive: this needs approval, so it was skipped."
GREET = {"server": "one", "tool": "greet", "arguments": {"whom": "you"}}

PROMPTING = """
import json, sys
open(sys.argv[1] + "/heard", "w").close()
RESULTS = {
    "initialize": lambda p: {
        "protocolVersion": p["protocolVersion"],
        "capabilities": {"prompts": {}},
        "serverInfo": {"name": "prompting", "version": "1"},
    },
    "prompts/list": lambda p: {"prompts": [{"name": "weather", "arguments": [{"name": "city"}]}]},
    "prompts/get": lambda p: {"messages": [{"role": "user", "content": {
        "type": "text", "text": "Is it raining in " + p["arguments"]["city"] + "?"}}]},
}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        known = RESULTS.get(asked["method"])
        said = {"result": known(asked.get("params", {}))} if known else {
            "error": {"code": -32601, "message": "no such method"}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}), flush=True)
"""


@pytest.fixture
def rookery(tmp_path: Path) -> Installed:
    return Installed(tmp_path)


def last_turn(request: Recorded) -> str:
    return json.dumps(request.body["messages"][-1], ensure_ascii=False)


def program(folder: Path, way: str, **more: Any) -> dict[str, Any]:
    return {
        "command": sys.executable,
        "args": ["-S", "-E", str(MISBEHAVING), way, str(folder)],
        **more,
    }


def prompting(folder: Path) -> dict[str, Any]:
    """A server that has a prompt."""
    script = folder / "prompting.py"
    script.write_text(PROMPTING)
    return {"command": sys.executable, "args": ["-S", "-E", str(script), str(folder)]}


def configure(file: Path, **servers: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")


def users_file(rookery: Installed) -> Path:
    return rookery.home / "config" / "mcp.json"


def was_started(folder: Path) -> bool:
    return (folder / "heard").exists()


def test_an_always_allowed_tool_runs_unasked_and_never_gets_the_provider_key(
    rookery: Installed, tmp_path: Path
):
    wanted = {"KEY": "${env:OPENAI_API_KEY}", "WORD": "${env:A_WORD}"}
    for allowed, name, arguments in (
        ([], "use_mcp_tool", GREET),
        (["greet"], "mcp--one--greet", {"whom": "you"}),
    ):
        one = program(tmp_path, "shows its environment", env=wanted, alwaysAllow=allowed)
        configure(users_file(rookery), one=one)
        with LlmServer([call(name, **arguments)], [finish()]) as server:
            keys = {"OPENAI_API_KEY": "key-of-the-user-0123456789", "A_WORD": "hello"}
            done = rookery.run("-p", "-a", *at(server), "greet them", **keys)
        assert done.returncode == (0 if allowed else 5), done.stderr
        shown = last_turn(server.requests[1])
        assert (NOBODY in shown) is not allowed
        assert ("hello" in shown) is bool(allowed)
    assert "${env:OPENAI_API_KEY}" in shown


def test_a_project_server_runs_only_in_a_trusted_folder_and_as_it_was_approved(tmp_path: Path):
    rookery = Installed(tmp_path, trusted=False)
    file = rookery.workspace / ".rookery" / "mcp.json"

    def run(flags: list[str], **env: str) -> str:
        configure(file, one=program(tmp_path, "well", env=env))
        age(rookery.workspace)
        with LlmServer([call("use_mcp_tool", **GREET)], [finish()]) as server:
            rookery.run("-p", *at(server), *flags, "go")
        return last_turn(server.requests[1])

    run(["-y"], A="1")
    assert not was_started(tmp_path)
    assert "Hello you" in run(["--trust"], A="1")
    (tmp_path / "heard").unlink()
    assert "changed since you approved it: env." in run(["--trust", "-y"], A="2")
    assert not was_started(tmp_path)


def test_a_server_prompt_replaces_the_typed_line(rookery: Installed, tmp_path: Path):
    configure(users_file(rookery), sky=prompting(tmp_path))
    with LlmServer([finish()]) as server:
        done = rookery.run("-p", *at(server), "/mcp:sky:weather Oslo")
    assert done.returncode == 0, done.stderr
    assert "Is it raining in Oslo?" in last_turn(server.requests[0])


@pytest.mark.anyio
async def test_failures_before_a_successful_call_do_not_delay_the_next_start(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    short_waits(monkeypatch)
    bench.configure(one=bench.misbehaving("well"))
    async with bench.hub(start=10) as hub:
        with anyio.fail_after(60):
            for _ in range(4):  # without a good call between them, the fourth would be too much
                assert (await bench.use(hub, **GREET)).text == "Hello you"
                os.kill(bench.pids[-1], signal.SIGKILL)
                while hub.health()[0].state is not State.FAILED:
                    await anyio.lowlevel.checkpoint()
            assert (await bench.use(hub, **GREET)).text == "Hello you"
    assert len(bench.pids) == 5


def test_a_server_prompt_needs_approval(rookery: Installed, tmp_path: Path):
    configure(users_file(rookery), sky=prompting(tmp_path))
    with (
        LlmServer([finish()]) as server,
        rookery.terminal(*at(server), "/mcp:sky:weather Oslo") as terminal,
    ):
        asked = terminal.wait_for("Approve?")
        assert "sends: /mcp:sky:weather Oslo" in asked
        terminal.type("n")
        terminal.wait_for("Done. [Enter accepts")
        terminal.type("")
        assert terminal.exit_code() == 0
    assert not was_started(tmp_path)


def test_a_picked_suggestion_is_not_run_as_a_user_command():
    question = json.dumps({"question": "Which?", "suggest": [{"answer": "/mcp:sky:weather all"}]})
    opened = advance(TaskState(), TaskOpened(text="do it", mode="code"))
    asked = advance(opened, Asked(ask_id="q", ask=AskKind.FOLLOWUP, text=question))
    picked, typed = "/mcp:sky:weather all", "/mcp:sky:weather Oslo"
    for words, unread in (picked, ()), (typed, (("", typed),)):
        answer = Answered(ask_id="q", ask=AskKind.FOLLOWUP, reply="message", text=words)
        assert advance(asked, answer).unread == unread
