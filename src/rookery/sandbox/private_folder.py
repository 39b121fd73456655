"""The folder of a sandbox's own, which is gone when the sandbox is.

A later run sweeps what a killed one left: the lock in it ends with its process.
"""

import fcntl
import os
import shutil


def held(folder: str) -> int:
    """A lock that ends with this process, however it ends: what is left without one is swept by a
    later run. It is held before it can be seen."""
    lock = os.open(os.path.join(folder, "lock.new"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.rename(os.path.join(folder, "lock.new"), os.path.join(folder, "lock"))
    return lock


def remove_tree(folder: str, lock: int) -> None:
    """Also what commands made unwritable or unreadable in it."""
    for place, folders, _ in os.walk(folder):
        for name in folders:
            if not os.path.islink(inner := os.path.join(place, name)):
                os.chmod(inner, 0o700)
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)
