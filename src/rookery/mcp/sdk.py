"""The MCP SDK, which takes a second to import and is therefore imported when it is needed."""

import logging

import anyio.to_thread

from rookery import NAME
from rookery.mcp.failure import Failure

_LOUD = ("mcp", "client", "httpx2")


async def load_sdk() -> None:
    """Import it beside the loop, which meanwhile goes on."""
    try:
        await anyio.to_thread.run_sync(_load)
    except ImportError as error:
        raise Failure(f"The package mcp is missing ({error}). Install it with {NAME}.") from error


def _load() -> None:
    import mcp.client.client
    import mcp.client.sse  # noqa: F401

    for name in _LOUD:
        logger = logging.getLogger(name)
        # what it complains about is said elsewhere; without a handler it would reach the terminal
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())
            logger.propagate = False
