"""Starts the real command without paying for its imports each time.

    with start_warm(["list"], environ, folder, streams=(in_, out, err)) as process:
        assert process.wait(20) == 0

Run as a script this is a process that has imported the product and started nothing. For every
request it forks: the child takes the streams, the environment and the folder that it is given,
becomes `rookery` and ends as Python ends. It may be killed like any other process, and nobody
looks after what it leaves behind. What Python itself reads when it starts cannot be given to it:
whoever wants another locale or seed starts the command plainly (see `needs_plain_start`).
"""

import atexit
import fcntl
import gc
import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import NoReturn, Self

from command_server import import_everything

LOCALE = {"LANG": "C.UTF-8"}
READ_BY_PYTHON = ("PYTHON", "LC_", "MALLOC_", "LD_")
LARGEST_REQUEST = 1 << 20
_OPEN_FILES = 1024


def needs_plain_start(environ: Mapping[str, str]) -> bool:
    """Whether there is something in the environment that is heard only by a new interpreter."""
    if sys.platform != "linux":  # others have no sockets of the kind that is used here
        return True
    return environ.get("LANG") != LOCALE["LANG"] or any(
        name.startswith(READ_BY_PYTHON) for name in environ
    )


class WarmProcess:
    """What `subprocess.Popen` is, as far as our tests need it."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self.returncode: int | None = None
        self.pid: int = json.loads(self._hear(None))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self.returncode = int(json.loads(self._hear(timeout)))
            self._link.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _hear(self, timeout: float | None) -> bytes:
        ready, _, _ = select.select([self._link], [], [], timeout)
        if not ready:
            raise subprocess.TimeoutExpired("rookery", timeout or 0)
        said = self._link.recv(64)
        assert said, "whoever starts commands has ended"
        return said


class PipedProcess(WarmProcess):
    """With pipes to its standard streams, which close when they are closed here."""

    def __init__(self, link: socket.socket, stdin: int, stdout: int, stderr: int) -> None:
        super().__init__(link)
        self.stdin = os.fdopen(stdin, "wb")
        self.stdout = os.fdopen(stdout, "rb")
        self.stderr = os.fdopen(stderr, "rb")


def start_piped(arguments: Sequence[str], environ: Mapping[str, str], folder: str) -> PipedProcess:
    """As `start_warm`, for whoever talks to it."""
    (stdin, into), (out, stdout), (err, stderr) = os.pipe(), os.pipe(), os.pipe()
    streams = [stdin, stdout, stderr]
    try:
        link = _ask_for(arguments, environ, folder, streams=streams, terminal=False)
    finally:
        for each in streams:
            os.close(each)
    return PipedProcess(link, into, out, err)


def start_warm(
    arguments: Sequence[str],
    environ: Mapping[str, str],
    folder: str,
    *,
    streams: Sequence[int],
    terminal: bool = False,
) -> WarmProcess:
    """Become `rookery` in a new process. With `terminal` its standard input is the terminal that
    controls a session of its own."""
    return WarmProcess(_ask_for(arguments, environ, folder, streams=streams, terminal=terminal))


def _ask_for(
    arguments: Sequence[str],
    environ: Mapping[str, str],
    folder: str,
    *,
    streams: Sequence[int],
    terminal: bool,
) -> socket.socket:
    """What the new process is heard of by."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        request = {
            "arguments": list(arguments),
            "environ": dict(environ),
            "folder": folder,
            "terminal": terminal,
        }
        body = json.dumps(request).encode()
        socket.send_fds(_starter(), [body], [*streams, theirs.fileno()])
    return ours


@cache
def _starter() -> socket.socket:
    """One for this process and all its tests."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LARGEST_REQUEST)
    process = subprocess.Popen(
        [sys.executable, __file__],
        stdin=theirs.fileno(),
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(_product()), **LOCALE},
        cwd="/",
        start_new_session=True,
    )
    theirs.close()

    @atexit.register
    def end() -> None:
        ours.close()
        process.wait()

    return ours


def _product() -> list[str]:
    """Where a test that is run in a copy of the sources has the product from."""
    import rookery

    return [os.path.dirname(os.path.dirname(str(rookery.__file__)))]


# ── the process that starts others ──────────────────────────────────────────────────────


def _serve() -> int:
    """Returns in a child, with what it ends with, and when nobody is there to ask for more."""
    link = socket.socket(fileno=os.dup(0))
    _prepare()
    awake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken)
    watched: dict[int, socket.socket] = {}
    while True:
        for ready in select.select([link.fileno(), awake], [], [])[0]:
            if ready == awake:
                os.read(awake, 4096)
                _tell_who_ended(watched)
                continue
            body, descriptors, _, _ = socket.recv_fds(link, LARGEST_REQUEST, 8)
            if not body:
                return 0
            *streams, watcher = descriptors
            child = os.fork()
            if child == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for each in (link, *watched.values()):
                    each.detach()  # whatever has this number later on is none of ours
                return _become(json.loads(body), streams)
            watched[child] = socket.socket(fileno=watcher)
            watched[child].send(json.dumps(child).encode())
            for stream in streams:
                os.close(stream)


def _tell_who_ended(watched: dict[int, socket.socket]) -> None:
    while watched:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        # whoever waited for it may be gone
        with watched.pop(pid) as watcher, suppress(OSError):
            watcher.send(json.dumps(os.waitstatus_to_exitcode(status)).encode())


def _prepare() -> None:
    import_everything()
    sys.path.remove(os.path.dirname(os.path.abspath(__file__)))  # no child imports our helpers
    assert threading.active_count() == 1, "a thread would be lost in a child"
    assert tempfile.tempdir is None, "a child would not look at its own environment"


def _become(request: dict[str, object], streams: Sequence[int]) -> int:
    terminal, environ, arguments = request["terminal"], request["environ"], request["arguments"]
    assert isinstance(environ, dict)
    assert isinstance(arguments, list)
    if terminal:
        os.setsid()
    for standard, given in enumerate(streams):
        os.dup2(given, standard)
    os.closerange(3, _OPEN_FILES)
    if terminal:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(str(request["folder"]))
    os.environ.clear()
    os.environ.update(environ)
    time.tzset()
    _open_standard_streams()
    sys.argv = ["rookery", *arguments]
    from rookery.__main__ import main

    return main()


def _open_standard_streams() -> None:
    """As Python does when it starts, which asks whether they are terminals."""
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        raw = io.FileIO(number, mode, closefd=False)
        buffered = io.BufferedReader(raw) if mode == "r" else io.BufferedWriter(raw)
        stream = io.TextIOWrapper(
            buffered,
            encoding="utf-8",
            errors="backslashreplace" if name == "stderr" else "surrogateescape",
            line_buffering=name == "stderr" or (mode == "w" and raw.isatty()),
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _end(code: int) -> NoReturn:
    """As Python ends, but without taking apart all that was imported: in a copy of a process that
    takes longer than most runs do."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    gc.collect()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream and not stream.closed:
                stream.flush()
    except Exception:
        sys.exit(code)  # what cannot be written is told by Python itself, which has its own code
    os._exit(code)


if __name__ == "__main__":
    _end(_serve())
