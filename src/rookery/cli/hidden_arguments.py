"""Takes a key out of what the list of processes shows of our command line.

Whoever can list processes can read their arguments. What a process was started with is in its
own memory, and on Linux the list is read from there, so it can be overwritten.
"""

import os
import sys

SHOWN_BY = "/proc/self/stat"
_ARG_START, _ARG_END = 47, 48
"""Where the kernel tells the ends of the arguments, counted from 0."""


def hide_argument(secret: str) -> None:
    """From now on the argument is not to be seen from outside. Where that cannot be done, it is
    said once."""
    if not _overwritten(os.fsencode(secret)):
        print(
            "note: Other users of this machine can see the key given with -k; the environment "
            "is safer.",
            file=sys.stderr,
        )


def _overwritten(secret: bytes) -> bool:
    if sys.platform != "linux":
        return False
    import ctypes

    try:
        with open(SHOWN_BY, encoding="utf-8") as file:
            fields = file.read().rpartition(")")[2].split()
        # the first two fields, of which the second may hold anything, are cut off
        start, end = int(fields[_ARG_START - 2]), int(fields[_ARG_END - 2])
    except (OSError, ValueError, IndexError):
        return False
    if not 0 < start < end:
        return False
    hidden = ctypes.string_at(start, end - start).replace(secret, b"*" * len(secret))
    ctypes.memmove(start, hidden, len(hidden))
    return True
