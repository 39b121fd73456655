"""Files of a project by which a harmless question makes a tool run the project's code."""

import os
from collections.abc import Iterator, Sequence

from rookery.commands.file_matches import Looks, expanded
from rookery.commands.program_paths import within
from rookery.commands.programs import Doing

SHIMS = """
    .tool-versions mise.toml .mise.toml mise.local.toml .mise.local.toml .mise .config/mise
    .python-version .ruby-version .node-version
"""
"""By these, programs that only stand for others choose which; it may be one in the project."""
MOST_FOLDERS = 32


def made_to_run(doing: Doing, folders: Sequence[str], root: str) -> Iterator[str]:
    """Why a tool would do more than it is asked, by files in the folder and those above it."""
    if not doing.unless:
        return
    for folder in folders:
        for above in _up_to(folder, root):
            for pattern in doing.unless.split():
                if _is_there(os.path.join(above, pattern)):
                    yield f"the tool may run what {pattern} configures"


def _is_there(pattern: str) -> bool:
    if "*" not in pattern:
        return os.path.lexists(pattern)
    found = expanded(pattern, Looks())
    return found is None or bool(found)


def _up_to(folder: str, root: str) -> Iterator[str]:
    at = os.path.normpath(folder)
    for _ in range(MOST_FOLDERS):
        if not within(at, root):
            return
        yield at
        at = os.path.dirname(at)
