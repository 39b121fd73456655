"""A project's server starts only as a person has seen it defined."""

import json
from pathlib import Path
from typing import Any

import pytest

from rookery.core.facts import Asked, Ending
from rookery.errors import ToolError
from rookery.mcp.agreements import AGREEMENTS_FILE, Agreements
from rookery.mcp.config import ServerDefinition, parse
from support.mcp_workspace import Bench, connect_all
from support.stage import finish

from .test_in_a_task import McpStage, greet

pytestmark = pytest.mark.anyio

LOCAL = {"command": "run", "args": ["a"], "cwd": "sub", "env": {"A": "1"}, "disabledTools": ["x"]}
REMOTE = {"type": "sse", "url": "https://a.test/mcp", "headers": {"X-A": "1"}}


def defined(said: dict[str, Any], source: Any = "project", **variables: str) -> ServerDefinition:
    text = json.dumps({"mcpServers": {"one": said}}).encode()
    [server] = parse(text, source, {"workspaceFolder": "/w", **variables}).servers
    return server


CHANGES = (
    ("command", LOCAL, {"command": "evil"}),
    ("args", LOCAL, {"args": ["a", "--evil"]}),
    ("cwd", LOCAL, {"cwd": "elsewhere"}),
    ("env", LOCAL, {"env": {"A": "1", "NODE_OPTIONS": "--require ./evil.js"}}),
    ("disabledTools", LOCAL, {"disabledTools": []}),
    ("alwaysAllow", LOCAL, {"alwaysAllow": ["*"]}),
    ("url", REMOTE, {"url": "https://evil.test/mcp"}),
    ("headers", REMOTE, {"headers": {"X-A": "2"}}),
    ("type", REMOTE, {"type": "streamable-http"}),
)


@pytest.mark.parametrize(("field", "before", "change"), CHANGES)
def test_any_definition_change_needs_a_new_agreement(
    field: str, before: dict[str, Any], change: dict[str, Any], tmp_path: Path
):
    agreements = Agreements(tmp_path / AGREEMENTS_FILE, tmp_path)
    first = defined(before)
    assert agreements.missing(first)
    agreements.agree(first)
    assert not agreements.missing(first)
    assert agreements.missing(defined(before | change)).endswith(f"you approved it: {field}.")
    assert agreements.missing(first) == ""


def test_a_changed_variable_value_needs_a_new_agreement(tmp_path: Path):
    said = {"command": "${env:HOME}/run"}
    agreements = Agreements(tmp_path / AGREEMENTS_FILE, tmp_path)
    agreements.agree(defined(said, HOME="/home/me"))
    assert not agreements.missing(defined(said, HOME="/home/me"))
    assert agreements.missing(defined(said, HOME="/tmp"))


def test_an_agreement_covers_one_folder_and_stores_no_secret(tmp_path: Path):
    file = tmp_path / AGREEMENTS_FILE
    server = defined({"command": "run", "args": ["--token=canary-1"]})
    Agreements(file, tmp_path / "a").agree(server)
    assert Agreements(file, tmp_path / "b").missing(server)
    assert "canary" not in file.read_text()


def test_user_servers_need_no_agreement(tmp_path: Path):
    assert not Agreements(tmp_path / AGREEMENTS_FILE, tmp_path).missing(defined(LOCAL, "user"))


def test_a_damaged_agreements_file_is_reported(tmp_path: Path):
    (tmp_path / AGREEMENTS_FILE).write_text("[")
    with pytest.raises(ToolError, match="it is damaged"):
        Agreements(tmp_path / AGREEMENTS_FILE, tmp_path).missing(defined(LOCAL))


def agree_and_change(bench: Bench) -> None:
    """Change the definition of a trusted project's server after it was approved."""
    file = bench.workspace / ".rookery" / "mcp.json"
    bench.configure(file, one=bench.misbehaving("well"))
    bench.hub()
    bench.configure(file, one=bench.misbehaving("well", env={"EVIL": "1"}))


async def test_a_changed_server_needs_approval_in_automatic_runs(bench: Bench, tmp_path: Path):
    agree_and_change(bench)
    stage = McpStage(tmp_path, [greet()], [greet()], [finish()], automatic=True)
    async with bench.hub(agreed=False) as stage.hub:
        await stage.play("no", "yes", "yes")
    first, *_ = [fact for fact in stage.facts if isinstance(fact, Asked)]
    assert "changed since you approved it: env." in " ".join(first.notes)
    assert "env: EVIL=1" in first.notes
    assert [each.ending for each in stage.finished[:2]] == [Ending.DENIED, Ending.DONE]
    (tmp_path / "again").mkdir()
    again = McpStage(tmp_path / "again", [greet()], [finish()], automatic=True)
    async with bench.hub(agreed=False) as again.hub:
        await again.play("yes")
    assert again.asks == ["completion_result"]


async def test_an_automatic_permit_does_not_start_a_changed_server(bench: Bench):
    agree_and_change(bench)
    async with bench.hub(agreed=False) as hub:
        with pytest.raises(ToolError, match=r"is not started\. This project's definition"):
            await hub.server("one").tools()
        await connect_all(hub)
    assert bench.pids == []


async def test_a_new_server_needs_approval_in_automatic_runs(bench: Bench, tmp_path: Path):
    bench.configure(bench.workspace / ".rookery" / "mcp.json", one=bench.misbehaving("well"))
    stage = McpStage(tmp_path, [greet()], [finish()], automatic=True)
    async with bench.hub(agreed=False) as stage.hub:
        await stage.play("no", "yes")
    assert stage.finished[0].ending is Ending.DENIED
    assert bench.pids == []
