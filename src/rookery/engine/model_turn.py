"""One request to the model: pacing, streaming, and recording the answer.

Tool calls that the model printed as text become real calls. If the model is known to make native
calls, they are only recorded, so that it gets a reminder.
"""

import json
import re
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Protocol

import anyio
import anyio.lowlevel
from msgspec.structs import replace

from rookery.core.blocks import Block, Text, Thinking, ToolCall, ToolResult
from rookery.core.facts import (
    AssistantSpoke,
    CallStreamed,
    RequestFailed,
    RequestStarted,
    StopReason,
    TextStreamed,
    ThinkingStreamed,
    Usage,
    Waiting,
)
from rookery.core.limits import KIB, FailureKind
from rookery.core.replies import NO_ANSWER
from rookery.engine.answer_assembler import Assembler
from rookery.engine.event_log import EventLog
from rookery.engine.ports.model import (
    CallChunk,
    Chunk,
    ModelInfo,
    ModelRequest,
    Provider,
    SilenceChunk,
    StopChunk,
    TextChunk,
    ThinkingChunk,
    UsageChunk,
)
from rookery.errors import ProviderError
from rookery.first_use import lazy_pattern

if TYPE_CHECKING:
    from rookery.core.text.written_calls import Written

CALL_MARKS = frozenset("<[{(`~")
"""Text without any of these contains no call."""


class Clock(Protocol):
    def now(self) -> int:
        """Milliseconds since the epoch."""
        ...

    async def wait(self, event: anyio.Event, seconds: float) -> None:
        """Wait until the event is set, but no longer than this."""
        ...


MOST_WAITING = 64
"""Tasks that may wait for their turn; a longer wait means that the clock was set back."""


class Pace:
    def __init__(self, seconds: float = 0.0) -> None:
        self._seconds = seconds
        self._sent: int | None = None

    def left(self, now: int) -> float:
        """Seconds until the next request may be sent."""
        if not self._seconds or self._sent is None:
            return 0.0
        return min(max(self._seconds - (now - self._sent) / 1000, 0.0), self._seconds)

    def take(self, now: int) -> float:
        """Reserve the next place. Agents that run side by side wait in turn."""
        if not self._seconds or self._sent is None:
            left = 0.0
        else:
            left = max(self._seconds - (now - self._sent) / 1000, 0.0)
            left = left if left <= MOST_WAITING * self._seconds else self._seconds
        self._sent = now + round(left * 1000)
        return left

    def sent(self, now: int) -> None:
        self._sent = now if self._sent is None else max(now, self._sent)


class Turnstile:
    """Paces the requests of one task: `wait` before each, then `sent`."""

    def __init__(
        self,
        wait: Callable[[], Awaitable[object]] = anyio.lowlevel.checkpoint,
        sent: Callable[[], None] = lambda: None,
    ) -> None:
        self.wait = wait
        self.sent = sent


class WorkTime:
    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._worked = 0
        self._since: int | None = now()

    @property
    def seconds(self) -> float:
        """Seconds of work since the last lap."""
        worked = self._worked + (self._now() - self._since if self._since is not None else 0)
        return max(worked, 0) / 1000

    def lap(self) -> float:
        """Return the seconds of work since the last lap and start a new lap."""
        seconds = self.seconds
        self._worked = 0
        self._since = None if self._since is None else self._now()
        return seconds

    @contextmanager
    def paused(self) -> Iterator[None]:
        if self._since is None:
            yield
            return
        self._worked += max(self._now() - self._since, 0)
        self._since = None
        try:
            yield
        finally:
            self._since = self._now()


LONGEST = 64 * KIB
"""Number of characters at the end of an answer that are searched."""
_FENCE = lazy_pattern(
    r"^[ \t]*(`{3,}|~{3,})[^\n]*\n(.*?)(?:^[ \t]*\1|\Z)", re.MULTILINE | re.DOTALL
)
_INLINE = lazy_pattern(r"`[^`\n]*`")
_WRAPPED = lazy_pattern(r"<(tool_call|function_call|tool_use)>(.*?)(?:</\1>|\Z)", re.DOTALL)
_JSON_TO_THE_END = lazy_pattern(r"^[ \t]*[{\[].*\Z", re.MULTILINE | re.DOTALL)
_INPUT = lazy_pattern(r'"(?:arguments|args|input|parameters|params)"\s*:')


