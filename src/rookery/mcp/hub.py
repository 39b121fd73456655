"""All MCP servers of one workspace.

Opening the hub starts nothing. A server is connected when it is first needed, several at the same
time, and all end with the hub. The description of the servers for the model is made once, from the
configuration and the cache, and never changes while the hub is open: it is part of every prompt,
and a change would invalidate the provider's cache.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from rookery.errors import BadArguments
from rookery.mcp.agreements import AGREEMENTS_FILE, PINS_FILE, Agreements, ConfigFiles, Pins
from rookery.mcp.catalogue import (
    Catalogue,
    CatalogueCache,
    PromptCommand,
    ToolOffer,
    all_names,
    arguments_for,
    find_command,
    find_tool,
    named,
    same_name,
)
from rookery.mcp.config import ServerDefinition, ServerProblem
from rookery.mcp.results import visible_line
from rookery.mcp.server import McpServer, ServerHealth, ServerRecords, State
from rookery.mcp.server_programs import (
    EMPTY_FOLDER,
    ServerEnvironment,
    ServerTimeouts,
    changed_code,
    now,
)
from rookery.mcp.server_requests import Answering
from rookery.mcp.server_sign_in import NoTokens, TokenKeeper

LONGEST_LINE = 600
"""Characters of a server's line in the prompt: about 150 tokens."""


class McpHub:
    """Created by `open_hub`."""

    def __init__(
        self,
        group: TaskGroup,
        files: ConfigFiles,
        records: ServerRecords,
        context: ServerEnvironment,
        *,
        may_act: bool,
    ) -> None:
        self._records = records
        self._group = group
        self._files = files
        self._context = context
        self._may_act = may_act
        self._servers: dict[str, McpServer] = {}
        self.problems: tuple[ServerProblem, ...] = ()
        self._doubts: tuple[str, ...] = ()
        self._reported: set[str] = set()
        self._refresh()
        self.offered = tuple(map(_line, self._usable))
        """A line for the model about each usable server; it never changes."""

    def health(self) -> list[ServerHealth]:
        """The state of every server, without asking it."""
        self._refresh()
        return [server.health() for server in self._servers.values()]

    def server(self, name: str) -> McpServer:
        """The server with this name or a similar one. Raises `BadArguments` if there is none."""
        self._refresh()
        found = same_name(name, self._servers)
        if found is None:
            there = ", ".join(self._servers) or "none"
            raise BadArguments(
                f"No such MCP server: {visible_line(name, 100)!r}. Available: {there}."
            )
        return self._servers[found]

    def resolve(self, name: str) -> tuple[str, str] | None:
        """The server and the tool that `mcp--server--tool` refers to. If the tool is not known
        yet, they are taken from the name."""
        if not name.startswith("mcp"):
            return None
        self._refresh()
        pairs = all_names(
            (server, tool.name)
            for server, each in self._servers.items()
            for tool in each.known.tools
        )
        return find_tool(name, pairs) or self._split_name(name)

    def _split_name(self, name: str) -> tuple[str, str] | None:
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
        """Problems of the configuration to show to the user; each is returned once."""
        self._refresh()
        doubts = [visible_line(each, LONGEST_LINE) for each in self._doubts]
        wrong = [*map(_describe, self.problems), *doubts]
        fresh = [each for each in dict.fromkeys(wrong) if each not in self._reported]
        self._reported.update(fresh)
        return [*self._files.news(), *fresh]

    async def tools(self, server: str) -> list[ToolOffer]:
        """The enabled tools of a server. Connects; raises `ToolError`."""
        one = self.server(server)
        return _enabled(await one.catalogue(), one.definition)

    async def current_tools(self, server: str) -> list[ToolOffer] | None:
        """The enabled tools of a server; None if it is not connected."""
        one = self.server(server)
        catalogue = await one.current()
        return None if catalogue is None else _enabled(catalogue, one.definition)

    def known_tools(self, server: str) -> list[ToolOffer]:
        """The enabled tools of a server, from the cache."""
        one = self.server(server)
        return _enabled(one.known, one.definition)

    def always_allowed(self, server: str, tool: str) -> bool:
        """Whether the user's file allows the tool, and it has not changed since it was first
        seen."""
        one = self.server(server)
        if not one.definition.allows(tool) or is_off(tool, one.definition):
            return False
        offer = named(one.known.tools).get(tool)
        if offer is None:
            return not self._records.pins.has_seen(one.definition)
        return not self._records.pins.changed(one.definition, offer)

    def has_changed(self, server: str, tool: ToolOffer) -> bool:
        """Whether the tool differs from when it was first seen or last approved."""
        return self._records.pins.changed(self.server(server).definition, tool)

    def allow(self, server: str, tool: ToolOffer) -> None:
        """Record the tool's current description as approved by the user."""
        self._records.pins.allow(self.server(server).definition, tool)

    def is_connected(self, server: str) -> bool:
        return self.server(server).state is State.CONNECTED

    @property
    def attended(self) -> bool:
        """Whether a user can answer questions."""
        return self._context.answering.attended

    async def changed_code(self, server: str) -> str | None:
        """A file that has changed since the hub was opened, and that the server might load when
        it starts."""
        one = self.server(server)
        return await anyio.to_thread.run_sync(
            changed_code, one.definition, one.files, self._context
        )

    async def prompts(self) -> list[PromptCommand]:
        """Prompts of all servers that are connected or cached. Connects to none."""
        self._refresh()
        return [
            PromptCommand(each.definition.name, prompt)
            for each in self._usable
            for prompt in each.known.prompts
        ]

    async def prompt_of(self, line: str) -> str:
        """The prompt that `/mcp:server:prompt words` refers to. Connects; raises `ToolError`."""
        from rookery.mcp.results import prompt_text

        name, _, words = line.strip().partition(" ")
        command = find_command(name, await self.prompts())
        arguments = arguments_for(command.prompt, words)
        return prompt_text(await self.server(command.server).prompt(command.prompt.name, arguments))

    def retire(self) -> None:
        """End every server."""
        for server in self._servers.values():
            server.retire()

    def _refresh(self) -> None:
        """Read the user's file again if it has changed. Servers with the same definition keep
        running."""
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
                self._servers[definition.name] = self._make(definition)
        for gone in old.values():
            gone.retire()

    def _make(self, definition: ServerDefinition) -> McpServer:
        is_trusted = self._may_act and self._files.trusts(definition)
        withheld = None if is_trusted else State.UNTRUSTED
        return McpServer(definition, self._context, self._records, self._group, withheld)

    @property
    def _usable(self) -> list[McpServer]:
        return [each for each in self._servers.values() if not each.withheld]


