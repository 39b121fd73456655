"""One server: connected when it is first needed, and again, after a while, when it was lost."""

import math
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct

from rookery.errors import ToolError
from rookery.mcp.agreements import Agreements, Pins, how_to_agree
from rookery.mcp.catalogue import Catalogue, CatalogueMemory
from rookery.mcp.config import ServerDefinition
from rookery.mcp.connection import Connection
from rookery.mcp.results import CLOSED, is_closed, visible_line
from rookery.mcp.server_programs import NamedFiles, ServerEnvironment
from rookery.mcp.variables import Source

if TYPE_CHECKING:
    from mcp.client.client import Client
    from mcp_types import CallToolResult, GetPromptResult, ReadResourceResult

FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0
"""Seconds before a server that failed is started again; each failure doubles them."""
WORTH_WAITING = 2.0
"""Seconds that a caller waits for a server to be started again. After that it is told."""
LATE = 2.0
"""Seconds after which a server that is still connecting is said to be slow."""
NEARLY_LATE = 0.9 * LATE
"""Whoever has waited that long began to a little before the connection did."""
GRACE = 1.0
"""Seconds that the SDK may take longer than a call's own limit."""
LONGEST_ERROR = 1000
MOST_ERRORS = 100

Progress = Callable[[float, float | None, str | None], None]


class State(StrEnum):
    DISABLED = "disabled"
    UNTRUSTED = "untrusted"
    IDLE = "idle"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    FAILED = "failed"


class ServerHealth(Struct, frozen=True):
    """How a server is. `tools` and `resources` are those last known; `since` is in milliseconds
    since the epoch, 0 if nothing has happened yet."""

    name: str
    source: Source
    state: State
    error: str = ""
    tools: tuple[str, ...] = ()
    resources: int = 0
    since: int = 0


