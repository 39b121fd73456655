"""Where servers are configured, and whether any may be: all that a start without any needs."""

import os
from pathlib import Path

from rookery import PROJECT_FOLDER
from rookery.core.tool_traits import ToolGroup, ToolTraits

FILE_NAME = "mcp.json"
PROJECT_FILES = (f"{PROJECT_FOLDER}/{FILE_NAME}", f".roo/{FILE_NAME}")
"""The first wins where both define a server."""
USE, ACCESS = "use_mcp_tool", "access_mcp_resource"
MCP_TOOLS = (
    ToolTraits(name=USE, group=ToolGroup.MCP, row_name=USE),
    ToolTraits(name=ACCESS, group=ToolGroup.MCP, row_name=ACCESS, only_reads=True),
)
"""Declared here, so that nothing of a server is imported for it."""


def is_configured(user_file: Path, workspace: Path) -> bool:
    """Whether there is a file at all. Nothing is read."""
    return any(map(os.path.exists, (user_file, *(workspace / name for name in PROJECT_FILES))))
