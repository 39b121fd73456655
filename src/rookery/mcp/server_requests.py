"""What a server may ask of the user while one of its tools runs: a form, a visit, the model.

A server can ask only during a call that was approved. A run that is not interactive declines at
once, and nothing is answered automatically. After the user has declined once, the rest of the call
is declined too. The time limit of the call pauses while the user is asked.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct

from rookery import NAME
from rookery.core.asks import AskKind
from rookery.core.blocks import Text
from rookery.core.facts import Noted, StopReason, Usage
from rookery.core.folds.history import Turn
from rookery.core.hosts import web_address
from rookery.core.limits import KIB
from rookery.engine.ports.model import ModelRequest, Provider, StopChunk, TextChunk, UsageChunk
from rookery.engine.ports.tool import ToolContext
from rookery.errors import ProviderError
from rookery.mcp.config import ServerDefinition
from rookery.mcp.elicitation import (
    DECLINE,
    SKIP,
    FormField,
    Value,
    fields_of,
    form_heading,
    offered_answers,
    places_of,
    question_about,
    value_of,
)
from rookery.mcp.results import visible, visible_line
from rookery.mcp.task_calls import CallClock

if TYPE_CHECKING:
    from mcp_types import (
        CreateMessageRequestParams,
        CreateMessageResult,
        ElicitRequestParams,
        ElicitResult,
        ErrorData,
    )

MOST_FORMS = 10
MOST_SAMPLES = 10
"""Forms and requests to the model during one call."""
MOST_TRIES = 3
LARGEST_REQUEST = 64 * KIB
REFUSED = -1
"""The protocol's code for a request that the user rejected."""
_STOPS = {StopReason.LENGTH: "maxTokens", StopReason.END: "endTurn"}


T = TypeVar("T")


class Answering(Struct, frozen=True, kw_only=True):
    """How requests of servers are answered. `provider` opens the model they may use."""

    attended: bool = False
    """Whether a user can answer questions."""
    provider: Callable[[], Provider] | None = None


class ServerRequests:
    """The requests of one server. They belong to its open call."""

    def __init__(self, server: ServerDefinition, answering: Answering) -> None:
        self._server = server
        self._answering = answering
        self._calls: list[OpenCall] = []
        self._always = server.samples_freely

    @property
    def may_sample(self) -> bool:
        """Whether the server is told that it can use the model."""
        asks = self._answering.attended and self._server.sampling != "off"
        return self._answering.provider is not None and (asks or self._always)

    @asynccontextmanager
    async def during(self, ctx: ToolContext | None, seconds: float) -> AsyncIterator[None]:
        """Limit a call, and accept requests meanwhile; without a context, all are declined.
        Raises `TimeoutError`."""
        clock = CallClock(seconds)
        failure: Exception | None = None
        async with anyio.create_task_group() as group:
            calls = [OpenCall(self._server, self._answering, ctx, clock, group)] if ctx else []
            self._calls += calls
            try:
                with clock.running():
                    yield
            except Exception as error:
                failure = error  # a task group would wrap it in an exception group
            finally:
                for call in calls:
                    self._calls.remove(call)
                group.cancel_scope.cancel()
        for call in calls:
            failure = call.failure or failure
        if failure:
            raise failure

    async def elicit(self, context: object, params: "ElicitRequestParams") -> "ElicitResult":
        from mcp_types import ElicitResult

        if (call := self._call) is None:
            return ElicitResult(action="decline")
        return await call.within(lambda: call.elicit(params), ElicitResult(action="cancel"))

    async def sample(
        self, context: object, params: "CreateMessageRequestParams"
    ) -> "CreateMessageResult | ErrorData":
        from mcp_types import ErrorData

        provider = self._answering.provider
        if provider is None or (call := self._call) is None:
            return ErrorData(code=REFUSED, message="No call of a tool is running.")

        async def work() -> "CreateMessageResult | ErrorData":
            problem, always = await call.approve_sample(params, always=self._always)
            self._always = self._always or always
            if problem:
                return ErrorData(code=REFUSED, message=problem)
            return await call.sample(params, provider())

        return await call.within(work, ErrorData(code=REFUSED, message="The call has ended."))

    @property
    def _call(self) -> "OpenCall | None":
        """The call that a request belongs to. With several it cannot be known: they may be of
        other sessions."""
        return self._calls[0] if len(self._calls) == 1 else None


