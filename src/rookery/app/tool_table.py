"""The table of all tools, for whoever asks `core.tool_traits`: part of the composition root."""

from collections.abc import Iterator

from rookery.core.tool_traits import ToolTraits, declare_tools


def use_declared_tools() -> None:
    """Nothing is imported before the table is read."""
    declare_tools(_declared_tools)


def _declared_tools() -> Iterator[ToolTraits]:
    from rookery.browser.browser_action import BrowserAction
    from rookery.core.modes import INTENT_TOOLS
    from rookery.mcp.presence import MCP_TOOLS
    from rookery.tools.registry import declared_by, declared_tools

    yield from declared_tools()
    yield declared_by(BrowserAction)
    yield from (*INTENT_TOOLS, *MCP_TOOLS)
