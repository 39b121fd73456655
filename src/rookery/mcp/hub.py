"""All MCP servers of one workspace.

Nothing is started when the hub is opened. A server is connected when somebody first needs it,
all that are needed at once at the same time, and they end with the hub. What the model is told
of servers is made up once, from the configuration and from what is remembered of them, and stays
the same for the life of the hub, because it is part of every prompt.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from rookery.errors import BadArguments
from rookery.mcp.agreements import AGREEMENTS_FILE, PINS_FILE, Agreements, ConfigFiles, Pins
from rookery.mcp.catalogue import Catalogue, CatalogueMemory, ToolOffer, named
from rookery.mcp.config import EVERY_TOOL, ServerDefinition, ServerProblem
from rookery.mcp.results import visible_line
from rookery.mcp.server import McpServer, Progress, ServerHealth, State
from rookery.mcp.server_programs import (
    EMPTY_FOLDER,
    ServerEnvironment,
    ServerTimeouts,
    changed_code,
    now,
)
from rookery.mcp.tool_names import (
    PromptCommand,
    all_names,
    arguments_for,
    called,
    looked_up,
    same_name,
)

LONGEST_LINE = 600
"""Characters that the model is told of one server before it asks: about 150 tokens."""


class McpHub:
    """Made by `open_hub`."""

    def __init__(
        self,
        group: TaskGroup,
        files: ConfigFiles,
        memory: CatalogueMemory,
        pins: Pins,
        agreements: Agreements,
        surroundings: ServerEnvironment,
        *,
        may_act: bool,
    ) -> None:
        self._agreements = agreements
        self._memory = memory
        self._pins = pins
        self._group = group
        self._files = files
        self._surroundings = surroundings
        self._may_act = may_act
        self._servers: dict[str, McpServer] = {}
        self.problems: tuple[ServerProblem, ...] = ()
        self._doubts: tuple[str, ...] = ()
        self._told: set[str] = set()
        self._refresh()
        usable = [each for each in self._servers.values() if not each.withheld]
        self.offered = tuple(map(self._line, usable))
        """A line for each server that can be used, for the model; it never changes."""

    def health(self) -> list[ServerHealth]:
        """How every server is, without asking any."""
        self._refresh()
        return [server.health() for server in self._servers.values()]

    def errors(self, server: str) -> tuple[str, ...]:
        """Why it failed, every time it did, oldest first."""
        return tuple(self.server(server).errors)

    def server(self, name: str) -> McpServer:
        """The server that is meant. Raises `BadArguments` if there is none."""
        self._refresh()
        found = same_name(name, self._servers)
        if found is None:
            there = ", ".join(self._servers) or "none"
            raise BadArguments(
                f"No such MCP server: {visible_line(name, 100)!r}. Available: {there}."
            )
        return self._servers[found]

    def resolve(self, name: str) -> tuple[str, str] | None:
        """The server and the tool that `mcp--server--tool` stands for, as far as tools are known;
        of a tool that is not known yet the parts of the name."""
        if not name.startswith("mcp"):
            return None
        self._refresh()
        pairs = all_names(
            (server, tool.name)
            for server, each in self._servers.items()
            for tool in each.known.tools
        )
        return looked_up(name, pairs) or self._taken_apart(name)

    def _taken_apart(self, name: str) -> tuple[str, str] | None:
        for between in ("--", "__"):
            prefix, *parts = name.split(between, 2)
            if (
                prefix == "mcp"
                and len(parts) == 2
                and (found := same_name(parts[0], self._servers))
            ):
                return found, parts[1]
        return None

    def news(self) -> list[str]:
        """What the user should know of the configuration, each thing told once."""
        self._refresh()
        doubts = [visible_line(each, LONGEST_LINE) for each in self._doubts]
        wrong = [*map(_in_a_sentence, self.problems), *doubts]
        fresh = [each for each in dict.fromkeys(wrong) if each not in self._told]
        self._told.update(fresh)
        return [*self._files.news(), *fresh]

    async def tools(self, server: str) -> list[ToolOffer]:
        """The tools of a server that are not switched off. Connects; raises `ToolError`."""
        one = self.server(server)
        return _switched_on(await one.catalogue(), one.definition)

    async def current_tools(self, server: str) -> list[ToolOffer] | None:
        """The same of a server that is connected; nothing of one that would have to be started."""
        one = self.server(server)
        catalogue = await one.current()
        return None if catalogue is None else _switched_on(catalogue, one.definition)

    def known_tools(self, server: str) -> list[ToolOffer]:
        """The same as far as they are known without asking the server."""
        one = self.server(server)
        return _switched_on(one.known, one.definition)

    def is_off(self, server: str, tool: str) -> bool:
        return _is_off(tool, self.server(server).definition)

    def always_allowed(self, server: str, tool: str) -> bool:
        """Whether the user allowed the tool for good, and it still is what it was; what is first
        seen of a server is taken as it is."""
        one = self.server(server)
        if not one.definition.allows(tool) or _is_off(tool, one.definition):
            return False
        offer = named(one.known.tools).get(tool)
        if offer is None:
            return not self._pins.has_seen(one.definition)
        return not self._pins.changed(one.definition, offer)

    def has_changed(self, server: str, tool: ToolOffer) -> bool:
        """Whether the tool is not what it was when it was first seen or last allowed."""
        return self._pins.changed(self.server(server).definition, tool)

    def allow(self, server: str, tool: ToolOffer) -> None:
        """Somebody was asked about the tool as it is now, and allowed it."""
        self._pins.allow(self.server(server).definition, tool)

    def disagreement(self, server: str) -> str:
        """Why a person has to agree before the server is started; empty if nobody has to."""
        return self.server(server).disagreement

    def agree(self, server: str) -> None:
        """A person was asked about the server as it is defined now, and agreed."""
        self.server(server).agree()

    def is_connected(self, server: str) -> bool:
        return self.server(server).state is State.CONNECTED

    async def changed_code(self, server: str) -> str | None:
        """A file that has changed here since the hub was opened, and that the server might load
        when it is started."""
        one = self.server(server)
        return await anyio.to_thread.run_sync(
            changed_code, one.definition, one.files, self._surroundings
        )

    def may_start(self, server: str) -> bool:
        """Whether the user allowed everything of the server for good."""
        return self.server(server).definition.allows(EVERY_TOOL)

    async def prompts(self) -> list[PromptCommand]:
        """The prompts of all servers that are connected or remembered. Connects nobody."""
        self._refresh()
        usable = [each for each in self._servers.values() if not each.withheld]
        return [
            PromptCommand(each.definition.name, prompt)
            for each in usable
            for prompt in each.known.prompts
        ]

    async def prompt(self, server: str, name: str, arguments: Mapping[str, str]) -> str:
        """A prompt with its arguments filled in. Connects; raises `ToolError`."""
        from rookery.mcp.results import prompt_text

        return prompt_text(await self.server(server).prompt(name, arguments))

    async def prompt_of(self, line: str) -> str:
        """What `/mcp:server:prompt words` stands for. Connects; raises `ToolError`."""
        name, _, words = line.strip().partition(" ")
        command = called(name, await self.prompts())
        return await self.prompt(
            command.server, command.prompt.name, arguments_for(command.prompt, words)
        )

    async def call(
        self, server: str, tool: str, arguments: Mapping[str, Any], progress: Progress
    ) -> Any:
        return await self.server(server).call(tool, arguments, progress)

    async def connect_all(self) -> None:
        """Connect every server that may be, all at the same time, and wait for what becomes of
        each; `health` tells."""
        self._refresh()
        async with anyio.create_task_group() as group:
            for server in self._servers.values():
                if not server.withheld:
                    group.start_soon(server.settle)

    def retire(self) -> None:
        """End every server."""
        for server in self._servers.values():
            server.retire()

    def _refresh(self) -> None:
        """Heed the user's configuration file if it has changed. Servers that are configured as
        before are left alone."""
        if not self._files.changed():
            return
        found = self._files.read()
        self.problems, self._doubts = found.problems, found.doubts
        old, self._servers = self._servers, {}
        for definition in found.servers:
            known = old.get(definition.name)
            if known and known.definition == definition:
                self._servers[definition.name] = old.pop(definition.name)
            else:
                self._servers[definition.name] = self._made(definition)
        for gone in old.values():
            gone.retire()

    def _made(self, definition: ServerDefinition) -> McpServer:
        believed = self._may_act and self._files.believes(definition)
        withheld = None if believed else State.UNTRUSTED
        return McpServer(
            definition,
            self._surroundings,
            self._memory,
            self._pins,
            self._agreements,
            self._group,
            withheld,
        )

    def _line(self, server: McpServer) -> str:
        tools = _switched_on(server.known, server.definition)
        names = ", ".join(each.name for each in tools)
        said = f"{server.definition.name}: {names}" if names else server.definition.name
        return visible_line(said, LONGEST_LINE)


@asynccontextmanager
async def open_hub(
    *,
    workspace: Path,
    user_file: Path,
    memory_file: Path,
    environ: Mapping[str, str],
    trusted: bool,
    may_act: bool = True,
    patience: ServerTimeouts | None = None,
) -> AsyncIterator[McpHub]:
    """The servers of a workspace. Leaving the context ends them all.

    Files of the project count as they are now, and if the folder is `trusted`; where nothing
    `may_act`, no server is started at all. `environ` is what `${env:NAME}` may name, and must
    hold no key of ours.
    """
    files = ConfigFiles(user_file, workspace, environ=environ, trusted=trusted)
    surroundings = ServerEnvironment(
        workspace=workspace,
        empty=user_file.with_name(EMPTY_FOLDER),
        environ=environ,
        patience=patience or ServerTimeouts(),
        since=now(),
    )
    pins = Pins(user_file.with_name(PINS_FILE))
    failure: Exception | None = None
    async with anyio.create_task_group() as group:
        hub = McpHub(
            group,
            files,
            CatalogueMemory(memory_file),
            pins,
            Agreements(user_file.with_name(AGREEMENTS_FILE), workspace),
            surroundings,
            may_act=may_act,
        )
        try:
            yield hub
        except Exception as error:
            failure = error  # a task group would make a group of it
        finally:
            hub.retire()
            group.cancel_scope.cancel()
    if failure:
        raise failure


def _in_a_sentence(problem: ServerProblem) -> str:
    named = f"The MCP server {problem.server} is not used: " if problem.server else ""
    return visible_line(f"{named}{problem.text.rstrip('.')}.", LONGEST_LINE)


def _switched_on(catalogue: Catalogue, server: ServerDefinition) -> list[ToolOffer]:
    return [each for each in catalogue.tools if not _is_off(each.name, server)]


def _is_off(tool: str, server: ServerDefinition) -> bool:
    return same_name(tool, server.disabled_tools) is not None