class OpenCall:
    """One call of a tool, and what the server has asked during it."""

    def __init__(
        self,
        server: ServerDefinition,
        answering: Answering,
        ctx: ToolContext,
        clock: CallClock,
        group: TaskGroup,
    ) -> None:
        self._server = server
        self._answering = answering
        self._ctx = ctx
        self._clock = clock
        self._group = group
        self._asking = anyio.Lock()
        self.failure: Exception | None = None
        self._forms = self._samples = 0
        self._declined = False

    async def within(self, work: Callable[[], Awaitable[T]], otherwise: T) -> T:
        """Do the work in the call's own group, so that it ends with the call, with its questions
        withdrawn. The result is `otherwise` then."""
        result, done = otherwise, anyio.Event()

        async def job() -> None:
            nonlocal result
            try:
                result = await work()
            except Exception as error:
                self.failure = error
                self._group.cancel_scope.cancel()
            finally:
                done.set()

        self._group.start_soon(job)
        await done.wait()
        return result

    @asynccontextmanager
    async def _question(self) -> AsyncIterator[None]:
        """Entered to ask: one question at a time, off the clock of the call."""
        with self._clock.paused():
            async with self._asking:
                yield

    async def elicit(self, params: "ElicitRequestParams") -> "ElicitResult":
        from mcp_types import ElicitResult

        async with self._question():
            self._forms += 1
            if self._forms == MOST_FORMS + 1:
                self._note(f"asked more than {MOST_FORMS} times, so the rest is declined.")
            if not self._may_ask or self._forms > MOST_FORMS:
                return ElicitResult(action="decline")
            if params.mode == "url":
                accepted = await self._show_address(params.message, params.url)
                content: dict[str, Any] | None = None
            else:
                content = await self._fill_in(params.message, params.requested_schema)
                accepted = content is not None
            self._declined = not accepted
            return ElicitResult(action="accept" if accepted else "decline", content=content)

    @property
    def _may_ask(self) -> bool:
        return self._answering.attended and not self._declined

    def _note(self, text: str) -> None:
        self._ctx.append(Noted(text=f"The MCP server {self._server.name} {text}"))

    async def _fill_in(self, message: str, schema: dict[str, Any]) -> dict[str, Any] | None:
        """The filled-in form; None if the user declines."""
        try:
            fields = fields_of(schema)
        except ValueError as error:
            self._note(f"asked a question that cannot be shown: {error}. It was declined.")
            return None
        heading = form_heading(self._server.name, message)
        if not fields:
            agreed = await self._answer(heading, ["yes", DECLINE])
            return {} if agreed is not None and agreed.lower() in ("yes", "y") else None
        content: dict[str, Value] = {}
        for field, place in zip(fields, places_of(fields), strict=True):
            answer = await self._field(f"{heading}\n\n{question_about(field, place)}", field)
            if answer is None:
                return None
            content.update(answer)
        return content

    async def _field(self, question: str, field: FormField) -> dict[str, Value] | None:
        problem = ""
        for _ in range(MOST_TRIES):
            asked = f"{problem}\n\n{question}" if problem else question
            text = await self._answer(asked, offered_answers(field))
            if text is None:
                return None
            if text == SKIP and not field.required:
                return {}
            try:
                return {field.name: value_of(field, text)}
            except ValueError as error:
                problem = str(error)
        self._note("was not answered: the answers did not match its form.")
        return None

    async def _answer(self, question: str, offered: list[str]) -> str | None:
        """The user's answer; None if the user declines or did not answer."""
        text = {"question": question, "suggest": [{"answer": each} for each in offered]}
        answer = await self._ctx.ask(
            AskKind.FOLLOWUP,
            json.dumps(text, ensure_ascii=False),
            title=self._title,
            withdraws=True,
        )
        said = answer.text.strip()
        return None if answer.by != "user" or said in ("", DECLINE) else said

    @property
    def _title(self) -> str:
        return f"The MCP server {self._server.name} asks"

    async def _show_address(self, message: str, url: str) -> bool:
        """Whether the user agrees to visit an address. It is never opened from here."""
        try:
            address = web_address(url)
        except ValueError as error:
            self._note(f"asked to open an address that cannot be shown. {error}")
            return False
        if address.scheme != "https" and not address.is_loopback:
            self._note("asked to open an address that is not https. It was declined.")
            return False
        answer = await self._ctx.ask(
            AskKind.USE_MCP_SERVER,
            self._payload(url),
            title=f"The MCP server {self._server.name} asks you to open {address.host}. Agree?",
            notes=(
                visible_line(message, 2000),
                f"Open it yourself, if you trust it: {url}",
            ),
            digest=sha256(url.encode()).hexdigest(),
            withdraws=True,
        )
        return answer.reply == "yes" and answer.by == "user"

    def _payload(self, arguments: str) -> str:
        shown = {"type": "use_mcp_tool", "serverName": self._server.name, "arguments": arguments}
        return json.dumps(shown, ensure_ascii=False)

    async def approve_sample(
        self, params: "CreateMessageRequestParams", *, always: bool
    ) -> tuple[str, bool]:
        """Why the server may not use the model, empty if it may; and whether it always may."""
        async with self._question():
            self._samples += 1
            if self._samples > MOST_SAMPLES:
                return f"More than {MOST_SAMPLES} requests in one call.", False
            try:
                lines = request_lines(params)
            except ValueError as error:
                return str(error), False
            if always:
                return "", False
            if not self._may_ask:
                return "The user does not allow it.", False
            return await self._ask_about_sample(lines, params.max_tokens)

    async def _ask_about_sample(self, lines: tuple[str, ...], most: int) -> tuple[str, bool]:
        name = self._server.name
        answer = await self._ctx.ask(
            AskKind.USE_MCP_SERVER,
            self._payload("\n".join(lines)),
            title=f"Let the MCP server {name} use your model?",
            notes=(*lines, f"It gets the answer, of at most {most} tokens, and no tools."),
            rule=f"every request of the MCP server {name!r} to your model, until {NAME} ends",
            digest=sha256("\n".join(lines).encode("utf-8", "replace")).hexdigest(),
            withdraws=True,
        )
        if answer.reply == "yes" and answer.by == "user":
            return "", answer.always
        self._declined = True
        return "The user rejected it.", False

    async def sample(
        self, params: "CreateMessageRequestParams", provider: Provider
    ) -> "CreateMessageResult | ErrorData":
        def count(usage: Usage) -> None:
            tokens = f"{usage.tokens_in} tokens sent, {usage.tokens_out} received"
            text = f"The MCP server {self._server.name} used the model: {tokens}."
            self._ctx.append(Noted(text=text, usage=usage))

        with self._clock.paused():
            return await sampled(params, provider, count)


