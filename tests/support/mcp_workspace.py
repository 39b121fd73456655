"""A workspace with MCP servers, and calls of our two tools as the engine makes them."""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Any, cast

import anyio
import msgspec
import pytest
from msgspec.structs import replace

from rookery.core.asks import AskKind
from rookery.core.facts import Answered, Event, Fact, OutputStreamed
from rookery.core.limits import Limits
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.tool import ToolContext
from rookery.engine.ports.workspace import Files, Finder, Shell
from rookery.errors import ToolError
from rookery.mcp import server
from rookery.mcp.agreements import ConfigFiles, agree_to_project
from rookery.mcp.hub import McpHub, open_hub
from rookery.mcp.offered_tools import AccessMcpResource
from rookery.mcp.server import McpServer
from rookery.mcp.server_programs import CLOCK_LAG, ServerTimeouts
from rookery.mcp.server_requests import Answering
from rookery.mcp.server_sign_in import TokenKeeper
from rookery.mcp.use_mcp_tool import UseMcpTool
from rookery.storage.sessions import TaskArtifacts
from rookery.storage.token_store import TokenStore

MISBEHAVING = Path(__file__).with_name("misbehaving_mcp_server.py")
AMPLE = 60.0
"""Seconds for what must succeed, even on a busy machine."""
START_SECONDS = 1.5
LIST_SECONDS = 2.0
"""Seconds to wait for what never happens."""


class Bench:
    """`folder` has the workspace `work`, the configuration `mcp.json` and the logs of servers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workspace = folder / "work"
        self.workspace.mkdir(exist_ok=True)
        self.user_file = folder / "mcp.json"
        self.facts: list[Fact] = []
        self.on_output: Callable[[], object] = lambda: None
        """Called when a tool shows progress."""

    def misbehaving(self, way: str, **more: Any) -> dict[str, Any]:
        return {
            "command": sys.executable,
            "args": ["-S", "-E", str(MISBEHAVING), way, str(self.folder)],
            **more,
        }

    def script(self, *words: str, name: str = "server.py", **more: Any) -> dict[str, Any]:
        """Definition of a well-behaved server that is a script in the workspace."""
        argv, behave = ["", "well", str(self.folder)], str(MISBEHAVING)
        lines = [
            "import runpy, sys",
            f"sys.argv = {argv!r}",
            f"runpy.run_path({behave!r}, run_name='__main__')",
        ]
        file = self.workspace / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(lines), encoding="utf-8")
        args = ["-S", "-E", name, *words]
        return {"command": sys.executable, "args": args, "cwd": "${workspaceFolder}", **more}

    def configure(self, file: Path | None = None, **servers: Any) -> None:
        file = file or self.user_file
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")

    def hub(
        self,
        *,
        trusted: bool = True,
        agreed: bool = True,
        may_act: bool = True,
        environ: Mapping[str, str] | None = None,
        start: float = AMPLE,
        listing: float = AMPLE,
        tokens: TokenKeeper | None = None,
    ) -> AbstractAsyncContextManager[McpHub]:
        """`agreed`: the folder was trusted while its servers had their current definitions."""
        if trusted and agreed:
            agree_to_project(self.user_file, self.workspace, environ or os.environ)
        files = ConfigFiles(
            self.user_file,
            self.workspace,
            environ=os.environ if environ is None else environ,
            trusted=trusted,
        )
        return open_hub(
            files,
            self.folder / "cache" / "mcp.json",
            may_act=may_act,
            timeouts=ServerTimeouts(start=start, listing=listing),
            tokens=tokens or TokenStore(self.folder / "tokens.json"),
            answering=self.answering(),
        )

    @property
    def received(self) -> list[str]:
        """Lines that the misbehaving server received."""
        try:
            return (self.folder / "heard").read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []

    @property
    def methods(self) -> list[str]:
        messages = [json.loads(line) for line in self.received if line.startswith("{")]
        return [message["method"] for message in messages]

    @property
    def pids(self) -> list[int]:
        return [int(line.split()[1]) for line in self.received if line.startswith("started ")]

    async def prepare(self, hub: McpHub, **arguments: Any) -> Action:
        tool = UseMcpTool(hub)
        return await tool.prepare(msgspec.convert(arguments, tool.arguments), self.context())

    async def use(self, hub: McpHub, **arguments: Any) -> Outcome:
        """Call a tool, and return the result without the quotation marks around it."""
        action = await self.prepare(hub, **arguments)
        return unquoted(await action.perform(Permit(action.digest, by_hand=True)))

    async def access(self, hub: McpHub, **arguments: Any) -> Outcome:
        tool = AccessMcpResource(hub)
        action = await tool.prepare(msgspec.convert(arguments, tool.arguments), self.context())
        return unquoted(await action.perform(Permit(action.digest, by_hand=True)))

    async def ask(self, kind: AskKind, text: str, **more: Any) -> Answered:
        raise AssertionError("An MCP tool does not ask.")

    def answering(self) -> Answering:
        return Answering()

    def context(self) -> ToolContext:
        def append(fact: Fact) -> Event:
            self.facts.append(fact)
            if isinstance(fact, OutputStreamed):
                self.on_output()
            return cast(Event, None)

        return ToolContext(
            call_id="c1",
            files=cast(Files, None),
            finder=cast(Finder, None),
            shell=cast(Shell, None),
            artifacts=TaskArtifacts(self.folder / "task"),
            append=append,
            ask=self.ask,
            limits=Limits(),
            sees_images=True,
        )


def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restart failed servers five times as fast as usual, with the same number of tries."""
    for name in ("FIRST_WAIT", "MAX_RETRY_WAIT"):
        monkeypatch.setattr(server, name, getattr(server, name) / 5)


async def connect_all(hub: McpHub) -> None:
    """Connect all usable servers, and wait until each is connected or has failed."""

    async def connect(one: McpServer) -> None:
        with suppress(ToolError):
            await one.catalogue()

    servers = [hub.server(each.name) for each in hub.health()]
    async with anyio.create_task_group() as group:
        for each in servers:
            if not each.withheld:
                group.start_soon(connect, each)


def unquoted(outcome: Outcome) -> Outcome:
    begin, end = "<mcp_result>\n", "\n</mcp_result>"
    head, found, rest = outcome.text.partition(begin)
    if not found:
        return outcome
    assert rest.endswith(end)
    return replace(outcome, text=head + rest.removesuffix(end))


def age(root: Path) -> None:
    """Wait until new files get a later time than the existing ones."""
    latest = max(file.lstat().st_ctime_ns for file in root.rglob("*"))
    while time.time_ns() - 2 * CLOCK_LAG < latest:
        time.sleep(0.001)
