"""Spread the folders of tests over the disk, so that creating files stays cheap.

ext4 without a journal reuses the inode of a deleted file only after minutes. To create a file, it
checks all these inodes in the block group. By default all folders of a run share one group: after
some thousand tests, creating a file takes a millisecond of processor time.
"""

import fcntl
import os
import sys
from array import array
from contextlib import suppress
from pathlib import Path

import _pytest.tmpdir

_GET_FLAGS, _SET_FLAGS = 0x80086601, 0x40086602
_SPREAD = 0x00020000
"""The attribute T of chattr: each new folder in this one starts in another group."""


def spread_folders(folder: Path) -> None:
    """Put each new subfolder into its own block group, if the file system supports that."""
    if sys.platform != "linux":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        flags = array("l", [0])
        with suppress(OSError):  # not ext4
            fcntl.ioctl(descriptor, _GET_FLAGS, flags)
            flags[0] |= _SPREAD
            fcntl.ioctl(descriptor, _SET_FLAGS, flags)
    finally:
        os.close(descriptor)


def skip_links_to_folders() -> None:
    """Stop pytest from linking to each test's folder. It creates and deletes these links often,
    all in one block group."""
    _pytest.tmpdir._force_symlink = lambda *_: None
