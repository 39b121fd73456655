"""A server runs outside the sandbox only what its files were when it was
believed."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rookery.core.facts import Noted
from rookery.errors import ToolError
from rookery.mcp.agreements import Pins
from rookery.mcp.config import ServerDefinition, Transport
from rookery.mcp.server_programs import ChangedFiles, NamedFiles, ServerEnvironment
from rookery.storage.token_store import TokenStore
from support.mcp_workspace import Bench, connect_all

pytestmark = pytest.mark.anyio
GREET = {"server": "one", "tool": "greet", "arguments": {"whom": "you"}}
NOT_STARTED = (
    r"The MCP server one is not started, because server\.py, which it runs outside the sandbox, "
    r"has changed\. To accept the change, the user runs: rookery mcp test one"
)


def rewrite(bench: Bench) -> None:
    file = bench.workspace / "server.py"
    file.write_text(f"open({str(bench.folder / 'escaped')!r}, 'w')\n", encoding="utf-8")


async def test_a_rewritten_script_is_not_started(bench: Bench):
    bench.configure(bench.workspace / ".rookery" / "mcp.json", one=bench.script())
    async with bench.hub(start=20) as hub:
        rewrite(bench)
        for _ in range(2):
            with pytest.raises(ToolError, match=NOT_STARTED):
                await bench.use(hub, **GREET)
        await connect_all(hub)
    assert not (bench.folder / "escaped").exists()
    reported = next(fact.text for fact in bench.facts if isinstance(fact, Noted))
    assert reported.startswith("The MCP server one is not started")


async def test_a_rewritten_script_is_not_started_by_a_later_run_until_it_is_accepted(bench: Bench):
    bench.configure(bench.workspace / ".rookery" / "mcp.json", one=bench.script())
    async with bench.hub(start=20) as hub:
        assert (await bench.use(hub, **GREET)).text == "Hello you"
        rewrite(bench)
        assert (await bench.use(hub, **GREET)).text == "Hello you", "it runs, and need not start"
    async with bench.hub(start=20) as hub:
        with pytest.raises(ToolError, match=NOT_STARTED):
            await bench.use(hub, **GREET)
        assert not (bench.folder / "escaped").exists()
        bench.script()
        with (bench.workspace / "server.py").open("a") as file:
            file.write("\n# and a word more\n")
        with pytest.raises(ToolError, match="is not started"):
            await bench.use(hub, **GREET)
        async with bench.hub() as elsewhere:
            elsewhere.server("one").files.accept()
        assert (await bench.use(hub, **GREET)).text == "Hello you"


async def test_the_same_definition_in_another_workspace_has_its_own_files(
    bench: Bench, tmp_path: Path
):
    bench.configure(one=bench.script())
    async with bench.hub(start=20) as hub:
        await bench.use(hub, **GREET)
    bench.workspace = tmp_path / "another"
    bench.configure(one=bench.script())
    with (bench.workspace / "server.py").open("a") as file:
        file.write("\n# another one\n")
    async with bench.hub(start=20) as hub:
        assert (await bench.use(hub, **GREET)).text == "Hello you"


def link_out(root: Path) -> None:
    (root / "server.py").unlink()
    (root / "server.py").symlink_to("/bin/true")


@pytest.mark.parametrize(
    ("definition", "change"),
    [
        ({"args": ("server.py",)}, lambda root: (root / "server.py").write_text("evil")),
        ({"args": ("./server.py",)}, lambda root: (root / "server.py").unlink()),
        ({"args": ("server.py",)}, link_out),
        ({"args": ("--import=./server.py",)}, lambda root: (root / "server.py").write_text("")),
        ({"args": ("made.js",)}, lambda root: (root / "made.js").write_text("evil")),
        ({"args": ("../server.py",), "cwd": "bin"}, lambda r: (r / "server.py").write_text("x")),
        ({"command": "bin/run"}, lambda root: (root / "bin/run").write_text("evil")),
        (
            {"command": "run", "env": (("PATH", "{}/bin"),)},
            lambda r: (r / "bin/run").write_text(""),
        ),
        ({"args": ("{}/server.py",)}, lambda root: (root / "server.py").write_text("evil")),
    ],
)
def test_every_way_to_name_a_file_is_checked(
    tmp_path: Path, definition: dict[str, Any], change: Callable[[Path], object]
):
    files, root = prepared(tmp_path, definition)
    files.check()
    change(root)
    with pytest.raises(ChangedFiles):
        files.check()


@pytest.mark.parametrize(
    "definition",
    [
        {"args": ("--db-path", "notes.db")},
        {"args": ("notes",), "command": "node"},
        {"url": "https://x.test/notes.py", "transport": Transport.HTTP, "command": ""},
        {"args": ("https://x.test/notes.py",)},
    ],
)
def test_files_that_are_not_workspace_code_may_change(tmp_path: Path, definition: dict[str, Any]):
    files, root = prepared(tmp_path, definition)
    files.check()
    for name in ("notes.db", "notes.py", "server.py"):
        (root / name).write_text("changed")
    files.check()


def test_a_huge_file_is_checked_by_its_times(tmp_path: Path):
    files, root = prepared(tmp_path, {"args": ("huge.bin",)})
    with (root / "huge.bin").open("wb") as file:
        file.truncate(1 << 40)
    files.look()
    files.check()
    (root / "huge.bin").touch()
    with pytest.raises(ChangedFiles):
        files.check()


def prepared(tmp_path: Path, definition: dict[str, Any]) -> tuple[NamedFiles, Path]:
    root = tmp_path / "work"
    (root / "bin").mkdir(parents=True)
    (root / "server.py").write_text("good")
    (root / "notes.db").write_text("data")
    (root / "bin" / "run").write_text("good")
    filled = {
        "command": sys.executable,
        **definition,
        "args": tuple(word.format(root) for word in definition.get("args", ())),
        "env": tuple((name, text.format(root)) for name, text in definition.get("env", ())),
    }
    server = ServerDefinition(name="one", source="project", **filled)
    context = ServerEnvironment(
        workspace=root,
        empty=tmp_path / "empty",
        environ=os.environ,
        tokens=TokenStore(tmp_path / "tokens.json"),
    )
    files = NamedFiles(server, Pins(tmp_path / "pins.json"), context)
    files.look()
    return files, root