class McpServer:
    def __init__(
        self,
        definition: ServerDefinition,
        surroundings: ServerEnvironment,
        memory: CatalogueMemory,
        pins: Pins,
        agreements: Agreements,
        group: TaskGroup,
        withheld: State | None = None,
    ) -> None:
        self._agreements = agreements
        self.definition = definition
        self.errors: deque[str] = deque(maxlen=MOST_ERRORS)
        self._surroundings = surroundings
        self._memory = memory
        self._pins = pins
        self._group = group
        self._withheld = State.DISABLED if definition.disabled else withheld
        self._connection: Connection | None = None
        self._failures = 0
        self._again_at = -math.inf
        self._since = 0
        self._listing = anyio.Lock()
        self._retired = False
        self.files = NamedFiles(definition, pins, surroundings)
        if not self.withheld:
            self.files.look()

    @property
    def withheld(self) -> bool:
        """Whether it must not be started."""
        return self._withheld is not None

    @property
    def state(self) -> State:
        if self._withheld:
            return self._withheld
        if self._connection is None:
            return State.FAILED if self.errors else State.IDLE
        if self._connection.fate.sealed:
            return State.FAILED
        return State.CONNECTED if self._connection.settled.is_set() else State.CONNECTING

    @property
    def known(self) -> Catalogue:
        """What it offers, as far as that is known without asking it."""
        remembered = self._memory.of(self.definition)
        return remembered.catalogue if remembered else Catalogue()

    def health(self) -> ServerHealth:
        known, state = self.known, self.state
        return ServerHealth(
            name=self.definition.name,
            source=self.definition.source,
            state=state,
            error=self._trouble(state),
            tools=tuple(
                tool.name for tool in known.tools if tool.name not in self.definition.disabled_tools
            ),
            resources=len(known.resources),
            since=self._since,
        )

    async def catalogue(self) -> Catalogue:
        """What it offers now. Connects if need be; raises `ToolError`."""
        return await self._listed(await self._connected())

    async def current(self) -> Catalogue | None:
        """What it offers now if it is connected. Starts nothing; raises `ToolError`."""
        if self._connection is None or self.state is not State.CONNECTED:
            return None
        return await self._listed(self._connection)

    async def _listed(self, connection: Connection) -> Catalogue:
        async with self._listing:
            if connection.stale:
                with self._translating(connection):
                    await connection.list()
        return connection.catalogue

    async def settle(self) -> None:
        """Connect, or fail to; `health` tells which."""
        with suppress(ToolError):
            await self._connected()

    async def call(
        self, tool: str, arguments: Mapping[str, Any], show: Progress
    ) -> "CallToolResult":
        """Cancelling this cancels the call at the server. Raises `ToolError`."""

        async def tell(
            progress: float, total: float | None = None, message: str | None = None
        ) -> None:
            show(progress, total, message)

        async with self._speaking() as client:
            return await client.call_tool(
                tool, dict(arguments), self.definition.timeout, progress_callback=tell
            )

    async def read(self, uri: str) -> "ReadResourceResult":
        async with self._speaking() as client:
            return await client.read_resource(uri)

    async def prompt(self, name: str, arguments: Mapping[str, str]) -> "GetPromptResult":
        async with self._speaking() as client:
            return await client.get_prompt(name, dict(arguments))

    def retire(self) -> None:
        """It is no longer configured, or not like this: end it."""
        self._retired = True
        if self._connection:
            self._connection.fate.seal("It was ended.")

    @asynccontextmanager
    async def _speaking(self) -> "AsyncIterator[Client]":
        connection = await self._connected()
        assert connection.client is not None
        with self._translating(connection):
            try:
                with anyio.fail_after(self.definition.timeout + GRACE):
                    yield connection.client
            except Exception as error:
                if is_closed(error):
                    with anyio.move_on_after(GRACE):
                        await connection.fate.wait()  # whoever knows better says why
                raise
        self._failures = 0

    @contextmanager
    def _translating(self, connection: Connection) -> Iterator[None]:
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
                raise ToolError(self._gone(connection)) from error
            if error.code == REQUEST_TIMEOUT:
                raise ToolError(late) from error
            said = visible_line(error.message, LONGEST_ERROR)
            kind = WrongArguments if error.code == INVALID_PARAMS else ToolError
            raise kind(f"The MCP server {name} answered with an error: {said}") from error
        except (ValueError, RuntimeError) as error:
            said = visible_line(str(error), LONGEST_ERROR)
            raise ToolError(f"The answer of the MCP server {name} is not valid: {said}") from error

    def _gone(self, connection: Connection) -> str:
        reason = connection.fate.reason or CLOSED
        return (
            f"The connection to the MCP server {self.definition.name} was lost: "
            f"{reason} The call may or may not have happened. The server starts again "
            "when it is next used."
        )

    async def _connected(self) -> Connection:
        """The connection, made if there is none. Raises `ToolError` if there cannot be one."""
        while self._connection is None or self._connection.fate.sealed:
            self.insist_on_leave()
            self._insist_on_agreement()
            wait = self._again_at - anyio.current_time()
            if wait > WORTH_WAITING:
                raise ToolError(
                    f"{self._lately()} The next try is in {math.ceil(wait)} s at the earliest."
                )
            if wait > 0:
                await anyio.sleep(wait)
                continue
            self._connection = self._new_connection()
            self._since = _now()
            self._group.start_soon(self._connection.run, self._group)
        connection = self._connection
        await connection.settled.wait()
        if connection.client is None or connection.fate.sealed:
            raise ToolError(self._lately())
        return connection

    def insist_on_leave(self) -> None:
        """Raises `ToolError` if it must not be started."""
        name = self.definition.name
        if self._withheld is State.DISABLED:
            raise ToolError(f"The MCP server {name} is disabled in the configuration.")
        if self._withheld:
            raise ToolError(
                f"The MCP server {name} is not started, because this folder is not trusted."
            )
        if self.state not in (State.CONNECTED, State.CONNECTING):
            self.files.insist()

    @property
    def disagreement(self) -> str:
        """Why a person has to agree before it is started; empty if nobody has to."""
        return self._agreements.missing(self.definition)

    def agree(self) -> None:
        """A person has seen how it is defined, and agrees."""
        self._agreements.agree(self.definition)

    def _insist_on_agreement(self) -> None:
        if why := self.disagreement:
            name = self.definition.name
            raise ToolError(f"The MCP server {name} is not started. {why} {how_to_agree(name)}")

    def _lately(self) -> str:
        return f"The MCP server {self.definition.name} is not running: {self.errors[-1]}"

    def _new_connection(self) -> Connection:
        return Connection(
            self.definition,
            self._surroundings,
            offered=self._learn,
            lost=self._note,
        )

    def _learn(self, catalogue: Catalogue) -> None:
        self._since = _now()
        self._memory.learn(self.definition, catalogue)
        self._pins.see(self.definition, catalogue.tools)

    def _note(self, reason: str) -> None:
        if self._retired:
            return
        self._failures += 1
        wait = min(LONGEST_WAIT, FIRST_WAIT * 2 ** (self._failures - 1))
        self._again_at = anyio.current_time() + wait
        self._since = _now()
        self.errors.append(reason)
        self._memory.failed(self.definition, reason)

    def _trouble(self, state: State) -> str:
        if state is State.FAILED:
            return self.errors[-1]
        if state is State.CONNECTING and self._connection:
            waited = self._connection.seconds
            told = f"It has not answered for {waited:.0f} s.{self._connection.last_words}"
            return told if waited >= NEARLY_LATE else ""
        return ""


class WrongArguments(ToolError):
    """The server did not take the arguments."""


def _now() -> int:
    return time.time_ns() // 1_000_000
