"""Where servers are configured, and whether any may be: all that a start without any needs."""

import os
from pathlib import Path

from rookery import PROJECT_FOLDER

FILE_NAME = "mcp.json"
PROJECT_FILES = (f"{PROJECT_FOLDER}/{FILE_NAME}", f".roo/{FILE_NAME}")
"""The first wins where both define a server."""


def is_configured(user_file: Path, workspace: Path) -> bool:
    """Whether there is a file at all. Nothing is read."""
    return any(map(os.path.exists, (user_file, *(workspace / name for name in PROJECT_FILES))))
