"""Results of servers as the model reads them, and connection errors as text.

Messages of HTTP errors may contain secrets of a URL, so only their type is reported.
"""

import base64
import binascii
import json
import re
import unicodedata
from typing import TYPE_CHECKING, Any

from rookery.core.blocks import Image, image_facts
from rookery.core.facts import Ending
from rookery.core.instructions import quoted
from rookery.core.limits import KIB, MIB
from rookery.core.text.characters import whole
from rookery.core.text.output_preview import Preview
from rookery.engine.ports.actions import Outcome
from rookery.engine.ports.tool import ToolContext
from rookery.mcp.config import ServerDefinition, shown_url

if TYPE_CHECKING:
    from mcp_types import CallToolResult, GetPromptResult, ReadResourceResult

_UNSEEN = {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}
_KEPT = {"\n", "\t"}
_TAG = re.compile(r"<(?=[\s/]*[A-Za-z!?])(?!U\+)")
_SELECTORS = (range(0xFE00, 0xFE0F), range(0xE0100, 0xE01F0))


def visible(text: str, most: int) -> str:
    """At most `most` characters, with hidden and reordering characters spelled out."""
    text = whole(text)
    cut = text if len(text) <= most else text[: most - 1] + "…"
    return cut if cut.isascii() and cut.isprintable() else "".join(map(_spell_out, cut))


def visible_line(text: str, most: int) -> str:
    """The same on one line and without tags, so that it cannot imitate our own markup."""
    return visible(_TAG.sub("‹", " ".join(text.split())), most)


def _spell_out(char: str) -> str:
    if char in _KEPT:
        return char
    code = ord(char)
    hidden = unicodedata.category(char) in _UNSEEN or any(code in each for each in _SELECTORS)
    return f"<U+{code:04X}>" if hidden else char


LONGEST = 1000
CLOSED = "The connection was closed."


class ServerFailure(Exception):
    """Why a server could not be started, or its connection ended."""


def error_text(error: BaseException, server: ServerDefinition) -> str:
    if isinstance(error, ServerFailure):
        return visible_line(str(error), LONGEST)
    import httpx2
    from mcp import MCPError
    from mcp_types import PARSE_ERROR

    match error:
        case BaseExceptionGroup(exceptions=(first, *_)):
            return error_text(first, server)
        case MCPError(code=code) if code == PARSE_ERROR:
            return "Its answer is not an MCP message."
        case MCPError():
            return visible_line(str(error), LONGEST)
        case httpx2.HTTPStatusError():
            return f"{shown_url(server.url)} answered with status {error.response.status_code}."
        case httpx2.ConnectError() | httpx2.ConnectTimeout():
            return f"{shown_url(server.url)} cannot be reached."
        case httpx2.SSEError():
            return f"{shown_url(server.url)} sent no event stream, or one that is too large."
        case httpx2.HTTPError():
            return f"The connection to {shown_url(server.url)} failed ({type(error).__name__})."
        case _:
            kind = type(error).__name__
            return visible_line(f"The connection failed ({kind}: {error}).", LONGEST)


def is_closed(error: Exception) -> bool:
    """Whether the error means that the connection is closed."""
    from mcp import MCPError
    from mcp_types import CONNECTION_CLOSED

    return isinstance(error, MCPError) and error.code == CONNECTION_CLOSED


QUOTED = "mcp_result"
NO_RESPONSE = "(No response)"
MOST_IMAGES = 10
IMAGES_TOGETHER = 20 * MIB
MOST_PIXELS = 40_000_000
_SHOWN_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")


def tool_outcome(result: "CallToolResult", ctx: ToolContext) -> Outcome:
    parts = _Parts(ctx)
    for block in result.content:
        parts.add(block)
    if not parts.texts and not parts.images and result.structured_content is not None:
        parts.texts.append(json.dumps(result.structured_content, ensure_ascii=False))
    text = parts.text()
    return Outcome(
        text=f"Error: {text}" if result.is_error else text,
        images=tuple(parts.images),
        ending=Ending.FAILED if result.is_error else Ending.DONE,
    )


