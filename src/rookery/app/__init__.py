"""The composition root: builds a host from settings.

`local_host` opens everything a workspace needs, `host` is what clients talk to, `briefing` gives
models their prompt and tools. This is the only package that may import all others; it makes no
decisions of its own, and nothing but `cli` imports it.
"""

from collections.abc import Iterator

from rookery.core.tool_traits import ToolTraits, declare_tools


def use_declared_tools() -> None:
    """Register all tools with `tool_traits`. Their modules are imported on first use."""
    declare_tools(_declared_tools)


def _declared_tools() -> Iterator[ToolTraits]:
    from rookery.core.modes import INTENT_TOOLS
    from rookery.core.tool_traits import BROWSER, MCP_TOOLS
    from rookery.tools.registry import declared_by, declared_tools
    from rookery.web.web_tools import WebFetch, WebSearch

    yield from declared_tools()
    yield from map(declared_by, (WebFetch, WebSearch))
    yield from (*INTENT_TOOLS, *MCP_TOOLS, BROWSER)
