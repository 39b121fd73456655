"""What a model reads and writes: the blocks of a turn, whole or with their middle left out."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

LEFT_OUT = "\n[… {count} characters left out …]\n"
PICTURE_LEFT_OUT = "[a picture was left out]"
SHORTEST = 200
"""Of a text that is shortened this much is always kept: room for the remark and a few words."""


class Text(Struct, frozen=True, kw_only=True):
    text: str


class Thinking(Struct, frozen=True, kw_only=True):
    """Reasoning the provider let us see.

    `signature` is whatever the provider wants back unchanged; only the wire family that made
    it (`source`) can read it, so no other provider is sent it.
    """

    text: str
    signature: str = ""
    source: str = ""


class Image(Struct, frozen=True, kw_only=True):
    """A picture; `data` is base64."""

    media_type: str
    data: str


class ToolCall(Struct, frozen=True, kw_only=True):
    """A call as the model made it. `problem` says why its arguments cannot be used, if so."""

    id: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""


class ToolResult(Struct, frozen=True, kw_only=True):
    call_id: str
    text: str
    images: tuple[Image, ...] = ()
    is_error: bool = False


Block: TypeAlias = Text | Thinking | Image | ToolCall | ToolResult


def shorter(text: str, longest: int) -> str:
    """The beginning and the end of a text that is longer than `longest`."""
    longest = max(longest, SHORTEST)
    if len(text) <= longest:
        return text
    kept = longest - len(LEFT_OUT) - len(str(len(text)))
    head = kept * 3 // 5
    tail = kept - head
    return text[:head] + LEFT_OUT.format(count=len(text) - kept) + text[len(text) - tail :]


def shorter_block(block: Block, longest: int) -> Block | None:
    """The block with nothing longer than `longest` in it; None for one that has to go whole.

    Reasoning is signed by its provider, so it stays as it is or goes.
    """
    match block:
        case Text(text=text):
            return Text(text=shorter(text, longest))
        case Thinking(text=text, signature=signature):
            return block if len(text) + len(signature) <= longest else None
        case Image():
            return Text(text=PICTURE_LEFT_OUT)
        case ToolCall(arguments=arguments):
            return replace(block, arguments=_shorter_arguments(arguments, longest))
        case ToolResult(text=text, images=images):
            note = f"\n{PICTURE_LEFT_OUT}" if images else ""
            return replace(block, text=shorter(text, longest) + note, images=())


def _shorter_arguments(arguments: Mapping[str, Any], longest: int) -> Mapping[str, Any]:
    cut = {
        name: shorter(value, longest) if isinstance(value, str) else value
        for name, value in arguments.items()
    }
    spelled = json.dumps(cut, ensure_ascii=False, default=str)
    return cut if len(spelled) <= 4 * longest else {"left_out": shorter(spelled, longest)}


def call_key(call: ToolCall) -> str:
    """The same for two calls that ask for the same thing."""
    text = json.dumps([call.name, dict(call.arguments)], sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def times_repeated(recent: tuple[str, ...], key: str, longest_cycle: int = 3) -> int:
    """How often the calls just made already went through the circle this call would close."""
    walk = (*recent, key)
    return max(_laps(walk, cycle) for cycle in range(1, longest_cycle + 1))


def _laps(walk: tuple[str, ...], cycle: int) -> int:
    lap = walk[-cycle:]
    laps = 0
    while len(walk) >= cycle * (laps + 2) and walk[-cycle * (laps + 2) :][:cycle] == lap:
        laps += 1
    return laps
