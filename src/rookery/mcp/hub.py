"""All MCP servers of one workspace.

Opening the hub starts nothing. A server is connected when it is first needed, several at the same
time, and all end with the hub. The description of the servers for the model is made once, from the
configuration and the cache, and never changes while the hub is open: it is part of every prompt,
and a change would invalidate the provider's cache.

`overview` describes all servers from the configuration and the cache, and starts none.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from rookery.errors import BadArguments
from rookery.mcp.agreements import AGREEMENTS_FILE, PINS_FILE, Agreements, ConfigFiles, Pins
from rookery.mcp.catalogue import (
    Catalogue,
    CatalogueCache,
    PromptCommand,
    all_names,
    arguments_for,
    find_command,
    find_tool,
    same_name,
)
from rookery.mcp.config import Parsed, ServerDefinition, ServerProblem
from rookery.mcp.results import visible_line
from rookery.mcp.server import McpServer, ServerHealth, ServerRecords, State
from rookery.mcp.server_programs import (
    EMPTY_FOLDER,
    ServerEnvironment,
    ServerTimeouts,
    now,
)
from rookery.mcp.server_requests import Answering
from rookery.mcp.server_sign_in import TokenKeeper

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

    @property
    def attended(self) -> bool:
        """Whether a user can answer questions."""
        return self._context.answering.attended

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
    files: ConfigFiles,
    memory_file: Path,
    *,
    tokens: TokenKeeper,
    may_act: bool = True,
    answering: Answering | None = None,
    timeouts: ServerTimeouts | None = None,
) -> AsyncIterator[McpHub]:
    """Open the servers of a workspace; leaving the context ends them all.

    Unless the task `may_act`, no server is started. `memory_file` is the cache of what servers
    offer, `tokens` stores sign-ins, and `answering` says how requests of servers are answered.
    """
    context = ServerEnvironment(
        workspace=files.workspace,
        empty=files.user_file.with_name(EMPTY_FOLDER),
        environ=files.environ,
        timeouts=timeouts or ServerTimeouts(),
        since=now(),
        tokens=tokens,
        answering=answering or Answering(),
    )
    records = ServerRecords(
        CatalogueCache(memory_file),
        Pins(files.user_file.with_name(PINS_FILE)),
        Agreements(files.user_file.with_name(AGREEMENTS_FILE), files.workspace),
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
    names = ", ".join(each.name for each in server.enabled(server.known))
    text = f"{server.definition.name}: {names}" if names else server.definition.name
    return visible_line(text, LONGEST_LINE)


def _describe(problem: ServerProblem) -> str:
    named = f"The MCP server {problem.server} is not used: " if problem.server else ""
    return visible_line(f"{named}{problem.text.rstrip('.')}.", LONGEST_LINE)


def overview(files: ConfigFiles, memory_file: Path) -> tuple[Parsed, tuple[ServerHealth, ...]]:
    """The configuration, and the last known state of each of its servers."""
    found = files.read()
    memory = CatalogueCache(memory_file)
    return found, tuple(_health(each, memory, trusted=files.trusted) for each in found.servers)


def _health(server: ServerDefinition, memory: CatalogueCache, *, trusted: bool) -> ServerHealth:
    last = memory.of(server)
    catalogue = last.catalogue if last else Catalogue()
    state = State.FAILED if last and last.error else State.IDLE
    if server.source == "project" and not trusted:
        state = State.UNTRUSTED
    if server.disabled:
        state = State.DISABLED
    return ServerHealth(
        name=server.name,
        source=server.source,
        state=state,
        error=last.error if last else "",
        tools=tuple(tool.name for tool in catalogue.tools),
        resources=len(catalogue.resources),
        since=last.ts if last else 0,
    )
