"""Tools that need more than a workspace: MCP servers, the code index, and custom tools. Part of
the composition root. Nothing is imported, started or read before it is needed."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, closing
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from rookery import PROJECT_FOLDER
from rookery.app.model_choice import ModelChoice
from rookery.core.blocks import ToolCall
from rookery.core.limits import Limits
from rookery.core.settings import Settings
from rookery.engine.ports.actions import Action, Permit
from rookery.engine.ports.hooks import Hook
from rookery.engine.ports.model import Provider
from rookery.engine.ports.tool import Tool
from rookery.engine.ports.workspace import Buffers
from rookery.errors import ToolError
from rookery.platform.user_folders import Places
from rookery.providers.registry import KEY_VARIABLES, PRIVATE_VARIABLES, SEARCHING, OpenProvider
from rookery.storage.keys import find_key
from rookery.tools.search import CodebaseSearch, ListCodeDefinitionNames
from rookery.workspace.files import WorkspaceFiles

if TYPE_CHECKING:
    from rookery.browser.browser_action import BrowserAction, KnownOrigins
    from rookery.browser.browser_session import BrowserSession, StartSoon
    from rookery.code_index.code_index import CodeIndex
    from rookery.code_index.syntax import Outliner, SyntaxReader
    from rookery.core.hosts import HostPort
    from rookery.core.indexed_code import CodeHits, Definition, Outline
    from rookery.mcp.agreements import ConfigFiles
    from rookery.providers.embeddings import EndpointEmbedder
    from rookery.web.web_tools import WebFetch
    from rookery.workspace.source_files import WorkspaceSources


def _unchanged(call: ToolCall) -> ToolCall:
    return call


def _no_notices() -> Sequence[str]:
    return ()


def _no_server(line: str) -> Action:
    raise ToolError("No MCP server is configured, so there are no prompts.")


class GivenByClient(Struct, frozen=True, kw_only=True):
    """What an editor, a program or a plug-in adds to a host."""

    servers: bytes = b""
    """Definitions of MCP servers, as in a file."""
    buffers: Buffers | None = None
    hooks: Sequence[Hook] = ()
    providers: Mapping[str, Callable[[str], OpenProvider]] = field(default_factory=dict)
    """By name, what opens a provider for a model."""
    problems: Sequence[str] = ()
    """What could not be added."""


class ExtraTools(Struct, frozen=True, kw_only=True):
    tools: dict[str, Tool[Any]]
    hooks: Sequence[Hook] = ()
    resolve_alias: Callable[[ToolCall], ToolCall] = _unchanged
    """Resolves a call of an unknown tool name to the call it stands for."""
    outline: Callable[[str, str], Awaitable["Sequence[Definition]"]]
    server_prompt: Callable[[str], Action] = _no_server
    """Makes the action that gets the MCP prompt named by a line of the user."""
    web: "WebFetch | None" = None
    news: Callable[[], Sequence[str]] = _no_notices
    """Notices about the configuration for the user; each is shown once."""


@asynccontextmanager
async def open_extra_tools(
    settings: Settings,
    model: ModelChoice,
    workspace: Path,
    places: Places,
    files: WorkspaceFiles,
    limits: Limits,
    *,
    trusted: bool,
    may_act: bool,
    attended: bool,
    servers: bytes = b"",
    provider: Callable[[], Provider] | None = None,
) -> AsyncIterator[ExtraTools]:
    """Open the extra tools. `attended` tells whether a user can answer questions; `servers` are
    definitions of MCP servers from a client, `provider` opens the model that they may use."""
    async with AsyncExitStack() as stack:
        code = stack.enter_context(
            closing(CodeKnowledge(settings, workspace, places, files, limits))
        )
        tools: dict[str, Tool[Any]] = {"list_code_definition_names": ListCodeDefinitionNames(code)}
        if settings.index.use:
            tools["codebase_search"] = CodebaseSearch(code)
        extra = ExtraTools(tools=tools, outline=code.outline)
        extra = _with_web(extra, settings, model, places, limits)
        if _has_custom_tools(places.config, workspace):
            extra = _with_custom_tools(extra, places, files, trusted=trusted, attended=attended)
        if servers or places.any_mcp_servers(workspace):
            yield await _with_servers(
                stack,
                extra,
                settings,
                workspace,
                places,
                trusted=trusted,
                may_act=may_act,
                servers=servers,
                answering=(attended, provider),
            )
        else:
            yield extra


class Browsers:
    """Creates a browser for each task. It is started on first use."""

    def __init__(
        self,
        settings: Settings,
        start_soon: "StartSoon",
        knows: "Callable[[HostPort], bool] | None",
    ) -> None:
        """`knows` tells whether a host is known; None if every host may be reached."""
        self._path = settings.browser.path or ""
        self._network = settings.sandbox.network != "off"
        self._start_soon = start_soon
        self._knows = knows
        self._usable = settings.browser.use and self._is_installed()

    def new(self) -> "BrowserAction | None":
        """Return the browser tool for a task; None if no browser is installed."""
        if not self._usable:
            return None
        from rookery.browser.browser_action import BrowserAction

        return BrowserAction(self._open)

    def known_origins(self, browser: "BrowserAction") -> "KnownOrigins":
        """Return the hook that approves visits to origins the user has allowed."""
        from rookery.browser.browser_action import KnownOrigins

        return KnownOrigins(lambda: browser.allowed)

    def _open(self) -> "BrowserSession":
        from rookery.browser.browser_session import BrowserSession

        return BrowserSession(
            self._start_soon, path=self._path, network=self._network, knows=self._knows
        )

    def _is_installed(self) -> bool:
        if find_spec("playwright") is None:
            return False  # saves importing the tool
        from rookery.browser.browser_action import find_browser

        try:
            return bool(find_browser(self._path, os.environ.get("PATH", "")))
        except ToolError:
            return False


def _with_web(
    extra: ExtraTools, settings: Settings, model: ModelChoice, places: Places, limits: Limits
) -> ExtraTools:
    """Add the tools for the web. Without a search engine there is no tool for searches."""
    if not settings.web.use:
        return extra
    from rookery.web.web_tools import WebFetch, WebSearch

    network = settings.sandbox.network != "off"
    fetch = WebFetch(settings.web, limits, network=network, read_document=_document_text)
    tools: dict[str, Tool[Any]] = {fetch.name: fetch}
    problems: list[str] = []
    if settings.web.hosts:
        from rookery.core.hosts import faulty_entries

        problems += faulty_entries(settings.web.hosts, "web.hosts")
    if network and (settings.web.search or model.provider in SEARCHING):
        from rookery.app.search_choice import SearchChoice

        search = SearchChoice(settings, model, places.keys_file, limits)
        if search.problem:
            problems.append(search.problem)
        elif search.name:
            tools[WebSearch.name] = WebSearch(search.engine)
    return replace(
        extra,
        tools=extra.tools | tools,
        web=fetch,
        news=lambda: (*extra.news(), *problems),
    )


async def _document_text(name: str, data: bytes) -> tuple[str, str]:
    from rookery.tools.documents.document_text import document_text
    from rookery.tools.file_sections import document_kind

    kind = document_kind(name, data)
    if kind is None:
        return "", "It is damaged."
    found = await document_text(kind, data)
    return found.text, found.problem


def _has_custom_tools(config: Path, workspace: Path) -> bool:
    folders = (config, workspace / PROJECT_FOLDER, workspace / ".roo")
    return any(os.path.isdir(folder / "tools") for folder in folders)


def _with_custom_tools(
    extra: ExtraTools, places: Places, files: WorkspaceFiles, *, trusted: bool, attended: bool
) -> ExtraTools:
    """Add the custom tools of the user and the project. They are read once, so that all requests
    of a task have the same tools."""
    from rookery.app.project_tools import open_custom_tools

    offer = open_custom_tools(places, files.boundaries, trusted=trusted, attended=attended)
    return replace(
        extra,
        tools=extra.tools | offer.tools,
        hooks=[offer.guard],
        news=lambda: (*extra.news(), *offer.problems),
    )


async def _with_servers(
    stack: AsyncExitStack,
    extra: ExtraTools,
    settings: Settings,
    workspace: Path,
    places: Places,
    *,
    trusted: bool,
    may_act: bool,
    servers: bytes,
    answering: tuple[bool, Callable[[], Provider] | None],
) -> ExtraTools:
    from rookery.mcp.hub import open_hub
    from rookery.mcp.offered_tools import (
        AlwaysAllowed,
        ServerGuard,
        mcp_tools,
        prompt_action,
        resolve_call,
    )
    from rookery.mcp.server_requests import Answering
    from rookery.storage.token_store import TokenStore

    attended, provider = answering
    environ = {name: text for name, text in os.environ.items() if name not in PRIVATE_VARIABLES}
    files = mcp_files(settings, workspace, places, environ, trusted=trusted, servers=servers)
    hub = await stack.enter_async_context(
        open_hub(
            files,
            places.mcp_memory,
            tokens=TokenStore(places.mcp_tokens),
            may_act=may_act,
            answering=Answering(attended=attended, provider=provider),
        )
    )
    return replace(
        extra,
        tools=extra.tools | mcp_tools(hub),
        hooks=[*extra.hooks, AlwaysAllowed(hub), ServerGuard(hub)],
        resolve_alias=partial(resolve_call, hub=hub),
        server_prompt=partial(prompt_action, hub),
        news=lambda: (*extra.news(), *hub.news()),
    )


def mcp_files(
    settings: Settings,
    workspace: Path,
    places: Places,
    environ: Mapping[str, str],
    *,
    trusted: bool,
    servers: bytes = b"",
) -> "ConfigFiles":
    from rookery.mcp.agreements import ConfigFiles

    return ConfigFiles(
        places.mcp_file,
        workspace,
        environ=environ,
        trusted=trusted,
        other_agents=settings.context.other_agents,
        given=servers,
    )


class CodeKnowledge:
    def __init__(
        self,
        settings: Settings,
        workspace: Path,
        places: Places,
        files: WorkspaceFiles,
        limits: Limits,
    ) -> None:
        self._index_settings = settings.index
        self._workspace = workspace
        self._places = places
        self._files = files
        self._limits = limits
        self._opened = ExitStack()

    async def search(
        self, query: str, path: str, permit: Permit, may_show: Callable[[str], bool]
    ) -> "CodeHits":
        return await self._index.search(query, path, permit, may_show)

    async def outline(self, path: str, text: str) -> "Sequence[Definition]":
        return await self._outliner.outline(path, text)

    async def outlines_in(
        self, folder: str, permit: Permit, may_show: Callable[[str], bool]
    ) -> "Sequence[Outline] | None":
        return await self._outliner.outlines_in(folder, permit, may_show)

    def close(self) -> None:
        self._opened.close()

    @cached_property
    def _syntax(self) -> "SyntaxReader":
        from rookery.code_index.syntax import SyntaxReader

        return self._opened.enter_context(closing(SyntaxReader()))

    @cached_property
    def _sources(self) -> "WorkspaceSources":
        from rookery.workspace.source_files import WorkspaceSources

        return WorkspaceSources(self._files, self._limits)

    @cached_property
    def _outliner(self) -> "Outliner":
        from rookery.code_index.syntax import Outliner

        return Outliner(self._sources, self._syntax)

    @cached_property
    def _index(self) -> "CodeIndex":
        from rookery.code_index.code_index import CodeIndex

        syntax, embedder = self._syntax, self._embedder()  # closed after the index
        folder = self._places.code_index(self._workspace)
        index = CodeIndex(folder, self._sources, syntax, embedder=embedder)
        return self._opened.enter_context(closing(index))

    def _embedder(self) -> "EndpointEmbedder | None":
        wanted = self._index_settings
        if not (wanted.provider and wanted.model):
            return None
        from rookery.providers.embeddings import EndpointEmbedder, address_of_embeddings

        key = find_key(
            wanted.provider,
            flag=None,
            variable=KEY_VARIABLES.get(wanted.provider),
            environ=os.environ,
            keys_file=self._places.keys_file,
        )
        embedder = EndpointEmbedder(
            wanted.provider,
            wanted.model,
            base_url=wanted.base_url or address_of_embeddings(wanted.provider),
            key=key.reveal() if key else "",
            limits=self._limits,
        )
        return self._opened.enter_context(closing(embedder))
