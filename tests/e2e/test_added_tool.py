"""A tool is one file: the examples of docs/architecture.md, added to a copy of the sources."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from llm_server import LlmServer, call, finish
from support.added_sources import examples, sources_with
from support.control_stream_client import Driver
from support.json_io_client import JsonIo
from support.model_words import DONE
from support.terminal_session import COMMAND, Installed, at
from support.tmux_session import TmuxSession

SHUFFLED, SORTED = "b\na\n", "a\nb\n"
SORT = call("sort_lines", path="names.txt")
SCRIPT = """
- calls: [{tool: sort_lines, arguments: {path: names.txt}}]
- calls: [{tool: attempt_completion, arguments: {result: Sorted.}}]
"""


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    files = ("tools/sort_lines.py", "tools/count_words.py")
    return sources_with("tool", tmp_path_factory.mktemp("sources"), *files)


@pytest.fixture
def rookery(tmp_path: Path, sources: Path) -> Installed:
    installed = Installed(tmp_path)
    installed.environ["PYTHONPATH"] = str(sources)
    (installed.workspace / "names.txt").write_text(SHUFFLED)
    return installed


def names(rookery: Installed) -> str:
    return (rookery.workspace / "names.txt").read_text()


def test_an_added_tool_is_offered_approved_shown_and_undone(rookery: Installed):
    with (
        LlmServer([SORT], [finish("Sorted.")]) as server,
        rookery.terminal(*at(server), "sort them") as terminal,
    ):
        shown = terminal.wait_for("Approve? [y/n/a, or say why not] ")
        assert "Edit names.txt" in shown
        assert names(rookery) == SHUFFLED
        terminal.type("y")
        terminal.wait_for("● Edit names.txt (+1 −1)")
        terminal.wait_for(DONE)
        assert names(rookery) == SORTED
        terminal.type("/undo")
        terminal.wait_for("Rewind the conversation and the files? [y/N] ")
        terminal.type("y")
        terminal.wait_for("Restored 1 file")
        terminal.wait_for("Continue? [Y/n, or say what to do instead] ")
    assert names(rookery) == SHUFFLED
    offered = {tool["name"]: tool for tool in server.requests[0].body["tools"]}
    assert offered["sort_lines"]["input_schema"]["required"] == ["path"]


def test_the_full_screen_shows_an_added_tool(rookery: Installed):
    command = [COMMAND, *rookery.script(SCRIPT), "sort them"]
    with TmuxSession(command, cwd=rookery.workspace, environ=rookery.environ) as terminal:
        terminal.wait_for("Edit names.txt?", "y yes   n no")
        terminal.press("y")
        terminal.wait_for("Edit names.txt", "+1 −1", "Sorted.")
        terminal.press("C-c", "C-c")
        assert terminal.exit_code() == 0
    assert names(rookery) == SORTED


def test_webviews_and_programs_get_the_rows_of_an_added_tool(rookery: Installed):
    with (
        LlmServer([SORT], [finish("Sorted.")]) as server,
        JsonIo(rookery, *at(server)) as webview,
    ):
        webview.send("newTask", text="sort them")
        row = webview.wait_row(ask="tool")
        reported = json.loads(row["text"])
        assert (reported["tool"], reported["path"]) == ("editedExistingFile", "names.txt")
        webview.send("askResponse", askResponse="yesButtonClicked", messageTs=row["ts"])
        webview.wait_row(ask="completion_result")
        assert webview.end() == 0
    assert names(rookery) == SORTED
    with (
        LlmServer([SORT], [finish("Sorted.")]) as server,
        Driver(rookery, *at(server)) as program,
    ):
        program.send("start", "s1", prompt="sort them")
        program.done("s1")
        assert program.end() == 0
    first, *_ = program.of(type="tool_use")
    assert first["tool_use"]["name"] == "appliedDiff"


def test_hooks_and_rules_match_an_added_tool(rookery: Installed):
    refuse = "echo not sorted here >&2; exit 2"
    hooks = [
        {"type": "command", "command": "exit 2", "if": "Edit(other.*)"},
        {"type": "command", "command": refuse, "if": "Edit(names.*)"},
    ]
    config = {"version": 1, "hooks": {"PreToolUse": [{"matcher": "sort_lines", "hooks": hooks}]}}
    file = rookery.home / "config" / "hooks.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(config))
    with LlmServer([SORT], [finish()]) as server:
        done = rookery.run("-p", "-y", *at(server), "sort them")
    assert done.returncode == 20, done.stderr
    assert "not sorted here" in json.dumps(server.requests[1].body["messages"][-1])
    assert names(rookery) == SHUFFLED


def test_the_test_of_an_added_tool_passes(tmp_path: Path, sources: Path):
    *_, test = examples("tool")
    (tmp_path / "test_count_words.py").write_text(test, encoding="utf-8")
    tests = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", tmp_path],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{sources}{os.pathsep}{tests}"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, "1 passed" in done.stdout) == (0, True), done.stdout + done.stderr
