"""One server: connected on first use, and reconnected with a delay after a failure."""

import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from msgspec import Struct

from rookery.engine.ports.tool import ToolContext
from rookery.errors import ToolError
from rookery.mcp.agreements import Agreements, Pins, how_to_agree
from rookery.mcp.catalogue import (
    Catalogue,
    CatalogueCache,
    ToolOffer,
    milliseconds,
    named,
    same_name,
)
from rookery.mcp.config import ServerDefinition
from rookery.mcp.connection import Connection
from rookery.mcp.results import CLOSED, is_closed, visible_line
from rookery.mcp.server_programs import NamedFiles, ServerEnvironment
from rookery.mcp.server_requests import ServerRequests
from rookery.mcp.server_sign_in import Credentials, ServerSignInNeeded, sign_in
from rookery.mcp.task_calls import LONGEST_TASK, ShownProgress, call_as_task
from rookery.mcp.variables import Source

if TYPE_CHECKING:
    from mcp.client.client import Client
    from mcp_types import CallToolResult, GetPromptResult, ReadResourceResult

FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0
"""Seconds before a failed server is started again; each failure doubles them."""
MAX_RETRY_WAIT = 2.0
"""Seconds that a caller waits for a restart; a longer delay is an error."""
SLOW_SECONDS = 2.0
"""Seconds after which a server that is still connecting is reported as slow."""
NEARLY_SLOW = 0.9 * SLOW_SECONDS
"""A little less, because callers start waiting slightly before the connection is made."""
GRACE = 1.0
"""Seconds to wait for the reason that a connection was closed."""
LONGEST_ERROR = 1000
MOST_ERRORS = 100


class State(StrEnum):
    DISABLED = "disabled"
    UNTRUSTED = "untrusted"
    IDLE = "idle"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    FAILED = "failed"


class ServerHealth(Struct, frozen=True):
    """State of a server. `tools` and `resources` are the last known ones; `since` is in
    milliseconds since the epoch, 0 if it was never used."""

    name: str
    source: Source
    state: State
    error: str = ""
    tools: tuple[str, ...] = ()
    resources: int = 0
    since: int = 0


class ServerRecords(Struct, frozen=True):
    """What is stored about all servers across runs."""

    memory: CatalogueCache
    pins: Pins
    agreements: Agreements


