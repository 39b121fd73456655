"""Keep the folders of tests in memory, where creating a file takes a tenth of the time.

A tmpfs is mounted over the folder. Only this process and its children see it, and it vanishes with
them. To inspect what a failed test left, run that test alone.
"""

import ctypes
import os
import shutil
import sys
from pathlib import Path

from support.disk_waits import TORTURE

MEMORY = Path("/dev/shm")
ROOM = 4 << 30
"""More space than a run ever uses."""
_NEW_MOUNTS, _PRIVATE, _RECURSIVE = 0x00020000, 1 << 18, 1 << 14


def keep_in_memory(folder: Path) -> bool:
    """Mount over the folder if permitted and if there is room. `make torture` uses the disk."""
    if sys.platform != "linux" or os.geteuid() != 0 or os.environ.get(TORTURE):
        return False
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < ROOM:
        return False
    libc, nothing = ctypes.CDLL(None), ctypes.c_void_p()
    if libc.unshare(_NEW_MOUNTS) != 0:
        return False
    if libc.mount(b"none", b"/", nothing, _RECURSIVE | _PRIVATE, nothing) != 0:
        return False
    return bool(libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, b"mode=700") == 0)
