"""One request to the model, from open connection to recorded answer."""

from collections.abc import Callable

import anyio
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
from rookery.core.failures import FailureKind
from rookery.core.replies import NO_ANSWER
from rookery.engine.answer_assembler import Assembler
from rookery.engine.event_log import EventLog
from rookery.engine.ports import (
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
from rookery.engine.written_calls import written_call
from rookery.errors import ProviderError


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
                raise ProviderError("The answer broke off.", kind=FailureKind.DROPPED)
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
