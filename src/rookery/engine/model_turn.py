"""One request to the model: when it may be sent, from open connection to recorded answer.

A tool call that the model wrote into its text instead of making it is found here. Only what
looks like a call of a known tool counts: a tag such as `<read_file>`, or JSON that names the
tool.
"""

import re
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Protocol

import anyio
import anyio.lowlevel
from msgspec.structs import replace

from rookery.core.blocks import Block, Text, ToolCall
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
    ModelRequest,
    Provider,
    SilenceChunk,
    StopChunk,
    TextChunk,
    ThinkingChunk,
    UsageChunk,
)
from rookery.errors import ProviderError


class Clock(Protocol):
    def now(self) -> int:
        """Milliseconds since the epoch."""
        ...

    async def wait(self, event: anyio.Event, seconds: float) -> None:
        """Until the event is set, and at most so long."""
        ...


class Pace:
    def __init__(self, seconds: float = 0.0) -> None:
        self._seconds = seconds
        self._sent: int | None = None

    def left(self, now: int) -> float:
        """Seconds until the next request may be sent."""
        if not self._seconds or self._sent is None:
            return 0.0
        return min(max(self._seconds - (now - self._sent) / 1000, 0.0), self._seconds)

    def sent(self, now: int) -> None:
        self._sent = now


class Turnstile:
    """Lets the requests of one task through: `wait` before each, then `sent`."""

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
        """Of work since the last lap."""
        worked = self._worked + (self._now() - self._since if self._since is not None else 0)
        return max(worked, 0) / 1000

    def lap(self) -> float:
        """The same, from now on counted anew."""
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
"""Characters at the end of an answer that are looked at."""
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[^\n]*\n(.*?)(?:^[ \t]*\1|\Z)", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`[^`\n]*`")
_WRAPPED = re.compile(r"<(tool_call|function_call|tool_use)>(.*?)(?:</\1>|\Z)", re.DOTALL)
_JSON_TO_THE_END = re.compile(r"^[ \t]*[{\[].*\Z", re.MULTILINE | re.DOTALL)
_INPUT = re.compile(r'"(?:arguments|args|input|parameters|params)"\s*:')


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
) -> None:
    """Stream one answer into the log. A cancelled answer keeps the words that had arrived."""
    request_id = new_id()
    assembler = Assembler(new_id=new_id, used_ids=_ids_in(request), largest=largest_arguments)
    hearing = _Hearing(log, request_id, assembler)
    log.append(
        RequestStarted(
            request_id=request_id,
            model=provider.model.id,
            provider=provider.model.provider,
            base_url=provider.model.base_url,
            attempt=attempt,
            size=size,
            seconds=seconds,
        )
    )
    try:
        async with provider.stream(request) as chunks:
            async for chunk in chunks:
                hearing.hear(chunk)
        log.append(_with_slip(hearing.answer(), request))
    except ProviderError as error:
        log.append(
            RequestFailed(
                request_id=request_id,
                error=error.kind,
                message=str(error),
                status=error.status,
                retry_after=error.retry_after,
                usage=hearing.usage,
            )
        )
    except anyio.get_cancelled_exc_class():
        log.append(hearing.interrupted())
        raise


class _Hearing:
    """What has been heard of one answer so far; each piece is news for whoever follows."""

    def __init__(self, log: EventLog, request_id: str, answer: Assembler) -> None:
        self._log = log
        self._rid = request_id
        self._answer = answer
        self._stop: StopChunk | None = None
        self.usage = Usage()

    def hear(self, chunk: Chunk) -> None:
        match chunk:
            case TextChunk(text):
                self._answer.add_text(text)
                self._log.append(TextStreamed(request_id=self._rid, text=text))
            case CallChunk(index, arguments, id, name):
                number, name = self._answer.add_call(index, arguments, id, name)
                piece = CallStreamed(
                    request_id=self._rid, index=number, name=name, arguments=arguments
                )
                self._log.append(piece)
            case ThinkingChunk(text, signature, source):
                self._answer.add_thinking(text, signature, source)
                self._log.append(ThinkingStreamed(request_id=self._rid, text=text))
            case UsageChunk(usage):
                self.usage = usage
            case StopChunk():
                self._stop = chunk
            case SilenceChunk(seconds):
                self._log.append(Waiting(request_id=self._rid, seconds=seconds))

    def answer(self) -> AssistantSpoke:
        """The whole answer. Raises `ProviderError` for one that cannot be used."""
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
            case StopChunk(reason) if reason is not StopReason.PAUSED and not _says(blocks):
                raise ProviderError(NO_ANSWER, kind=FailureKind.EMPTY)
            case StopChunk(reason):
                return AssistantSpoke(
                    request_id=self._rid, blocks=blocks, stop=reason, usage=self.usage
                )

    def interrupted(self) -> AssistantSpoke:
        return AssistantSpoke(
            request_id=self._rid, blocks=self._answer.said(), usage=self.usage, interrupted=True
        )


def _with_slip(answer: AssistantSpoke, request: ModelRequest) -> AssistantSpoke:
    """The answer; if it calls nothing, with the tool whose call it only wrote."""
    if any(isinstance(block, ToolCall) for block in answer.blocks):
        return answer
    written = written_call(answer.words, [tool.name for tool in request.tools])
    return replace(answer, written=written)


def _says(blocks: tuple[Block, ...]) -> bool:
    """Reasoning alone is no answer, and neither are blanks."""
    return any(
        isinstance(block, ToolCall) or (isinstance(block, Text) and block.text.strip())
        for block in blocks
    )


def _ids_in(request: ModelRequest) -> set[str]:
    return {
        block.id for turn in request.turns for block in turn.blocks if isinstance(block, ToolCall)
    }


def written_call(text: str, tools: Collection[str]) -> str:
    """The known tool that a text calls in writing; nothing if it calls none."""
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
    """A call needs an input, unless the key says that a tool is named."""
    if not passage.lstrip().startswith(("{", "[")):
        return ""
    named = re.search(rf'"(tool|tool_name|name|function|action)"\s*:\s*"({known})"', passage)
    if named and (named[1].startswith("tool") or _INPUT.search(passage)):
        return named[2]
    keyed = re.match(rf'\s*\{{\s*"({known})"\s*:\s*\{{', passage)
    return keyed[1] if keyed else ""


def _tagged(text: str, known: str) -> str:
    """A tag at the start of a line, or one that is closed."""
    begun = re.search(rf"^[ \t]*<({known})(?=[\s/>])", text, re.MULTILINE)
    closed = re.search(rf"<({known})(?:\s[^<>]*)?(?:/>|>.*?</\1>)", text, re.DOTALL)
    named = re.search(rf"""<(?:function=|invoke\s+name=)["']?({known})["']?\s*>""", text)
    found = begun or closed or named
    return found[1] if found else ""
