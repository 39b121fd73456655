"""Spread the folders of tests over the disk, so that creating files stays cheap.

ext4 without a journal does not reuse an inode for minutes after its file was deleted, and looks at
each of them before it creates a file in the same block group. All folders of a run are created in
one group: after some thousand tests, creating a file takes a millisecond of processor time.
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
    """Give each new folder in this one a block group of its own, on file systems that can."""
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
    """Make pytest leave out its link to each test's folder, which it deletes for the next test of
    almost the same name: all links are in one group."""
    _pytest.tmpdir._force_symlink = lambda *_: None
