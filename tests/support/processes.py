"""Read parents and descendants of processes from /proc."""

from pathlib import Path

import anyio

PATIENCE = 60.0
"""Seconds to wait for a process on a busy machine."""


def is_alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def parent_of(pid: int) -> int:
    """0 if the process has ended."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    return int(status.rpartition(")")[2].split()[1])


def descendants(pid: int) -> list[int]:
    """A process and all its descendants."""
    pids = [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]
    parents = {each: parent_of(each) for each in pids}
    found = [pid]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found


def command_line(pid: int) -> bytes:
    return _content(pid, "cmdline")


def environment(pid: int) -> bytes:
    return _content(pid, "environ")


def _content(pid: int, name: str) -> bytes:
    """Empty if the process has ended."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


async def until_gone(pids: list[int]) -> None:
    with anyio.fail_after(PATIENCE):
        for pid in pids:
            while is_alive(pid):  # noqa: ASYNC110 (most are not our children)
                await anyio.sleep(0.02)