class McpServer:
    def __init__(
        self,
        definition: ServerDefinition,
        context: ServerEnvironment,
        records: ServerRecords,
        group: TaskGroup,
        withheld: State | None = None,
    ) -> None:
        self.definition = definition
        self.errors: deque[str] = deque(maxlen=MOST_ERRORS)
        self._context = context
        self._records = records
        self._group = group
        self._withheld = State.DISABLED if definition.disabled else withheld
        self._connection: Connection | None = None
        self._failures = 0
        self._retry_at = -math.inf
        self._since = 0
        self._listing = anyio.Lock()
        self._retired = False
        self.credentials = Credentials(definition, context.tokens)
        self._requests = ServerRequests(definition, context.answering)
        self.files = NamedFiles(definition, records.pins, context)
        if not self.withheld:
            self.files.look()

    @property
    def withheld(self) -> bool:
        return self._withheld is not None

    @property
    def state(self) -> State:
        if self._withheld:
            return self._withheld
        if self._connection is None:
            return State.FAILED if self.errors else State.IDLE
        if self._connection.ending.finished:
            return State.FAILED
        return State.CONNECTED if self._connection.settled.is_set() else State.CONNECTING

    @property
    def is_connected(self) -> bool:
        return self.state is State.CONNECTED

    @property
    def known(self) -> Catalogue:
        """The cached catalogue."""
        remembered = self._records.memory.of(self.definition)
        return remembered.catalogue if remembered else Catalogue()

    def health(self) -> ServerHealth:
        known, state = self.known, self.state
        return ServerHealth(
            name=self.definition.name,
            source=self.definition.source,
            state=state,
            error=self._problem(state),
            tools=tuple(
                tool.name for tool in known.tools if tool.name not in self.definition.disabled_tools
            ),
            resources=len(known.resources),
            since=self._since,
        )

    async def catalogue(self) -> Catalogue:
        """The current catalogue. Connects if needed; raises `ToolError`."""
        return await self._listed(await self._connected())

    async def current(self) -> Catalogue | None:
        """The current catalogue; None if it is not connected. Raises `ToolError`."""
        if self._connection is None or not self.is_connected:
            return None
        return await self._listed(self._connection)

    async def tools(self) -> list[ToolOffer]:
        """The enabled tools. Connects if needed; raises `ToolError`."""
        return self.enabled(await self.catalogue())

    def enabled(self, catalogue: Catalogue) -> list[ToolOffer]:
        return [each for each in catalogue.tools if not self.is_off(each.name)]

    def is_off(self, tool: str) -> bool:
        return same_name(tool, self.definition.disabled_tools) is not None

    def always_allows(self, tool: str) -> bool:
        """Whether the user's file allows the tool, and it has not changed since it was first
        seen."""
        if not self.definition.allows(tool) or self.is_off(tool):
            return False
        offer = named(self.known.tools).get(tool)
        if offer is None:
            return not self._records.pins.has_seen(self.definition)
        return not self.has_changed(offer)

    def has_changed(self, tool: ToolOffer) -> bool:
        """Whether the tool differs from when it was first seen or last approved."""
        return self._records.pins.changed(self.definition, tool)

    def allow(self, tool: ToolOffer) -> None:
        """Record the tool's current description as approved by the user."""
        self._records.pins.allow(self.definition, tool)

    async def changed_code(self) -> str | None:
        """A file that has changed since the hub was opened, and that the server might load when
        it starts."""
        return await anyio.to_thread.run_sync(self.files.changed_code)

    async def _listed(self, connection: Connection) -> Catalogue:
        async with self._listing:
            if connection.stale:
                with self._translate_errors(connection):
                    await connection.list()
        return connection.catalogue

    async def call(
        self, tool: str, arguments: Mapping[str, Any], ctx: ToolContext
    ) -> "CallToolResult":
        """Call a tool; the server may ask the user questions meanwhile. Cancelling this cancels
        the call at the server. Raises `ToolError`."""
        shown = ShownProgress(ctx)
        offer = named(self._connection.catalogue.tools if self._connection else ()).get(tool)
        if not (offer and offer.as_task):
            async with self._client(ctx) as client:
                return await client.call_tool(tool, dict(arguments), progress_callback=shown.report)
        async with self._client(ctx, max(LONGEST_TASK, self.definition.timeout)) as client:
            assert self._connection is not None
            watchers = self._connection.watchers
            return await call_as_task(client, tool, arguments, watchers, shown)

    async def read(self, uri: str) -> "ReadResourceResult":
        async with self._client() as client:
            return await client.read_resource(uri)

    async def prompt(self, name: str, arguments: Mapping[str, str]) -> "GetPromptResult":
        async with self._client() as client:
            return await client.get_prompt(name, dict(arguments))

    def retire(self) -> None:
        """End the server: it was removed from the configuration, or changed there."""
        self._retired = True
        if self._connection:
            self._connection.ending.finish("It was ended.")

    @asynccontextmanager
    async def _client(
        self, ctx: ToolContext | None = None, seconds: float = 0.0
    ) -> "AsyncIterator[Client]":
        connection = await self._connected()
        assert connection.client is not None
        with self._translate_errors(connection):
            try:
                limit = seconds or self.definition.timeout
                async with self._requests.during(ctx, limit):
                    yield connection.client
            except Exception as error:
                if is_closed(error):
                    with anyio.move_on_after(GRACE):
                        await connection.ending.wait()  # the transport may know the reason
                raise
        self._failures = 0

    @contextmanager
    def _translate_errors(self, connection: Connection) -> Iterator[None]:
        from mcp import MCPError
        from mcp_types import INVALID_PARAMS, REQUEST_TIMEOUT

        name = self.definition.name
        late = (
            f"The MCP server {name} did not answer within {self.definition.timeout:g} s; the call "
            "was cancelled there."
        )
        try:
            yield
        except TimeoutError as error:
            raise ToolError(late) from error
        except MCPError as error:
            if is_closed(error):
                raise ToolError(self._lost_text(connection)) from error
            if error.code == REQUEST_TIMEOUT:
                raise ToolError(late) from error
            text = visible_line(error.message, LONGEST_ERROR)
            kind = WrongArguments if error.code == INVALID_PARAMS else ToolError
            raise kind(f"The MCP server {name} answered with an error: {text}") from error
        except (ValueError, RuntimeError) as error:
            text = visible_line(str(error), LONGEST_ERROR)
            raise ToolError(f"The answer of the MCP server {name} is not valid: {text}") from error

    def _lost_text(self, connection: Connection) -> str:
        reason = connection.ending.reason or CLOSED
        return (
            f"The connection to the MCP server {self.definition.name} was lost: "
            f"{reason} The call may or may not have happened. The server starts again "
            "when it is next used."
        )

    async def _connected(self) -> Connection:
        """The connection, made if needed. Raises `ToolError` if that fails."""
        while self._connection is None or self._connection.ending.finished:
            self.check_allowed()
            self._check_approved()
            wait = self._retry_at - anyio.current_time()
            if wait > MAX_RETRY_WAIT:
                raise ToolError(
                    f"{self._last_error()} The next try is in {math.ceil(wait)} s at the earliest."
                )
            if wait > 0:
                await anyio.sleep(wait)
                continue
            self._connection = Connection(
                self.definition,
                self._context,
                self.credentials,
                self._requests,
                offered=self._learn,
                lost=self._record_failure,
            )
            self._since = milliseconds()
            self._group.start_soon(self._connection.run, self._group)
        connection = self._connection
        await connection.settled.wait()
        if connection.client is None or connection.ending.finished:
            kind = ServerSignInNeeded if self.credentials.needed else ToolError
            raise kind(self._last_error())
        return connection

    async def sign_in(self, tell: Callable[[str], None], *, typed: int | None = None) -> str:
        """Let the user sign in, and return where the tokens are stored. Raises `ToolError` or
        `SettingsError`."""
        self.check_allowed()
        self._check_approved()
        place = await sign_in(self.definition, self._context.tokens, tell, typed=typed)
        self.credentials.reload()
        self._retry_at = -math.inf
        return place

    def check_allowed(self) -> None:
        """Raises `ToolError` if it must not be started."""
        name = self.definition.name
        if self._withheld is State.DISABLED:
            raise ToolError(f"The MCP server {name} is disabled in the configuration.")
        if self._withheld:
            raise ToolError(
                f"The MCP server {name} is not started, because this folder is not trusted."
            )
        if self.state not in (State.CONNECTED, State.CONNECTING):
            self.files.check()

    @property
    def missing_approval(self) -> str:
        """Why the user must approve it before it starts; empty if it is approved."""
        return self._records.agreements.missing(self.definition)

    def agree(self) -> None:
        self._records.agreements.agree(self.definition)

    def _check_approved(self) -> None:
        if why := self.missing_approval:
            name = self.definition.name
            raise ToolError(f"The MCP server {name} is not started. {why} {how_to_agree(name)}")

    def _last_error(self) -> str:
        return f"The MCP server {self.definition.name} is not running: {self.errors[-1]}"

    def _learn(self, catalogue: Catalogue) -> None:
        self.credentials.needed = False
        self._since = milliseconds()
        self._records.memory.learn(self.definition, catalogue)
        self._records.pins.see(self.definition, catalogue.tools)

    def _record_failure(self, reason: str) -> None:
        if self._retired:
            return
        self._failures += 1
        wait = min(LONGEST_WAIT, FIRST_WAIT * 2 ** (self._failures - 1))
        self._retry_at = anyio.current_time() + wait
        self._since = milliseconds()
        self.errors.append(reason)
        self._records.memory.failed(self.definition, reason)

    def _problem(self, state: State) -> str:
        if state is State.FAILED:
            return self.errors[-1]
        if state is State.CONNECTING and self._connection:
            waited = self._connection.seconds
            text = f"It has not answered for {waited:.0f} s.{self._connection.last_words}"
            return text if waited >= NEARLY_SLOW else ""
        return ""


class WrongArguments(ToolError):
    """The server rejected the arguments."""
