"""What a model reads and writes: the blocks a turn is made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from rookery.core.values import value


@value
class Text:
    text: str


@value
class Thinking:
    """Reasoning the provider let us see.

    `signature` is whatever the provider wants back unchanged; only the wire family that made
    it (`source`) can read it, so no other provider is sent it.
    """

    text: str
    signature: str = ""
    source: str = ""


@value
class Image:
    """A picture; `data` is base64."""

    media_type: str
    data: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call as the model made it. `problem` says why its arguments cannot be used, if so."""

    id: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""


@value
class ToolResult:
    call_id: str
    text: str
    images: tuple[Image, ...] = ()
    is_error: bool = False


Block: TypeAlias = Text | Thinking | Image | ToolCall | ToolResult
