"""Shared by all wire formats: parsing of server-sent events, and conversion of turns.

Events are read as bytes, so that a character split between two pieces needs no care: a line is
decoded when it is complete. Comments, names, ids and unknown fields are skipped; both wire families
repeat an event's name in its data.
"""

import hashlib
import json
from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

import msgspec
from msgspec.structs import replace

from rookery.core.blocks import Block, Image, Text, Thinking, ToolCall, ToolResult
from rookery.core.facts import StopReason
from rookery.core.folds.history import Turn
from rookery.core.text.characters import whole_values
from rookery.engine.ports.model import ModelRequest, Repeated
from rookery.first_use import lazy_pattern

_BOM = b"\xef\xbb\xbf"
_decode = msgspec.json.Decoder().decode


class OversizedEvent(ValueError):
    """An event or line exceeds the limit."""


class DamagedEvent(ValueError):
    """The bytes are not those of an event; the text says why."""


class Framing(Protocol):
    """How a body is divided into events. One object reads one answer."""

    media_type: ClassVar[str]

    def __init__(self, longest: int) -> None: ...

    def feed(self, piece: bytes) -> Iterable[bytes]:
        """The JSON of the events that this piece completes. Raises `OversizedEvent` for an event
        of more than `longest` bytes, and `DamagedEvent`."""
        ...

    def end(self) -> Iterable[bytes]:
        """What is complete only because the body ended."""
        ...


class EventReader:
    """Server-sent events: collects pieces and returns the data of every complete event."""

    media_type: ClassVar[str] = "text/event-stream"

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._pieces: list[bytes] = []
        self._unread = 0
        self._data: list[bytes] = []
        self._collected = 0
        self._at_start = True

    def feed(self, piece: bytes) -> list[bytes]:
        self._unread += len(piece)
        self._pieces.append(piece)
        if b"\n" not in piece and b"\r" not in piece and not self._ends_in_return():
            return self._within_bounds([])
        text = b"".join(self._pieces)
        # a return at the very end may be the first half of a line end
        held = b"\r" if text.endswith(b"\r") else b""
        if b"\r" in text:
            text = text[: len(text) - len(held)]
            text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = text.split(b"\n")
        self._pieces = [rest + held]
        self._unread = len(rest) + len(held)
        return self._within_bounds(self._read(lines))

    def end(self) -> list[bytes]:
        """The last event, if its final blank line is missing."""
        rest = b"".join(self._pieces).rstrip(b"\r")
        self._pieces = []
        return self._read([rest, b""])

    def _ends_in_return(self) -> bool:
        return len(self._pieces) > 1 and self._pieces[-2].endswith(b"\r")

    def _read(self, lines: list[bytes]) -> list[bytes]:
        if self._at_start and lines:
            lines[0] = lines[0].removeprefix(_BOM)
            self._at_start = False
        events: list[bytes] = []
        data = self._data
        for line in lines:
            if line.startswith(b"data:"):
                data.append(line[6:] if line[5:6] == b" " else line[5:])
                self._collected += len(line)
            elif not line and data:
                events.append(data[0] if len(data) == 1 else b"\n".join(data))
                data.clear()
                self._collected = 0
        return events

    def _within_bounds(self, events: list[bytes]) -> list[bytes]:
        if self._unread + self._collected > self._longest:
            raise OversizedEvent
        if max(map(len, events), default=0) > self._longest:
            raise OversizedEvent
        return events


def decode_event(data: bytes) -> Any:
    """The JSON of an event. Invalid characters become U+FFFD.

    Raises `ValueError` if it is not JSON.
    """
    try:
        return _decode(data)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except ValueError:
        return whole_values(_decode_leniently(data))


def json_or_text(body: bytes) -> Any:
    """A body parsed as JSON, or its text if that fails."""
    try:
        return decode_event(body)
    except ValueError:
        return body.decode("utf-8", "replace")


def _decode_leniently(data: bytes) -> Any:
    try:
        return json.loads(data.decode("utf-8", "replace"))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def encode_body(body: Mapping[str, Any]) -> bytes:
    """An object as JSON; lone surrogates, which no provider accepts, are replaced."""
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        return msgspec.json.encode(whole_values(body))


def bearer(api_key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {api_key}"} if api_key else {}


async def beginning(pieces: AsyncIterable[bytes], most: int) -> bytes:
    """A body, which is cut after the piece that makes it longer than this."""
    data = bytearray()
    async for piece in pieces:
        data += piece
        if len(data) > most:
            break
    return bytes(data)


def sampling(request: ModelRequest) -> dict[str, Any]:
    """How the answer is to be sampled, as chat completions spell it."""
    schema = request.answer_schema
    fields = {
        "temperature": request.temperature,
        "seed": request.seed,
        "stop": list(request.stop) or None,
        "response_format": schema
        and {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}},
    }
    return {name: value for name, value in fields.items() if value is not None}


IMAGE_LEFT_OUT = "[An image was here; this model cannot see images.]"
IMAGES_OF_A_RESULT = "The images that call {call_id} returned:"

_SAFE_ID = lazy_pattern(r"[A-Za-z0-9_-]{1,64}")
_UNSAFE = lazy_pattern(r"[^A-Za-z0-9_-]")
_LARGEST_COUNT = 1_000_000_000