async def model_turn(
    log: EventLog,
    provider: Provider,
    request: ModelRequest,
    *,
    new_id: Callable[[], str],
    attempt: int,
    size: int,
    seconds: float,
    largest_arguments: int,
    details: Mapping[str, str],
) -> None:
    """Stream one answer into the log. A cancelled answer keeps the text received so far."""
    request_id = new_id()
    used_ids = log.call_ids()
    assemble = partial(Assembler, new_id=new_id, used_ids=used_ids, largest=largest_arguments)
    reader = _AnswerReader(log, request_id, assemble())
    log.append(
        RequestStarted(
            request_id=request_id,
            model=provider.model.id,
            provider=provider.model.provider,
            base_url=provider.model.base_url,
            attempt=attempt,
            size=size,
            seconds=seconds,
            window=provider.model.window,
            fallback=log.state.fallback_model != ("", ""),
            details=details,
        )
    )
    try:
        async with provider.stream(request) as chunks:
            async for chunk in chunks:
                reader.receive(chunk)
        log.append(_with_written_calls(reader.answer(), request, provider.model, assemble))
    except ProviderError as error:
        log.append(
            RequestFailed(
                request_id=request_id,
                error=error.kind,
                message=str(error),
                status=error.status,
                retry_after=error.retry_after,
                usage=reader.usage,
            )
        )
    except anyio.get_cancelled_exc_class():
        log.append(reader.interrupted())
        raise


class _AnswerReader:
    """Collects one answer and appends each chunk to the log for followers."""

    def __init__(self, log: EventLog, request_id: str, answer: Assembler) -> None:
        self._log = log
        self._request_id = request_id
        self._answer = answer
        self._stop: StopChunk | None = None
        self.usage = Usage()

    def receive(self, chunk: Chunk) -> None:
        match chunk:
            case TextChunk(text):
                self._answer.add_text(text)
                self._log.append(TextStreamed(request_id=self._request_id, text=text))
            case CallChunk(index, arguments, id, name):
                number, name = self._answer.add_call(index, arguments, id, name)
                piece = CallStreamed(
                    request_id=self._request_id, index=number, name=name, arguments=arguments
                )
                self._log.append(piece)
            case ThinkingChunk(text, signature, source):
                self._answer.add_thinking(text, signature, source)
                self._log.append(ThinkingStreamed(request_id=self._request_id, text=text))
            case UsageChunk(usage):
                self.usage = usage
            case StopChunk():
                self._stop = chunk
            case SilenceChunk(seconds, what):
                self._log.append(Waiting(request_id=self._request_id, seconds=seconds, what=what))

    def answer(self) -> AssistantSpoke:
        """The complete answer. Raises `ProviderError` if it cannot be used."""
        blocks = self._answer.blocks()
        match self._stop:
            case None:
                raise ProviderError("The answer was cut off.", kind=FailureKind.DROPPED)
            case StopChunk(StopReason.REFUSED, detail):
                raise ProviderError(
                    detail or "The model declined to answer.", kind=FailureKind.REFUSED
                )
            case StopChunk(StopReason.OVERFLOW, detail):
                raise ProviderError(
                    detail or "The conversation no longer fits the model's context.",
                    kind=FailureKind.OVERFLOW,
                )
            case StopChunk(reason) if reason is not StopReason.PAUSED and not _has_content(blocks):
                raise ProviderError(NO_ANSWER, kind=FailureKind.EMPTY)
            case StopChunk(reason):
                return AssistantSpoke(
                    request_id=self._request_id, blocks=blocks, stop=reason, usage=self.usage
                )

    def interrupted(self) -> AssistantSpoke:
        return AssistantSpoke(
            request_id=self._request_id,
            blocks=self._answer.said(),
            usage=self.usage,
            interrupted=True,
        )


