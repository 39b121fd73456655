"""Whether somebody waits for a key to be typed, as far as the kernel can tell."""

import os
from collections.abc import Iterator
from pathlib import Path

_READ = {"x86_64": 0, "aarch64": 63}
_SELECT = {"x86_64": (23, 270), "aarch64": (72,)}
"""The numbers of the system calls by which a program waits for its input."""


def reads_terminal(terminal: int) -> bool:
    """Whether a process in the foreground of a terminal reads from it; `terminal` is our end.

    Where the system does not tell, nobody is said to wait.
    """
    try:
        group = os.tcgetpgrp(terminal)
    except OSError:
        return False
    return any(_reads(process) for process in _members(group))


def _members(group: int) -> Iterator[Path]:
    for process in Path("/proc").glob("[0-9]*"):
        try:
            said = (process / "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue  # it ended while we looked
        if int(said[2]) == group:
            yield process


def _reads(process: Path) -> bool:
    machine = os.uname().machine
    try:
        number, *arguments = (process / "syscall").read_text(encoding="ascii").split()
        if number == "running" or not arguments:
            return False
        first = int(arguments[0], 16)
        if int(number) == _READ.get(machine):
            return _is_terminal(process, first)
        # whoever watches nothing but its first file waits for that
        return int(number) in _SELECT.get(machine, ()) and first == 1 and _is_terminal(process, 0)
    except OSError:
        return False  # it ended, or is not ours to look at


def _is_terminal(process: Path, file: int) -> bool:
    name = os.readlink(process / "fd" / str(file))
    return name == "/dev/tty" or name.startswith("/dev/pts/")
