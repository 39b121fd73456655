"""Reads an answer: timeouts, limits, and checks of the stream.

There are two timeouts. Any byte resets the first; only a chunk of the answer resets the second, so
that a provider that sends nothing but keep-alives is detected. Adjacent chunks that arrived
together are joined, so that each is processed once instead of dozens of times.
"""

from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeAlias

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream
from msgspec import Struct

from rookery.core.limits import FailureKind, Limits
from rookery.engine.ports.model import (
    CallChunk,
    Chunk,
    SilenceChunk,
    StopChunk,
    TextChunk,
    ThinkingChunk,
)
from rookery.errors import ProviderError
from rookery.providers.http_client import Item
from rookery.providers.http_response import HttpAnswer
from rookery.providers.wire_format import (
    DamagedEvent,
    Framing,
    OversizedEvent,
    decode_event,
    json_or_text,
)

ERROR_BODY_BYTES = 64 * 1024
PAGE_SHOWN = 200
TAIL_SECONDS = 0.05
"""How long to wait for the end of the body after the answer, to reuse the connection."""

_DONE = b"[DONE]"
_Piece: TypeAlias = TextChunk | CallChunk | ThinkingChunk


class Addressee(Struct, frozen=True, kw_only=True):
    """Provider, model and address, for error messages."""

    provider: str
    model: str
    host: str
    secret: str = ""
    key_source: str = ""
    known_models: Sequence[str] = ()
    address_flag: str = ""
    """` --base-url URL` if the address is not the provider's own."""

    def __repr__(self) -> str:
        return f"Addressee({self.provider!r}, {self.model!r}, {self.host!r})"


class Reading(Protocol):
    """Reads one answer: provider events in, our chunks out."""

    def read_event(self, event: Any) -> Iterable[Chunk]:
        """Convert one event. Raises `ReportedError` if it reports a failure."""
        ...

    def close(self, *, marked: bool) -> Iterable[Chunk]:
        """The remaining chunks at the end of the stream. Without a `StopChunk` the answer was
        cut off."""
        ...


class ReportedError(Exception):
    """An error inside a stream."""

    def __init__(self, error: Any) -> None:
        super().__init__("error event")
        self.error = error