def resource_outcome(result: "ReadResourceResult", ctx: ToolContext) -> Outcome:
    parts = _Parts(ctx)
    for content in result.contents:
        parts.add_content(content)
    return Outcome(text=parts.text(), images=tuple(parts.images))


def prompt_text(result: "GetPromptResult") -> str:
    """The text of a prompt; other content is only named."""
    output = []
    for message in result.messages:
        text = getattr(message.content, "text", None)
        words = whole(text) if isinstance(text, str) else f"({message.content.type}, not shown)"
        output.append(f"[assistant] {words}" if message.role == "assistant" else words)
    return "\n\n".join(output)


def capped(text: str, ctx: ToolContext) -> str:
    """The text, or its head and tail while the whole is stored as an artifact."""
    size = len(text.encode("utf-8", "replace"))
    if size <= ctx.limits.output_for_model:
        return text
    kept = ctx.artifacts.create()
    kept.write(text.encode("utf-8", "replace"))
    kept.close()
    preview = Preview(size=ctx.limits.output_for_model, head=ctx.limits.output_head)
    preview.add(text)
    return (
        f"{size} bytes, kept as {kept.id}. This is the beginning and the end; read_command_output "
        f"reads or searches the rest.\n{preview.text()}"
    )


class _Parts:
    def __init__(self, ctx: ToolContext) -> None:
        self.texts: list[str] = []
        self.images: list[Image] = []
        self._ctx = ctx
        self._room = IMAGES_TOGETHER

    def text(self) -> str:
        output = "\n\n".join(whole(text) for text in self.texts if text)
        if not output:
            return "" if self.images else NO_RESPONSE
        return capped(quoted(QUOTED, output), self._ctx)

    def add(self, block: Any) -> None:
        match block.type:
            case "text":
                self.texts.append(block.text)
            case "image":
                self._add_image(block.data, block.mime_type)
            case "audio":
                self.texts.append(f"(Sound, {_line(block.mime_type)}; not supported.)")
            case "resource_link":
                self.texts.append(f"(Resource {_line(block.name)}: {_line(str(block.uri))})")
            case "resource":
                self.add_content(block.resource)
            case other:
                self.texts.append(f"({_line(str(other))}, which cannot be shown.)")

    def add_content(self, content: Any) -> None:
        text = getattr(content, "text", None)
        if isinstance(text, str):
            self.texts.append(text)
            return
        kind = content.mime_type or ""
        if kind.startswith("image/"):
            self._add_image(content.blob, kind)
            return
        size = len(content.blob) * 3 // 4
        self.texts.append(
            f"({_line(str(content.uri))}: {_line(kind) or 'data'}, {size} bytes, not shown.)"
        )

    def _add_image(self, data: str, kind: str) -> None:
        reason = self._why_not(data)
        if reason:
            self.texts.append(f"(Image, {_line(kind)}; {reason}.)")
            return
        facts = image_facts(base64.b64decode(data))
        assert facts is not None
        self._room -= len(data)
        self.images.append(Image(media_type=facts.media_type, data=data))

    def _why_not(self, data: str) -> str:
        if not self._ctx.sees_images:
            return "this model does not accept images"
        if len(data) * 3 // 4 > self._ctx.limits.image_bytes:
            return f"too large to be shown, the limit is {self._ctx.limits.image_bytes // KIB} KiB"
        if len(self.images) >= MOST_IMAGES or len(data) > self._room:
            return "not shown, there are too many"
        try:
            facts = image_facts(base64.b64decode(data, validate=True))
        except (ValueError, binascii.Error):
            return "its data is damaged"
        if facts is None or facts.media_type not in _SHOWN_TYPES or not facts.pixels:
            return "models do not accept this type"
        return "too many pixels to be shown" if facts.pixels > MOST_PIXELS else ""


def _line(text: str) -> str:
    return visible_line(text, 200)
