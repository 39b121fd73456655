"""Keeps other processes of the same user from looking into this one, where keys are."""

import sys

_PR_SET_DUMPABLE = 4


def disable_core_dumps_and_ptrace() -> None:
    """From now on nobody but root reads our memory or environment, and none of it is dumped.
    The programs that we start can be looked into as ever."""
    if sys.platform == "linux":
        import _ctypes  # what `ctypes` adds to it takes long to import

        libc = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]
        _ctypes.call_function(_ctypes.dlsym(libc, "prctl"), (_PR_SET_DUMPABLE, 0, 0, 0, 0))
