"""Why a connection could not be made or was lost, in words for a person or a model.

Errors of HTTP may show what is secret in a URL, so of those only the kind is told.
"""

from rookery.mcp.config import ServerDefinition, shown_url
from rookery.mcp.visible_text import visible_line

LONGEST = 1000
CLOSED = "The connection was closed."


class Failure(Exception):
    """A server could not be started, or its connection is over; the text says why."""


def in_words(error: BaseException, server: ServerDefinition) -> str:
    if isinstance(error, Failure):
        return visible_line(str(error), LONGEST)
    import httpx2
    from mcp import MCPError
    from mcp_types import PARSE_ERROR

    match error:
        case BaseExceptionGroup(exceptions=(first, *_)):
            return in_words(first, server)
        case MCPError(code=code) if code == PARSE_ERROR:
            return "It answered with something that is no MCP message."
        case MCPError():
            return visible_line(str(error), LONGEST)
        case httpx2.HTTPStatusError():
            return f"{shown_url(server.url)} answered with status {error.response.status_code}."
        case httpx2.ConnectError() | httpx2.ConnectTimeout():
            return f"{shown_url(server.url)} cannot be reached."
        case httpx2.SSEError():
            return f"{shown_url(server.url)} sent no stream of events, or too large a one."
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