_STOP_REASONS = {
    "end_turn": StopReason.END,
    "stop": StopReason.END,
    "stop_sequence": StopReason.END,
    "eos": StopReason.END,
    "tool_use": StopReason.CALLS,
    "tool_calls": StopReason.CALLS,
    "function_call": StopReason.CALLS,
    "max_tokens": StopReason.LENGTH,
    "length": StopReason.LENGTH,
    "max_output_tokens": StopReason.LENGTH,
    "pause_turn": StopReason.PAUSED,
    "refusal": StopReason.REFUSED,
    "content_filter": StopReason.REFUSED,
    "content_filtered": StopReason.REFUSED,
    "guardrail_intervened": StopReason.REFUSED,
    "safety": StopReason.REFUSED,
    "recitation": StopReason.REFUSED,
    "blocklist": StopReason.REFUSED,
    "prohibited_content": StopReason.REFUSED,
    "spii": StopReason.REFUSED,
    "language": StopReason.REFUSED,
    "model_context_window_exceeded": StopReason.OVERFLOW,
    "malformed_function_call": StopReason.UNKNOWN,
    "malformed_model_output": StopReason.UNKNOWN,
    "malformed_tool_use": StopReason.UNKNOWN,
    "unexpected_tool_call": StopReason.UNKNOWN,
    "other": StopReason.UNKNOWN,
}


def stop_reason(word: object, *, called: bool) -> StopReason:
    """Our stop reason for the provider's. `called` says whether there were tool calls, since
    some servers say "stop" for those too."""
    reason = _STOP_REASONS.get(str(word).lower(), StopReason.UNKNOWN)
    match reason, called:
        case StopReason.END, True:
            return StopReason.CALLS
        case StopReason.CALLS, False:
            return StopReason.END
        case _:
            return reason


def detail_of_stop(reason: StopReason, word: object, said: str = "") -> str:
    """A notice for the user about an unusual end."""
    if reason in (StopReason.REFUSED, StopReason.UNKNOWN):
        return said or str(word or "")
    return ""


def sendable(
    turns: Sequence[Turn],
    source: str,
    *,
    images: bool,
    signs_last_part: bool = False,
    repeated: Repeated[Turn] | None = None,
) -> list[Turn]:
    """The turns as one wire family accepts them.

    Removes reasoning of other families, blank text and images the model cannot see. Empty turns
    disappear and their neighbours are merged, so that roles still alternate. Ids and names of calls
    become valid for every provider. With `signs_last_part`, reasoning may be the last block.
    """

    def fitted(turn: Turn) -> Turn:
        fitting = [_fit(block, images) for block in turn.blocks if _fits(block, source)]
        blocks = tuple(fitting) if signs_last_part else _without_loose_reasoning(fitting)
        empty = all(isinstance(block, Thinking) for block in blocks)
        return Turn(turn.role, () if empty else blocks)

    kept: list[Turn] = []
    how = source, images, signs_last_part
    for turn in (repeated or Repeated[Turn]()).make(fitted, turns, how):
        if kept and turn.blocks and kept[-1].role == turn.role:
            kept.append(Turn(turn.role, (*kept.pop().blocks, *turn.blocks)))
        elif turn.blocks:
            kept.append(turn)
    return kept


def safe_id(call_id: str) -> str:
    """An id that every provider accepts; deterministic and unique per call."""
    if _SAFE_ID.fullmatch(call_id):
        return call_id
    mark = hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{_UNSAFE.sub('_', call_id)[:55]}_{mark}"


def count(value: object) -> int | None:
    """A token count, or None if it is not valid."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value <= _LARGEST_COUNT else None


def latest(value: object, earlier: int) -> int:
    """A token count, or the earlier one if it is not valid."""
    known = count(value)
    return earlier if known is None else known


def table(value: object) -> Mapping[str, Any]:
    """The object, or an empty one for anything else a server may send."""
    return value if isinstance(value, dict) else {}


def rows(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def words(value: object) -> str:
    return value if isinstance(value, str) else ""


def kept_json(signature: str) -> Any:
    """The stored JSON to send back; None if it is not ours."""
    try:
        return msgspec.json.decode(signature)
    except msgspec.DecodeError:
        return None


def _without_loose_reasoning(blocks: list[Block]) -> tuple[Block, ...]:
    """Reasoning is accepted only before what it led to."""
    while blocks and isinstance(blocks[-1], Thinking):
        blocks.pop()
    return tuple(blocks)


def _fits(block: Block, source: str) -> bool:
    match block:
        case Text(text=text):
            return bool(text.strip())
        case Thinking(source=made_by, signature=signature):
            return made_by == source and bool(signature)
        case _:
            return True


def _fit(block: Block, images: bool) -> Block:
    match block:
        case ToolCall(id=call_id, name=name):
            sent = safe_id(call_id), _UNSAFE.sub("_", name)[:64] or "unnamed"
            return block if sent == (call_id, name) else replace(block, id=sent[0], name=sent[1])
        case ToolResult(images=shown) if shown and not images:
            text = "\n".join([block.text, *(IMAGE_LEFT_OUT for _ in shown)]).strip()
            return _fit(replace(block, text=text, images=()), images)
        case ToolResult(call_id=call_id):
            sent_id = safe_id(call_id)
            return block if sent_id == call_id else replace(block, call_id=sent_id)
        case Image() if not images:
            return Text(text=IMAGE_LEFT_OUT)
        case _:
            return block
