"""A server that may load changed code is started only after approval."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llm_server import LlmServer, call, finish
from rookery.core.asks import Decision, Ruling
from rookery.core.blocks import ToolCall
from rookery.mcp.hub import McpHub
from rookery.mcp.offered_tools import ServerGuard
from support.mcp_workspace import Bench, age
from support.terminal_session import Installed

pytestmark = pytest.mark.anyio
CALL = ToolCall(id="c1", name="use_mcp_tool")


async def ruling(bench: Bench, hub: McpHub) -> Ruling:
    action = await bench.prepare(hub, server="one")
    return await ServerGuard(hub).before(CALL, action)


def write(name: str) -> Callable[[Path], object]:
    def change(root: Path) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("changed")

    return change


def link(root: Path) -> None:
    (root / "lib" / "more").symlink_to("/")


FETCHED = {"command": "npx", "args": ["-y", "some-server"]}
RUN = {"command": sys.executable, "args": ["tools/server.py"]}
BY_SHELL = {"command": "sh", "args": ["-c", "cd tools && ./run.sh"]}
BY_MODULE = {"command": sys.executable, "args": ["-m", "tools.server"]}


@pytest.mark.parametrize(
    ("definition", "change", "file"),
    [
        (RUN, write("lib/helper.py"), "lib/helper.py"),
        (RUN, write("tools/__pycache__/x.pyc"), "tools/__pycache__/x.pyc"),
        (RUN, link, "lib/more"),
        (BY_SHELL, write("tools/run.sh"), "tools/run.sh"),
        (BY_MODULE, write("json.py"), "json.py"),
        ({"command": "npm", "args": ["run", "mcp"]}, write("package.json"), "package.json"),
        (FETCHED, write("node_modules/some-server/x.js"), "node_modules/some-server/x.js"),
        (FETCHED, write("package.json"), "package.json"),
        ({"command": "npx", "args": ["tsx", "tools/server.py"]}, write("a.ts"), "a.ts"),
    ],
)
async def test_changed_code_that_a_project_server_may_load_needs_approval(
    bench: Bench, definition: dict[str, Any], change: Callable[[Path], object], file: str
):
    write("tools/server.py")(bench.workspace)
    write("lib/old.py")(bench.workspace)
    age(bench.workspace)
    bench.configure(bench.workspace / ".rookery" / "mcp.json", one=definition)
    age(bench.workspace)
    async with bench.hub() as hub:
        before = await ruling(bench, hub)
        assert before.decision is Decision.NONE
        assert "this project's mcp.json" in before.notes[0]
        change(bench.workspace)
        after = await ruling(bench, hub)
    assert after.decision is Decision.ASK
    assert f"may load {file}, which changed" in after.reasons[0]


@pytest.mark.parametrize(
    ("source", "definition", "change"),
    [
        ("project", RUN, write("notes.md")),
        ("project", FETCHED, write("src/app.py")),
        ("project", {"type": "sse", "url": "https://x.test/"}, write("app.py")),
        ("user", FETCHED, write("node_modules/some-server/x.js")),
        ("user", {"command": "x", "args": ["${workspaceFolder}"]}, write("app.py")),
    ],
)
async def test_changes_to_files_that_cannot_be_loaded_need_no_approval(
    bench: Bench, source: str, definition: dict[str, Any], change: Callable[[Path], object]
):
    write("tools/server.py")(bench.workspace)
    project = bench.workspace / ".rookery" / "mcp.json"
    bench.configure(project if source == "project" else bench.user_file, one=definition)
    age(bench.workspace)
    async with bench.hub() as hub:
        change(bench.workspace)
        assert (await ruling(bench, hub)).decision is Decision.NONE


async def test_changed_code_near_a_user_named_workspace_script_needs_approval(bench: Bench):
    write("server.js")(bench.workspace)
    bench.configure(one={"command": "node", "args": ["${workspaceFolder}/server.js"]})
    age(bench.workspace)
    async with bench.hub() as hub:
        write("lib/helper.js")(bench.workspace)
        assert (await ruling(bench, hub)).decision is Decision.ASK


def test_an_automatic_run_does_not_start_a_server_it_changed(tmp_path: Path):
    rookery = Installed(tmp_path)
    bench = Bench(tmp_path)
    bench.workspace = rookery.workspace
    bench.configure(rookery.workspace / ".rookery" / "mcp.json", one=bench.script())
    escaped = tmp_path / "escaped"
    evil = f"open({str(escaped)!r}, 'w').close()\n"
    age(rookery.workspace)
    with LlmServer(
        [call("write_to_file", path="runpy.py", content=evil)],
        [call("use_mcp_tool", server="one")],
        [finish()],
    ) as llm:
        flags = ["--provider", "anthropic", "-m", "claude-x", "--base-url", llm.url]
        rookery.run("-p", "-y", *flags, "go")
    assert (rookery.workspace / "runpy.py").exists()
    assert not escaped.exists()
    assert bench.pids == []
