"""Tools that a project or the user defines, over the real command."""

import json
from pathlib import Path
from typing import Any

import pytest

from llm_server import LlmServer, Recorded, call, finish
from support.terminal_session import Installed

PROGRAM = """\
import json, sys
said = json.load(sys.stdin)
print("sum:", sum(said["numbers"]), sorted(said))
sys.exit(said.get("code", 0))
"""
DEFINITION = """\
description = "Add numbers"
command = ["python3", "add.py"]
[parameters]
numbers = {type = "array", description = "What to add", required = true}
code = {type = "integer"}
note = {type = "string"}
"""


@pytest.fixture
def adding(tmp_path: Path) -> Installed:
    """An untrusted folder with a tool."""
    rookery = Installed(tmp_path, trusted=False)
    folder = rookery.workspace / ".roo" / "tools"
    folder.mkdir(parents=True)
    (folder / "add_numbers.toml").write_text(DEFINITION)
    (folder / "add.py").write_text(PROGRAM)
    return rookery


def print_run(
    rookery: Installed, *turns: list[Any], flags: tuple[str, ...] = ()
) -> tuple[str, list[Recorded]]:
    with LlmServer(*turns, [finish()]) as server:
        at = ["--provider", "anthropic", "-m", "claude-x", "--base-url", server.url]
        done = rookery.run("-p", *at, *flags, "add them")
    assert done.returncode == 0, done.stderr
    return done.stderr, server.requests


def offered(request: Recorded) -> dict[str, Any]:
    return {tool["name"]: tool for tool in request.body["tools"]}


def results(request: Recorded) -> list[dict[str, Any]]:
    blocks = [block for each in request.body["messages"] for block in each["content"]]
    return [block for block in blocks if block["type"] == "tool_result"]


def test_an_approved_tool_gets_its_arguments_and_returns_a_result(adding: Installed):
    assert adding.run("trust").returncode == 0
    added = [call("add_numbers", numbers=[1, 2], note="it's \\ $HOME `id`\n")]
    failed = [call("add_numbers", numbers=[5], code=3)]
    wrong = [call("add_numbers", numbers=[1], extra=1)]
    reported, requests = print_run(adding, added, failed, wrong)
    schema = offered(requests[0])["add_numbers"]["input_schema"]
    assert schema["required"] == ["numbers"]
    assert schema["properties"]["code"] == {"type": "integer"}
    assert len({json.dumps(request.body["tools"]) for request in requests}) == 1
    first, second, third = results(requests[-1])
    assert "sum: 3 ['note', 'numbers']" in str(first["content"])
    assert not first.get("is_error")
    assert "Exit code: 3" in str(second["content"])
    assert "sum: 5" in str(second["content"])
    assert second["is_error"]
    assert "Unknown argument: 'extra'" in str(third["content"])
    assert "not offered" not in reported


def test_a_changed_tool_is_not_offered_until_approved_again(adding: Installed):
    adding.run("trust")
    for file in ("add_numbers.toml", "add.py"):
        changed = adding.workspace / ".roo" / "tools" / file
        changed.write_text(changed.read_text() + "# changed\n")
        reported, requests = print_run(adding, [call("add_numbers", numbers=[1])])
        assert "add_numbers" not in offered(requests[0]), file
        assert "No such tool: 'add_numbers'" in str(results(requests[-1])[0]["content"])
        assert reported.count("The tool add_numbers is not offered") == 1
        again = adding.run("trust").stdout
        assert "Approved the tool .roo/tools/add_numbers.toml: python3 .roo/tools/add.py" in again
        _, requests = print_run(adding)
        assert "add_numbers" in offered(requests[0]), file
    changed.write_text(changed.read_text() + "# again\n")
    _, requests = print_run(adding, flags=("--trust",))
    assert "add_numbers" not in offered(requests[0])


def test_an_untrusted_folder_adds_no_tools(adding: Installed):
    _, requests = print_run(adding)
    assert "add_numbers" not in offered(requests[0])


def test_a_bad_tool_file_is_reported_and_the_others_load(adding: Installed):
    folder = adding.workspace / ".rookery" / "tools"
    folder.mkdir(parents=True)
    (folder / "read_file.toml").write_text(DEFINITION)
    (folder / "broken.toml").write_text("description = ")
    (folder / "unseen.toml").write_text(DEFINITION.replace("add.py", "add\u200b.py"))
    adding.run("trust")
    reported, requests = print_run(adding)
    assert "add_numbers" in offered(requests[0])
    assert offered(requests[0])["read_file"]["description"] != "Add numbers"
    assert "read_file is the name of a built-in tool" in reported
    assert "unseen" not in offered(requests[0])
    assert ".rookery/tools/unseen.toml is skipped" in reported
    assert ".rookery/tools/broken.toml is skipped: it is not valid TOML" in reported


def test_a_user_tool_needs_no_approval_and_follows_modes(rookery: Installed):
    folder = rookery.home / "config" / "tools"
    folder.mkdir(parents=True)
    (folder / "echo_back.toml").write_text('description = "Echo"\ncommand = ["cat", "-"]\n')
    _, requests = print_run(rookery, [call("echo_back")])
    assert "{}" in str(results(requests[-1])[0]["content"])
    _, requests = print_run(rookery, flags=("--mode", "ask"))
    assert "echo_back" not in offered(requests[0])
