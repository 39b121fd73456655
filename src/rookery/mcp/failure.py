"""Words of a server made fit to be shown, and why a connection could not be made or was lost.

Errors of HTTP may show what is secret in a URL, so of those only the kind is told.
"""

import re
import unicodedata

from rookery.core.text.characters import whole
from rookery.mcp.config import ServerDefinition, shown_url

_UNSEEN = {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}
_KEPT = {"\n", "\t"}
_TAG = re.compile(r"<(?=[\s/]*[A-Za-z!?])(?!U\+)")
_SELECTORS = (range(0xFE00, 0xFE0F), range(0xE0100, 0xE01F0))


def visible(text: str, most: int) -> str:
    """At most so many characters, with nothing in them that is hidden or reorders the rest."""
    text = whole(text)
    cut = text if len(text) <= most else text[: most - 1] + "…"
    return cut if cut.isascii() and cut.isprintable() else "".join(map(_spelled, cut))


def visible_line(text: str, most: int) -> str:
    """The same on one line, in which there is no tag: nothing in it can pose as anybody else."""
    return visible(_TAG.sub("‹", " ".join(text.split())), most)


def _spelled(char: str) -> str:
    if char in _KEPT:
        return char
    code = ord(char)
    hidden = unicodedata.category(char) in _UNSEEN or any(code in each for each in _SELECTORS)
    return f"<U+{code:04X}>" if hidden else char


LONGEST = 1000
CLOSED = "The connection was closed."


class ServerFailure(Exception):
    """A server could not be started, or its connection is over; the text says why."""


def in_words(error: BaseException, server: ServerDefinition) -> str:
    if isinstance(error, ServerFailure):
        return visible_line(str(error), LONGEST)
    import httpx2
    from mcp import MCPError
    from mcp_types import PARSE_ERROR

    match error:
        case BaseExceptionGroup(exceptions=(first, *_)):
            return in_words(first, server)
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
            return visible_line(f"It could not be connected ({kind}: {error}).", LONGEST)


def is_closed(error: Exception) -> bool:
    """Whether the SDK says that there is no connection any more."""
    from mcp import MCPError
    from mcp_types import CONNECTION_CLOSED

    return isinstance(error, MCPError) and error.code == CONNECTION_CLOSED
