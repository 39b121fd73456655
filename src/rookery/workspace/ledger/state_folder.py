"""The folder `.orchestration/.state` and what is in it. The folder around it is never made here:
only a person puts a workspace under governance, or takes it out."""

import errno
from pathlib import Path

STATE = ".state"


def make_state_folder(folder: Path) -> None:
    """Make a folder in the state folder, if it is not there. A repository may bring symbolic
    links, and what is written here must not go where they lead."""
    if folder.name != STATE:
        make_state_folder(folder.parent)
    if folder.is_symlink():
        raise OSError(errno.ELOOP, f"{folder} is a symbolic link")
    folder.mkdir(exist_ok=True)
