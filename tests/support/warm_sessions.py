"""Start sessions of a manager without importing the product each time.

Replaces `session_process.spawn`: it asks a process that has imported everything (see `warm_start`).
The result is a child of the manager, in its own session and behind the gate, like those of the
product: the process that forked it ends at once, and the manager adopts it as a sub-reaper. It
shows the command line that it would normally have.
"""

import ctypes
import json
import os
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LOCALE = {"LANG": "C.UTF-8"}
READ_BY_PYTHON = ("PYTHON", "LC_", "MALLOC_", "LD_")
READ_LATER = "PYTHON_KEYRING_BACKEND"
"""By the library `keyring`, which is imported on first use."""
ROOM_FOR_A_NAME = " " * 4096
"""An argument that reserves memory, in which a process writes its own command line."""
PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER = 36, 37
Spawn = Callable[[list[str], Path, int, Mapping[str, str]], int]


def needs_plain_start(environ: Mapping[str, str]) -> bool:
    """Whether the environment has variables that only a new interpreter reads."""
    if sys.platform != "linux":  # no SOCK_SEQPACKET elsewhere
        return True
    return environ.get("LANG") != LOCALE["LANG"] or any(
        name.startswith(READ_BY_PYTHON) for name in environ if name != READ_LATER
    )


def ask_for(starter: socket.socket, streams: Sequence[int], **request: Any) -> socket.socket:
    """Send the request, and return a socket to the new process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        body = json.dumps(request).encode()
        socket.send_fds(starter, [body], [*streams, theirs.fileno()])
    return ours


def spawn_from(starter: socket.socket) -> Spawn:
    """Return a replacement for `spawn`."""
    from rookery.manager.sessions.session_process import spawn

    def spawn_warm(command: list[str], log: Path, gate: int, environ: Mapping[str, str]) -> int:
        folder, *program = command
        ours = program[:4] == [sys.executable, "-P", "-m", "rookery"]
        if not ours or needs_plain_start(environ):
            return spawn(command, log, gate, environ)
        with open(log, "wb", opener=_private) as output, _adopting_orphans():
            link = ask_for(
                starter,
                [gate, output.fileno(), output.fileno()],
                arguments=program[4:],
                environ=dict(environ),
                folder=folder,
                shown_as=program,
            )
            with link:
                pid: int = json.loads(link.recv(64))
                assert not link.recv(64), "the process that forked it is gone"
        return pid

    return spawn_warm


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_APPEND | os.O_NOFOLLOW, 0o600)


@contextmanager
def _adopting_orphans() -> Iterator[None]:
    prctl, before = ctypes.CDLL(None).prctl, ctypes.c_int()
    prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(PR_SET_CHILD_SUBREAPER, before.value, 0, 0, 0)


def wait_at_gate() -> None:
    """Wait for a byte in a new process session, as the product's processes do."""
    os.setsid()
    if not os.read(0, 1):
        os._exit(0)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)


def show_as(command: Sequence[str]) -> None:
    """Set the command line that process lists show."""
    said = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    begin, end = int(said[45]), int(said[46])
    line = b"\0".join(map(os.fsencode, command))[: end - begin - 1]
    ctypes.memset(begin, 0, end - begin)
    ctypes.memmove(begin, line, len(line))