class Listener:
    """Reads what the network task passes on: the head, pieces of the body, or a failure."""

    def __init__(
        self,
        items: MemoryObjectReceiveStream[Item],
        framing: type[Framing],
        reading: Reading,
        to: Addressee,
        limits: Limits,
        *,
        local: bool,
    ) -> None:
        self.failed = False
        self._items = items
        self._ahead: Item | None = None
        self._reading = reading
        self._to = to
        self._limits = limits
        self._patience = limits.first_byte_seconds_local if local else limits.first_byte_seconds
        """Seconds until the answer must begin."""
        self._events = framing(limits.event_bytes)
        self._read = 0
        self._progress_at = 0.0

    async def chunks(self) -> AsyncGenerator[Chunk, None]:
        try:
            began = anyio.current_time()
            piece: bytes | None = b""
            while piece == b"":
                try:
                    piece = await self._first_piece(began)
                except TimeoutError:
                    yield SilenceChunk(anyio.current_time() - began)
            self._progress_at = anyio.current_time()
            while piece is not None:
                spoke = False
                for chunk in joined(self._read_events(piece)):
                    yield chunk
                    spoke = True
                    if isinstance(chunk, StopChunk):
                        await self._pass_over_the_rest()
                        return
                piece = await self._next_piece(spoke)
            for chunk in joined(self._read_rest()):
                yield chunk
                if isinstance(chunk, StopChunk):
                    return
            raise self._dropped("The connection ended before the answer was complete")
        except ProviderError:
            self.failed = True
            raise

    async def _first_piece(self, began: float) -> bytes | None:
        """The beginning of the body, or nothing yet. Raises `TimeoutError`, to be retried."""
        left = began + self._patience - anyio.current_time()
        if left <= 0:
            raise self._dropped(f"No answer came within {self._patience:g} seconds")
        try:
            item = await self._item(min(left, self._limits.first_byte_seconds / 8))
        except anyio.EndOfStream:
            return None
        if isinstance(item, HttpAnswer):
            await self._check(item)
            return b""
        return item

    async def _next_piece(self, spoke: bool) -> bytes | None:
        now, idle = anyio.current_time(), self._limits.idle_seconds
        if spoke:
            self._progress_at = now
        left = self._progress_at + self._limits.progress_seconds - now
        try:
            item = await self._item(min(idle, max(left, 0.0)))
        except anyio.EndOfStream:
            return None
        except TimeoutError:
            if left > idle:
                raise self._dropped(
                    f"The connection stalled: nothing came for {idle:g} seconds"
                ) from None
            raise ProviderError(
                f"{self._to.provider} is sending keep-alives only: no part of an answer came "
                f"for {self._limits.progress_seconds:g} seconds.",
                kind=FailureKind.KEEPALIVE_ONLY,
            ) from None
        assert isinstance(item, bytes)
        return item

    async def _item(self, seconds: float) -> HttpAnswer | bytes:
        item, self._ahead = self._ahead, None
        try:
            item = item or self._items.receive_nowait()
        except anyio.WouldBlock:
            with anyio.fail_after(seconds):
                item = await self._items.receive()
        if isinstance(item, ProviderError):
            raise item
        if isinstance(item, bytes):
            item = self._with_rest(item)
            self._read += len(item)
        return item

    def _with_rest(self, piece: bytes) -> bytes:
        """The piece and everything received since."""
        pieces = [piece]
        with suppress(anyio.WouldBlock, anyio.EndOfStream):
            while isinstance(item := self._items.receive_nowait(), bytes):
                pieces.append(item)
            self._ahead = item
        return b"".join(pieces)

    def _read_events(self, piece: bytes) -> Iterator[Chunk]:
        """The chunks of the events that a piece completes."""
        try:
            if self._read > self._limits.response_bytes:
                raise OversizedEvent
            yield from self._chunks_of(self._events.feed(piece))
        except OversizedEvent:
            raise self._misplaced("sent an oversized event") from None
        except DamagedEvent as error:
            raise self._misplaced(f"sent a damaged event ({error})") from None
        except ReportedError as report:
            raise self._reported(report.error) from None
        except ValueError as error:
            raise self._misplaced(f"sent an event that is not JSON ({error})") from None

    def _read_rest(self) -> Iterator[Chunk]:
        """An event without its final blank line, and what the reading still has."""
        try:
            yield from self._chunks_of(self._events.end())
        except ReportedError as report:
            raise self._reported(report.error) from None
        except ValueError:
            return
        yield from self._reading.close(marked=False)

    def _chunks_of(self, events: Iterable[bytes]) -> Iterator[Chunk]:
        for data in events:
            if data == _DONE:
                yield from self._reading.close(marked=True)
            elif data and not data.isspace():
                yield from self._reading.read_event(decode_event(data))

    async def _check(self, answer: HttpAnswer) -> None:
        """Raises unless the response is an event stream."""
        kind = answer.headers.get("content-type", "").lower()
        if answer.status < 400 and (kind.startswith(self._events.media_type) or not kind):
            return
        from rookery.providers.provider_errors import plain, refusal

        body = await self._beginning_of_body()
        parsed = json_or_text(body)
        if answer.status >= 400:
            raise refusal(self._to, answer.status, answer.headers, parsed)
        if isinstance(parsed, dict) and parsed.get("error"):
            raise self._reported(parsed)
        raise self._misplaced(
            f"answered with {plain(kind, 80)} instead of a stream of events: "
            f"{plain(body.decode('utf-8', 'replace'), PAGE_SHOWN)}",
            status=answer.status,
        )

    async def _beginning_of_body(self) -> bytes:
        body = b""
        try:
            while len(body) < ERROR_BODY_BYTES:
                item = await self._item(self._limits.idle_seconds)
                body += item if isinstance(item, bytes) else b""
        except (anyio.EndOfStream, TimeoutError, ProviderError):
            return body
        return body[:ERROR_BODY_BYTES]

    async def _pass_over_the_rest(self) -> None:
        with anyio.move_on_after(TAIL_SECONDS):
            async for _ in self._items:
                pass

    def _reported(self, error: Any) -> ProviderError:
        from rookery.providers.provider_errors import refusal, status_named_in

        return refusal(self._to, status_named_in(error), {}, error)

    def _dropped(self, what: str) -> ProviderError:
        return ProviderError(f"{what} ({self._to.host}).", kind=FailureKind.DROPPED)

    def _misplaced(self, what: str, status: int = 0) -> ProviderError:
        from rookery.providers.provider_errors import redacted

        said = redacted(what, self._to.secret)
        return ProviderError(f"{self._to.host} {said}.", kind=FailureKind.MISPLACED, status=status)


def joined(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """The same answer in fewer chunks. A failure comes after the text before it."""
    first: _Piece | None = None
    rest: list[str] = []
    try:
        for chunk in chunks:
            if first and (more := _continuation(first, chunk)) is not None:
                rest.append(more)
                continue
            if first:
                yield _whole(first, rest)
            first, rest = None, []
            if isinstance(chunk, TextChunk | CallChunk | ThinkingChunk):
                first = chunk
            else:
                yield chunk
    except ProviderError:
        if first:
            yield _whole(first, rest)
        raise
    if first:
        yield _whole(first, rest)


def _continuation(first: _Piece, chunk: Chunk) -> str | None:
    """The two chunks as one, if `chunk` continues `first`."""
    if isinstance(chunk, TextChunk) and isinstance(first, TextChunk):
        return chunk.text
    if isinstance(chunk, CallChunk) and isinstance(first, CallChunk):
        begins = chunk.id or chunk.name or chunk.index != first.index
        return None if begins else chunk.arguments
    if isinstance(chunk, ThinkingChunk) and isinstance(first, ThinkingChunk):
        ends = chunk.signature or first.signature or chunk.source != first.source
        return None if ends else chunk.text
    return None


def _whole(first: _Piece, rest: list[str]) -> _Piece:
    match first:
        case _ if not rest:
            return first
        case TextChunk(text):
            return TextChunk("".join([text, *rest]))
        case CallChunk(index, arguments, id, name):
            return CallChunk(index, "".join([arguments, *rest]), id, name)
        case ThinkingChunk(text, _, source):
            return ThinkingChunk("".join([text, *rest]), "", source)
