"""The command. Which part of it is needed is decided before anything else is imported."""

import gc
import os
import sys

from rookery import NAME, VERSION

OBJECTS_UNTIL_GARBAGE_IS_SOUGHT = 100_000
"""What is made at the start, some sixty thousand objects, stays to the end. To look through all of
it for garbage, again and again while it grows and once more at the exit, would take a fifth of a
short run."""
_M_ARENA_MAX = -8


def _use_one_heap() -> None:
    """Let all threads share one heap. glibc would give each its own, although only one thread runs
    Python at a time."""
    import _ctypes  # `ctypes` itself is slow to import

    libc = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]
    try:  # noqa: SIM105 (contextlib is slow to import)
        _ctypes.call_function(_ctypes.dlsym(libc, "mallopt"), (_M_ARENA_MAX, 1))
    except OSError:
        pass  # another C library


def _import_nothing_from_here() -> None:
    """`python -m` looks for modules in the current folder first, even in an untrusted one."""
    try:
        here = os.getcwd()
    except FileNotFoundError:
        here = ""
    sys.path[:] = [folder for folder in sys.path if folder not in ("", ".", here)]


def main() -> int:
    if sys.argv[1:] in (["--version"], ["-V"]):
        print(f"{NAME} {VERSION}")
        return 0
    _import_nothing_from_here()
    gc.set_threshold(OBJECTS_UNTIL_GARBAGE_IS_SOUGHT)
    if sys.platform == "linux":
        _use_one_heap()
    try:
        from rookery.cli.main import run

        return run(sys.argv[1:])
    except KeyboardInterrupt:  # before there was anything to stop
        return 130
    finally:
        gc.freeze()


if __name__ == "__main__":
    sys.exit(main())
