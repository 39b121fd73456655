"""What a model reads and writes: the blocks a turn is made of."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec import Struct, field


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
