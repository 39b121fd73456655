"""One connection to a server, from connecting to its end.

The SDK requires that one task enters and leaves a connection: the one in `run`. Other tasks wait
for `settled`, then call. Nothing is polled: the reason for the end goes to `ending`, which `run`
waits for.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from msgspec import Struct

from rookery import NAME, VERSION
from rookery.core.limits import KIB
from rookery.mcp.catalogue import Catalogue, PromptArgument, PromptOffer, ResourceOffer, ToolOffer
from rookery.mcp.config import ServerDefinition, Transport
from rookery.mcp.received import ConnectionEnd, ServerMessages
from rookery.mcp.results import ServerFailure, error_text, visible, visible_line
from rookery.mcp.server_programs import LIST_SECONDS, ServerEnvironment, ServerProcess
from rookery.mcp.server_requests import ServerRequests
from rookery.mcp.server_sign_in import Credentials
from rookery.mcp.task_calls import Watchers
from rookery.mcp.transports import last_words, to_program, to_url

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams
    from mcp.client.client import Client


MOST = 200
MOST_PAGES = 20
LONGEST_DESCRIPTION = 4 * KIB
LONGEST_NAME = 200
LONGEST_URI = 2 * KIB

T = TypeVar("T")


class _List(Struct, frozen=True):
    """A list that a server offers: `fetch` returns a page with the items in `field`."""

    what: str
    field: str
    fetch: Callable[..., Awaitable[Any]]


async def catalogue_of(client: "Client", seconds: float = LIST_SECONDS) -> Catalogue:
    """Fetch all lists concurrently. A list that fails is empty, and a note gives the reason.
    Raises `MCPError` if the connection is lost."""
    from mcp import MCPError

    found: dict[str, list[Any]] = {}
    notes: list[str] = []
    lost: list[MCPError] = []

    async def collect(wanted: _List) -> None:
        items: list[Any] = []
        found[wanted.what] = items
        try:
            if note := await _collect(wanted, items, seconds):
                notes.append(note)
        except MCPError as error:
            lost.append(error)  # a task group would wrap it in an exception group

    async with anyio.create_task_group() as group:
        for wanted in _lists(client):
            group.start_soon(collect, wanted)
    if lost:
        raise lost[0]
    as_tasks = _runs_tasks(client)
    offers = (_tool(tool, as_tasks) for tool in reversed(found.get("tools", ())))
    tools = {offer.name: offer for offer in offers}
    resources = (*found.get("resources", ()), *found.get("resource templates", ()))
    return Catalogue(
        tools=tuple(reversed(tools.values())),
        prompts=tuple(map(_prompt, found.get("prompts", ()))),
        resources=tuple(map(_resource, resources)),
        notes=tuple(notes),
    )


def _lists(client: "Client") -> Iterable[_List]:
    can = client.server_capabilities
    if can.tools is not None:
        yield _List("tools", "tools", client.list_tools)
    if can.prompts is not None:
        yield _List("prompts", "prompts", client.list_prompts)
    if can.resources is not None:
        yield _List("resources", "resources", client.list_resources)
        yield _List("resource templates", "resource_templates", client.list_resource_templates)


async def _collect(wanted: _List, items: list[Any], seconds: float) -> str:
    """Fetch all pages into `items`; return a sentence if some are missing."""
    from mcp import MCPError
    from mcp_types import CONNECTION_CLOSED, METHOD_NOT_FOUND

    cursor: str | None = None
    with anyio.move_on_after(seconds):
        for _ in range(MOST_PAGES):
            try:
                page = await wanted.fetch(cursor=cursor)
            except MCPError as error:
                if error.code == CONNECTION_CLOSED:
                    raise
                missing = error.code == METHOD_NOT_FOUND
                return "" if missing else f"Cannot list its {wanted.what}: {_error_line(error)}"
            except (ValueError, RuntimeError) as error:
                return f"Its list of {wanted.what} is not valid: {_error_line(error)}"
            items += getattr(page, wanted.field)
            cursor = page.next_cursor
            if len(items) > MOST:
                del items[MOST:]
                break
            if cursor is None:
                return ""
        return f"It has too many {wanted.what}: only the first {len(items)} are used."
    return (
        f"Only {len(items)} of its {wanted.what} are known: listing them took more "
        f"than {seconds:g} s."
    )


def _error_line(error: Exception) -> str:
    return visible_line(str(error), 300)


def _runs_tasks(client: "Client") -> bool:
    tasks = client.server_capabilities.tasks
    tools = tasks.requests.tools if tasks and tasks.requests else None
    return tools is not None and tools.call is not None


def _tool(tool: Any, as_tasks: bool) -> ToolOffer:
    return ToolOffer(
        name=visible_line(tool.name, LONGEST_NAME),
        description=visible(tool.description or "", LONGEST_DESCRIPTION),
        schema=tool.input_schema,
        as_task=as_tasks and tool.execution is not None,
    )


def _prompt(prompt: Any) -> PromptOffer:
    return PromptOffer(
        name=visible_line(prompt.name, LONGEST_NAME),
        description=visible_line(prompt.description or "", LONGEST_DESCRIPTION),
        arguments=tuple(
            PromptArgument(
                name=visible_line(each.name, LONGEST_NAME),
                description=visible_line(each.description or "", LONGEST_DESCRIPTION),
                required=bool(each.required),
            )
            for each in prompt.arguments or ()
        ),
    )


def _resource(resource: Any) -> ResourceOffer:
    """A resource, or a template of resources."""
    template = getattr(resource, "uri_template", None)
    return ResourceOffer(
        uri=visible_line(str(resource.uri) if template is None else template, LONGEST_URI),
        name=visible_line(resource.name or "", LONGEST_NAME),
        description=visible_line(resource.description or "", LONGEST_DESCRIPTION),
        template=template is not None,
    )


_NOISY_LOGGERS = ("mcp", "client", "httpx2")


class Connection:
    """`client` is set once `settled` is, unless the connection failed."""

    def __init__(
        self,
        server: ServerDefinition,
        context: ServerEnvironment,
        credentials: Credentials,
        requests: ServerRequests,
        *,
        offered: Callable[[Catalogue], None],
        lost: Callable[[str], None],
    ) -> None:
        """`offered` is called with every new catalogue, and `lost` with the reason once the
        connection has ended."""
        self.ending = ConnectionEnd(self._settle)
        self.settled = anyio.Event()
        self.client: Client | None = None
        self.catalogue = Catalogue()
        self.watchers: Watchers = {}
        self.stale = False
        """Whether the server has announced changes since the last listing."""
        self._server = server
        self._context = context
        self._credentials = credentials
        self._requests = requests
        self._offered = offered
        self._lost = lost
        self._process: ServerProcess | None = None
        self._began = anyio.current_time()

    @property
    def seconds(self) -> float:
        return anyio.current_time() - self._began

    @property
    def last_words(self) -> str:
        return last_words(self._process) if self._process else ""

    async def run(self, group: TaskGroup) -> None:
        """Run the connection until it ends; the result is in `ending`."""
        try:
            await load_sdk()
            with anyio.CancelScope() as scope:
                group.start_soon(self._limit_start, scope)
                await self._run_session()
        except Exception as error:
            self.ending.finish(error_text(error, self._server))

    async def list(self) -> None:
        """Fetch the catalogue. Announced changes only set `stale`, so a server cannot cause
        requests by announcing often."""
        assert self.client is not None
        self.stale = False
        try:
            self.catalogue = await catalogue_of(self.client, self._context.timeouts.listing)
        except BaseException:
            self.stale = True
            raise
        self._offered(self.catalogue)

    def _settle(self, reason: str) -> None:
        self._lost(reason)
        self.settled.set()

    async def _limit_start(self, scope: anyio.CancelScope) -> None:
        seconds = self._context.timeouts.start
        with anyio.move_on_after(seconds):
            await self.settled.wait()
            if self.ending.finished:
                scope.cancel()  # a pending request would wait forever
            return
        self.ending.finish(f"It did not answer within {seconds:g} s.{self.last_words}")
        scope.cancel()

    async def _run_session(self) -> None:
        from mcp.client.client import Client
        from mcp_types import Implementation, ListRootsResult, Root
        from pydantic import FileUrl

        async def on_message(message: Any) -> None:
            if str(getattr(message, "method", "")).endswith("list_changed"):
                self.stale = True

        async def on_roots(context: Any) -> ListRootsResult:
            folder = self._context.workspace
            root = Root(uri=FileUrl(folder.absolute().as_uri()), name=folder.name)
            return ListRootsResult(roots=[root])

        async with Client(
            self._streams(),
            message_handler=on_message,
            list_roots_callback=on_roots,
            elicitation_callback=self._requests.elicit,
            sampling_callback=self._requests.sample if self._requests.may_sample else None,
            client_info=Implementation(name=NAME, version=VERSION),
            cache=None,
        ) as self.client:
            await self.list()
            self.settled.set()
            async with anyio.create_task_group() as group:
                group.start_soon(self._watch_changes, self.client)
                await self.ending.wait()
                group.cancel_scope.cancel()

    @asynccontextmanager
    async def _streams(self) -> "AsyncGenerator[TransportStreams]":
        async with self._transport() as (inbox, outbox):
            assert isinstance(inbox, ServerMessages)
            inbox.watchers = self.watchers
            yield inbox, outbox

    def _transport(self) -> "AbstractAsyncContextManager[TransportStreams]":
        if self._server.transport is not Transport.STDIO:
            return to_url(self._server, self.ending, self._credentials)

        def start() -> ServerProcess:
            self._process = ServerProcess(self._server, self._context)
            return self._process

        return to_program(start, self.ending)

    async def _watch_changes(self, client: "Client") -> None:
        """Subscribe to changes: newer servers announce them to subscribers only."""
        from mcp import MCPError
        from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost

        wanted = client.listen(
            tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True
        )
        ignored = (ListenNotSupportedError, SubscriptionLost, MCPError, TimeoutError, ValueError)
        with suppress(*ignored):
            async with wanted as changes:
                async for _ in changes:
                    self.stale = True


async def load_sdk() -> None:
    """Import the SDK in a thread, because it takes long."""
    try:
        await anyio.to_thread.run_sync(_load)
    except ImportError as error:
        raise ServerFailure(
            f"The package mcp is missing ({error}). Install it with {NAME}."
        ) from error


def _load() -> None:
    import mcp.client.client
    import mcp.client.sse  # noqa: F401

    for name in _NOISY_LOGGERS:
        logger = logging.getLogger(name)
        # we report these errors ourselves; without a handler they would go to the terminal
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())
            logger.propagate = False
