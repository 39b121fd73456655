"""The folder `.orchestration/.state` and what is in it. The folder around it is never made here:
only a person puts a workspace under governance, or takes it out."""

import errno
import os
import stat
from pathlib import Path

STATE = ".state"


def make_state_folder(folder: Path) -> None:
    """Make a folder in the state folder, if it is not there. A repository may bring symbolic
    links, and what is written here must not go where they lead."""
    if folder.name != STATE:
        make_state_folder(folder.parent)
    try:
        there = os.lstat(folder).st_mode
    except FileNotFoundError:
        folder.mkdir(exist_ok=True)
        return
    if stat.S_ISLNK(there):
        raise OSError(errno.ELOOP, f"{folder} is a symbolic link")
    if not stat.S_ISDIR(there):
        raise OSError(errno.ENOTDIR, f"{folder} is no folder")
