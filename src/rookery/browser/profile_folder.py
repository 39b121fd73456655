"""The folder that a browser lives in, gone when it is.

A product that is killed cannot remove it. So each folder has a lock which ends with its owner,
and whoever makes the next one removes those that nobody holds. A browser makes sockets below it,
whose paths may not be long.
"""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rookery.errors import ToolError
from rookery.platform.locks import hold_folder, remove_held_folder, sweep_folders

PREFIX = "rookery-browser-"
LONGEST = 56
"""Bytes of a folder's path. The name of a socket below it has up to 46, and both together 103."""
USUAL = (Path("/tmp"), Path("/var/tmp"))
_RANDOM = 8
"""Characters that make a name a new one."""


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A new folder of our own, below the one for temporary files or, if that has too long a path,
    another. Raises `ToolError` if there is none."""
    parents = list(dict.fromkeys([Path(tempfile.gettempdir()), *USUAL]))
    for parent in parents:
        sweep_folders(str(parent), PREFIX)
    folder = _made_in_one_of(parents)
    lock = hold_folder(folder)
    try:
        yield folder
    finally:
        remove_held_folder(folder)
        os.close(lock)


def _made_in_one_of(parents: Sequence[Path]) -> Path:
    most = LONGEST - len("/") - len(PREFIX) - _RANDOM
    problems: list[str] = []
    for parent in parents:
        if len(os.fsencode(parent)) > most:
            problems.append(f"{parent} has a longer one")
            continue
        try:
            return Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        except OSError as error:
            problems.append(f"{parent} cannot be used ({error.strerror})")
    raise ToolError(
        f"The browser was not started: it needs a folder for its files with a path of at most "
        f"{most} bytes, and {'; '.join(problems)}. The user has to set TMPDIR to a short one."
    )
