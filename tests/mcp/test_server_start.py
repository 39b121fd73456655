"""A workspace has no say in what a server of the user's runs."""

import json
import os
import shutil
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from llm_server import LlmServer, call, finish
from rookery.errors import ToolError
from support.mcp_workspace import MISBEHAVING, Bench
from support.terminal_session import Installed

pytestmark = pytest.mark.anyio
GREET = {"server": "one", "tool": "greet", "arguments": {"whom": "you"}}
PACKAGE = "@modelcontextprotocol/server-filesystem"


def module(bench: Bench) -> dict[str, str]:
    """A module `goodserver` elsewhere, as installed packages are, and the variable that says so."""
    library = bench.folder / "library"
    library.mkdir()
    argv = ["", "well", str(bench.folder)]
    text = f"import runpy, sys\nsys.argv = {argv!r}\n"
    text += f"runpy.run_path({str(MISBEHAVING)!r}, run_name='__main__')\n"
    (library / "goodserver.py").write_text(text)
    return {"PYTHONPATH": str(library)}


def shadow(bench: Bench, name: str = "json.py") -> Path:
    """Something in the workspace that says when it was run."""
    escaped = bench.folder / "escaped"
    (bench.workspace / name).write_text(f"open({str(escaped)!r}, 'w').close()\n")
    return escaped


@pytest.mark.parametrize("more", [{}, {"cwd": "${workspaceFolder}"}], ids=["no-cwd", "cwd"])
async def test_a_user_server_imports_nothing_from_the_workspace(bench: Bench, more: dict[str, Any]):
    server = {"command": sys.executable, "args": ["-m", "goodserver"], "env": module(bench)}
    bench.configure(one={**server, **more})
    escaped = shadow(bench)
    async with bench.hub(trusted=False, start=20) as hub:
        assert (await bench.use(hub, **GREET)).text == "Hello you"
    assert not escaped.exists()


def test_a_full_run_imports_nothing_from_the_workspace(tmp_path: Path):
    rookery = Installed(tmp_path, trusted=False)
    bench = Bench(tmp_path)
    bench.workspace = rookery.workspace
    server = {"command": sys.executable, "args": ["-m", "goodserver"], "env": module(bench)}
    bench.configure(rookery.home / "config" / "mcp.json", one=server)
    escaped = shadow(bench)
    with LlmServer([call("use_mcp_tool", **GREET)], [finish()]) as llm:
        flags = ["--provider", "anthropic", "-m", "claude-x", "--base-url", llm.url]
        done = rookery.run("-p", "-y", *flags, "greet them")
        assert done.returncode == 0, done.stderr
        assert "Hello you" in json.dumps(llm.requests[1].body["messages"])
    assert not escaped.exists()


@pytest.mark.parametrize("whose", ["user", "project"])
async def test_npx_uses_a_workspace_package_only_for_project_servers(bench: Bench, whose: str):
    if shutil.which("npx") is None:
        pytest.skip("npx is not installed")
    packages = bench.workspace / "node_modules"
    escaped = bench.folder / "escaped"
    program = packages / PACKAGE / "x.js"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/usr/bin/env node\nrequire('fs').writeFileSync({str(escaped)!r}, '')\n")
    program.chmod(0o755)
    about = {"name": PACKAGE, "version": "9.9.9", "bin": {"mcp-server-filesystem": "x.js"}}
    (program.parent / "package.json").write_text(json.dumps(about))
    (packages / ".bin").mkdir()
    (packages / ".bin" / "mcp-server-filesystem").symlink_to(program)
    ours = {"name": "ours", "version": "1.0.0", "dependencies": {PACKAGE: "9.9.9"}}
    (bench.workspace / "package.json").write_text(json.dumps(ours))
    environment = {"npm_config_offline": "true", "npm_config_cache": str(bench.folder / "cache")}
    server = {"command": "npx", "args": ["-y", PACKAGE], "env": environment}
    project = bench.workspace / ".rookery" / "mcp.json"
    bench.configure(project if whose == "project" else bench.user_file, one=server)
    async with bench.hub(start=30) as hub:
        with pytest.raises(ToolError, match="is not running"):
            await hub.server("one").tools()
    assert escaped.exists() is (whose == "project")


async def test_a_command_name_never_resolves_to_a_workspace_program(bench: Bench):
    for folder in ("bin", ".venv/bin"):
        (bench.workspace / folder).mkdir(parents=True)
        program = bench.workspace / folder / "my-server"
        program.write_text(f"#!/bin/sh\ntouch {bench.folder}/escaped\n")
        program.chmod(0o755)
    linked = bench.folder / "linked"
    linked.symlink_to(bench.workspace / "bin")
    outside = bench.folder / "outside"
    outside.mkdir()
    (outside / "my-server").symlink_to(bench.workspace / "bin" / "my-server")
    folders = [bench.workspace / "bin", bench.workspace / ".venv" / "bin", linked, outside]
    environ = {**os.environ, "PATH": os.pathsep.join(map(str, folders))}
    bench.configure(one={"command": "my-server"})
    async with bench.hub(environ=environ) as hub:
        with pytest.raises(ToolError, match="No such program: my-server"):
            await hub.server("one").tools()
    assert not (bench.folder / "escaped").exists()


async def test_the_server_path_has_no_workspace_folders(bench: Bench):
    (bench.workspace / "bin").mkdir()
    environ = {**os.environ, "PATH": f"{bench.workspace / 'bin'}:/usr/bin:."}
    bench.configure(one=bench.misbehaving("shows its environment"))
    async with bench.hub(environ=environ, start=20) as hub:
        given = json.loads((await bench.use(hub, **GREET)).text)
    assert given["PATH"] == "/usr/bin"


async def test_only_project_servers_start_in_the_workspace(bench: Bench):
    project = bench.workspace / ".rookery" / "mcp.json"
    definition = bench.script()
    del definition["cwd"]
    bench.configure(project, one=definition)
    async with bench.hub(start=20) as hub:
        assert (await bench.use(hub, **GREET)).text == "Hello you"
    bench.configure(project)
    bench.configure(one=definition)
    async with bench.hub(start=20) as hub:
        with pytest.raises(ToolError, match="is not running"):
            await bench.use(hub, **GREET)


async def test_the_start_folder_of_servers_must_be_empty(bench: Bench):
    bench.configure(one=bench.misbehaving("well"))
    empty = bench.folder / "mcp-empty"
    async with bench.hub(start=20) as hub:
        await bench.use(hub, **GREET)
        assert stat.S_IMODE(empty.stat().st_mode) == 0o500
    empty.chmod(0o700)
    (empty / "json.py").touch()
    async with bench.hub(start=20) as hub:
        with pytest.raises(ToolError, match=r"mcp-empty must be empty.*remove json\.py"):
            await bench.use(hub, **GREET)
