"""What all wire formats share when our turns are put into their words, and back."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from rookery.core.blocks import Block, Image, Text, Thinking, ToolCall, ToolResult
from rookery.core.facts import StopReason
from rookery.core.folds.history import Turn

IMAGE_LEFT_OUT = "[An image was here; this model cannot see images.]"
IMAGES_OF_A_RESULT = "The images that call {call_id} returned:"

_SAFE_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
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
    "safety": StopReason.REFUSED,
    "recitation": StopReason.REFUSED,
    "blocklist": StopReason.REFUSED,
    "prohibited_content": StopReason.REFUSED,
    "spii": StopReason.REFUSED,
    "language": StopReason.REFUSED,
    "model_context_window_exceeded": StopReason.OVERFLOW,
    "malformed_function_call": StopReason.UNKNOWN,
    "unexpected_tool_call": StopReason.UNKNOWN,
    "other": StopReason.UNKNOWN,
}


def stop_reason(word: object, *, called: bool) -> StopReason:
    """Their word for why an answer ended. `called` says whether it made any tool call, since
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
    """What a user should be told about an unusual end."""
    if reason in (StopReason.REFUSED, StopReason.UNKNOWN):
        return said or str(word or "")
    return ""


def sendable(turns: Iterable[Turn], source: str, *, images: bool) -> list[Turn]:
    """The turns as one wire family may be sent them.

    Reasoning of other families, blank text and images the model cannot see are taken out.
    A turn that is left empty disappears, and its neighbours become one, so that roles still
    alternate. Ids and names of calls become such as every provider accepts.
    """
    kept: list[Turn] = []
    for turn in turns:
        fitting = [_fit(block, images) for block in turn.blocks if _fits(block, source)]
        blocks = _without_loose_reasoning(fitting)
        if not blocks:
            continue
        if kept and kept[-1].role == turn.role:
            blocks = (*kept.pop().blocks, *blocks)
        kept.append(Turn(turn.role, blocks))
    return kept


def safe_id(call_id: str) -> str:
    """An id that every provider accepts; the same for the same call, and for no other."""
    if _SAFE_ID.fullmatch(call_id):
        return call_id
    mark = hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{_UNSAFE.sub('_', call_id)[:55]}_{mark}"


def count(value: object) -> int | None:
    """A number of tokens, if it can be one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value <= _LARGEST_COUNT else None


def table(value: object) -> Mapping[str, Any]:
    """The object itself, or an empty one in place of anything else a server may have sent."""
    return value if isinstance(value, dict) else {}


def rows(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def words(value: object) -> str:
    return value if isinstance(value, str) else ""


def kept_json(signature: str) -> Any:
    """What was put aside to be sent back; nothing, if it is not ours after all."""
    try:
        return msgspec.json.decode(signature)
    except msgspec.DecodeError:
        return None


def _without_loose_reasoning(blocks: list[Block]) -> tuple[Block, ...]:
    """Reasoning is only accepted in front of what it led to."""
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