@asynccontextmanager
async def open_hub(
    *,
    workspace: Path,
    user_file: Path,
    memory_file: Path,
    environ: Mapping[str, str],
    trusted: bool,
    may_act: bool = True,
    other_agents: bool = True,
    given: bytes = b"",
    tokens: TokenKeeper | None = None,
    answering: Answering | None = None,
    timeouts: ServerTimeouts | None = None,
) -> AsyncIterator[McpHub]:
    """Open the servers of a workspace; leaving the context ends them all.

    Project files are read now, and used only if the folder is `trusted`. Unless the task `may_act`,
    no server is started. `environ` is what `${env:NAME}` can refer to, and must not contain our API
    keys. `given` defines more servers of the user, as a file does. `tokens` stores sign-ins,
    and `answering` says how requests of servers are answered.
    """
    files = ConfigFiles(
        user_file,
        workspace,
        environ=environ,
        trusted=trusted,
        other_agents=other_agents,
        given=given,
    )
    context = ServerEnvironment(
        workspace=workspace,
        empty=user_file.with_name(EMPTY_FOLDER),
        environ=environ,
        timeouts=timeouts or ServerTimeouts(),
        since=now(),
        tokens=tokens or NoTokens(),
        answering=answering or Answering(),
    )
    records = ServerRecords(
        CatalogueCache(memory_file),
        Pins(user_file.with_name(PINS_FILE)),
        Agreements(user_file.with_name(AGREEMENTS_FILE), workspace),
    )
    failure: Exception | None = None
    async with anyio.create_task_group() as group:
        hub = McpHub(group, files, records, context, may_act=may_act)
        try:
            yield hub
        except Exception as error:
            failure = error  # a task group would wrap it in an exception group
        finally:
            hub.retire()
            group.cancel_scope.cancel()
    if failure:
        raise failure


def _line(server: McpServer) -> str:
    names = ", ".join(each.name for each in _enabled(server.known, server.definition))
    text = f"{server.definition.name}: {names}" if names else server.definition.name
    return visible_line(text, LONGEST_LINE)


def _describe(problem: ServerProblem) -> str:
    named = f"The MCP server {problem.server} is not used: " if problem.server else ""
    return visible_line(f"{named}{problem.text.rstrip('.')}.", LONGEST_LINE)


def _enabled(catalogue: Catalogue, server: ServerDefinition) -> list[ToolOffer]:
    return [each for each in catalogue.tools if not is_off(each.name, server)]


def is_off(tool: str, server: ServerDefinition) -> bool:
    return same_name(tool, server.disabled_tools) is not None