async def sampled(
    params: "CreateMessageRequestParams", provider: Provider, count: Callable[[Usage], None]
) -> "CreateMessageResult | ErrorData":
    """The model's answer. `count` gets the usage, also if there is no answer."""
    from mcp_types import CreateMessageResult, ErrorData, TextContent

    request = ModelRequest(
        system=params.system_prompt or "",
        turns=[Turn(each.role, (Text(text=_text_of(each)),)) for each in params.messages],
        max_output=max(1, min(params.max_tokens, provider.model.max_output)),
        temperature=params.temperature,
        stop=tuple(params.stop_sequences or ()),
    )
    pieces: list[str] = []
    usage, stop = Usage(), StopReason.END
    try:
        async with provider.stream(request) as chunks:
            async for chunk in chunks:
                match chunk:
                    case TextChunk(text):
                        pieces.append(text)
                    case UsageChunk(so_far):
                        usage = so_far
                    case StopChunk(reason):
                        stop = reason
    except ProviderError:
        return ErrorData(code=REFUSED, message="The model did not answer.")
    finally:
        count(usage)
    return CreateMessageResult(
        role="assistant",
        content=TextContent(type="text", text="".join(pieces)),
        model=provider.model.id,
        stop_reason=_STOPS.get(stop, "endTurn"),
    )


def request_lines(params: "CreateMessageRequestParams") -> tuple[str, ...]:
    """All that a server wants to send to the model. Raises `ValueError` with a sentence."""
    if params.tools:
        raise ValueError("Tools are not supported.")
    if not params.messages:
        raise ValueError("There are no messages.")
    said = [("system", params.system_prompt)] if params.system_prompt else []
    said += [(each.role, _text_of(each)) for each in params.messages]
    if sum(len(text) for _, text in said) > LARGEST_REQUEST:
        raise ValueError(f"The request has more than {LARGEST_REQUEST // KIB} KiB.")
    return tuple(f"{role}: {visible(text, LARGEST_REQUEST)}" for role, text in said)


def _text_of(message: Any) -> str:
    blocks = message.content_as_list
    if any(block.type != "text" for block in blocks):
        raise ValueError("Only text is supported.")
    return "\n\n".join(block.text for block in blocks)
