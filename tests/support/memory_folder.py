"""Keep the folders of tests in memory, where a file costs a tenth of the time it costs on a disk.

The folder keeps its path: it is covered by a file system that only this process and those that it
starts see, and that ends with them. What a failed test left is gone then; run it again alone.
"""

import ctypes
import os
import shutil
import sys
from pathlib import Path

from support.disk_waits import TORTURE

MEMORY = Path("/dev/shm")
ROOM = 4 << 30
"""More than all tests of a run leave at any time."""
_NEW_MOUNTS, _PRIVATE, _RECURSIVE = 0x00020000, 1 << 18, 1 << 14


def keep_in_memory(folder: Path) -> bool:
    """Cover the folder, if we may and if there is room. `make torture` uses the disk."""
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