def _with_written_calls(
    answer: AssistantSpoke,
    request: ModelRequest,
    model: ModelInfo,
    assemble: Callable[[], Assembler],
) -> AssistantSpoke:
    """The answer with the calls that the model printed as text. For a model that is known to make
    native calls, only with the name of the first such tool."""
    if any(isinstance(block, ToolCall) for block in answer.blocks):
        return answer
    read = _read_calls(answer, request) if model.calls in ("", "text") else None
    if read and read.calls:
        assembler = assemble()
        assembler.add_text(read.words)
        for index, call in enumerate(read.calls):
            assembler.add_call(index, json.dumps(call.arguments), name=call.name)
        thoughts = [block for block in answer.blocks if isinstance(block, Thinking)]
        return replace(answer, blocks=(*thoughts, *assembler.blocks()), stop=StopReason.CALLS)
    if read and read.mentioned:
        return answer
    written = written_call(answer.words, [tool.name for tool in request.tools])
    return replace(answer, written=written)


def _read_calls(answer: AssistantSpoke, request: ModelRequest) -> "Written | None":
    if not (request.tools and CALL_MARKS & set(answer.words)):
        return None  # saves importing the parser
    from rookery.core.text.written_calls import read_calls

    tools = {tool.name: tool.schema for tool in request.tools}
    results = (
        block.text
        for turn in reversed(request.turns)
        for block in turn.blocks
        if isinstance(block, ToolResult)
    )
    complete = answer.stop is not StopReason.LENGTH
    return read_calls(answer.words, tools, whole=complete, shown=results)


def _has_content(blocks: tuple[Block, ...]) -> bool:
    """Whether there is text or a call. Reasoning alone is not an answer."""
    return any(
        isinstance(block, ToolCall) or (isinstance(block, Text) and block.text.strip())
        for block in blocks
    )


def written_call(text: str, tools: Collection[str]) -> str:
    """The known tool that a text calls; empty if none."""
    text = text[-LONGEST:]
    if not any(tool in text for tool in tools):
        return ""
    known = "|".join(re.escape(tool) for tool in sorted(tools, key=len, reverse=True))
    rest = _INLINE.sub("", _FENCE.sub("\n", text))
    for passage in [match[2] for match in _FENCE.finditer(text)]:
        if called := _in_json(passage, known) or _tagged(passage, known):
            return called
    for passage in _unfenced_json(rest):
        if called := _in_json(passage, known):
            return called
    return _tagged(rest, known)


def _unfenced_json(text: str) -> Iterator[str]:
    yield from (match[2] for match in _WRAPPED.finditer(text))
    if match := _JSON_TO_THE_END.search(text):
        yield match[0]


def _in_json(passage: str, known: str) -> str:
    """The tool must have arguments beside it, unless the key itself is a name for tools."""
    if not passage.lstrip().startswith(("{", "[")):
        return ""
    named = re.search(rf'"(tool|tool_name|name|function|action)"\s*:\s*"({known})"', passage)
    if named and (named[1].startswith("tool") or _INPUT.search(passage)):
        return named[2]
    keyed = re.match(rf'\s*\{{\s*"({known})"\s*:\s*\{{', passage)
    return keyed[1] if keyed else ""


def _tagged(text: str, known: str) -> str:
    """Finds a tag at the start of a line, or one that is closed."""
    if begun := re.search(rf"^[ \t]*<({known})(?=[\s/>])", text, re.MULTILINE):
        return begun[1]
    closings = {closing[1]: closing.start() for closing in re.finditer(rf"</({known})>", text)}
    for opening in re.finditer(rf"<({known})(?:\s[^<>]*|/)?>", text):
        if opening[0].endswith("/>") or opening.end() <= closings.get(opening[1], -1):
            return opening[1]
    named = re.search(rf"""<(?:function=|invoke\s+name=)["']?({known})["']?\s*>""", text)
    return named[1] if named else ""
