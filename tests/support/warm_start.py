"""Start the real command without importing it each time.

    with start_warm(["list"], environ, folder, streams=(in_, out, err)) as process:
        assert process.wait(60) == 0

Run as a script, this is a process that has imported the product and started nothing. It forks for
every request: the child gets the streams, the environment and the folder of the request, becomes
`rookery`, and ends as Python ends. It may be killed like any other process, and its own children
are not cleaned up. Variables that Python reads at startup have no effect, so a test that needs
another locale or hash seed starts the command normally (see `needs_plain_start`).
"""

import atexit
import fcntl
import gc
import io
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, NoReturn, Self

from support.command_server import import_everything
from support.disk_waits import TORTURE
from support.warm_sessions import (
    LOCALE,
    ROOM_FOR_A_NAME,
    ask_for,
    needs_plain_start,
    show_as,
    spawn_from,
    wait_at_gate,
)

__all__ = [
    "PipedProcess",
    "WarmProcess",
    "begin",
    "needs_plain_start",
    "start_piped",
    "start_warm",
    "warm_sessions",
]
LARGEST_REQUEST = 1 << 20
_OPEN_FILES = 1024
_TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class WarmProcess:
    """As much of `subprocess.Popen` as our tests need."""

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
            with suppress(ProcessLookupError):  # ended, but not reported yet
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def _hear(self, timeout: float | None) -> bytes:
        link = select.poll()  # not select: long runs have more than 1,024 open files
        link.register(self._link, select.POLLIN)
        if not link.poll(None if timeout is None else timeout * 1000):
            raise subprocess.TimeoutExpired("rookery", timeout or 0)
        said = self._link.recv(64)
        assert said, "the process that starts commands has ended"
        return said


class PipedProcess(WarmProcess):
    """A process with pipes to its standard streams."""

    def __init__(self, link: socket.socket, stdin: int, stdout: int, stderr: int) -> None:
        super().__init__(link)
        self.stdin = os.fdopen(stdin, "wb")
        self.stdout = os.fdopen(stdout, "rb")
        self.stderr = os.fdopen(stderr, "rb")

    def __exit__(self, *_: object) -> None:
        for each in (self.stdin, self.stdout, self.stderr):
            with suppress(BrokenPipeError):
                each.close()
        self.wait()


def start_piped(
    arguments: Sequence[str], environ: Mapping[str, str], folder: str, *, program: str = ""
) -> PipedProcess:
    """Start `rookery` or another Python program with pipes."""
    (stdin, into), (out, stdout), (err, stderr) = os.pipe(), os.pipe(), os.pipe()
    streams = [stdin, stdout, stderr]
    try:
        link = begin(arguments, environ, folder, streams, program=program)
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
    manages: bool = False,
) -> WarmProcess:
    """Run `rookery` in a new process. With `terminal`, its standard input is the controlling
    terminal of its own session. With `manages`, it starts sessions warm too."""
    return WarmProcess(
        begin(arguments, environ, folder, streams, terminal=terminal, manages=manages)
    )


def begin(
    arguments: Sequence[str],
    environ: Mapping[str, str],
    folder: str,
    streams: Sequence[int],
    *,
    terminal: bool = False,
    manages: bool = False,
    program: str = "",
) -> socket.socket:
    """Start `rookery` or another Python program, and return a socket to its process."""
    return ask_for(
        _starter(),
        streams,
        arguments=list(arguments),
        environ=dict(environ),
        folder=folder,
        terminal=terminal,
        manages=manages,
        program=program,
        uses_mcp=_uses_mcp(arguments, environ, folder),
    )


def _uses_mcp(arguments: Sequence[str], environ: Mapping[str, str], folder: str) -> bool:
    """Whether the run will probably connect to a server."""
    places = (f"{folder}/.rookery", f"{environ.get('ROOKERY_HOME', '')}/config")
    return "mcp" in arguments[:1] or any(os.path.exists(f"{each}/mcp.json") for each in places)


@contextmanager
def warm_sessions() -> Iterator[None]:
    """Make a manager in this process start sessions warm."""
    from rookery.manager.sessions import session_process

    plainly = session_process.spawn
    session_process.spawn = spawn_from(_starter())  # type: ignore[assignment]
    try:
        yield
    finally:
        session_process.spawn = plainly


@cache
def _starter() -> socket.socket:
    """The server process, shared by all tests of this process."""
    ours, theirs = _pair()
    process = subprocess.Popen(
        [sys.executable, __file__, ROOM_FOR_A_NAME],
        stdin=theirs.fileno(),
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join([*_product(), _TESTS]),
            **LOCALE,
            **{name: value for name, value in os.environ.items() if name == TORTURE},
        },
        cwd="/",
        start_new_session=True,
    )
    theirs.close()

    @atexit.register
    def end() -> None:
        ours.close()
        process.wait()

    return ours


def _pair() -> tuple[socket.socket, socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LARGEST_REQUEST)
    return ours, theirs


def _product() -> list[str]:
    """The import path of the product, which may be a copy of the sources."""
    import rookery

    return [os.path.dirname(os.path.dirname(str(rookery.__file__)))]


# ── the server process ──────────────────────────────────────────────────────────────────


def _serve(link: socket.socket) -> int:
    """Serve requests. Returns the exit code in a child, and in the server once the client is
    gone."""
    awake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken)
    watched: dict[int, socket.socket] = {}
    while True:
        for ready in select.select([link.fileno(), awake], [], [])[0]:
            if ready == awake:
                os.read(awake, 4096)
                _report_ended(watched)
                continue
            body, descriptors, _, _ = socket.recv_fds(link, LARGEST_REQUEST, 8)
            if not body:
                return 0
            *streams, watcher = descriptors
            request = json.loads(body)
            if request.get("uses_mcp"):
                _import_mcp()
            child = os.fork()
            if child == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for each in (link, *watched.values()):
                    each.detach()  # the number may be reused
                return _become(request, streams, watcher)
            received = socket.socket(fileno=watcher)
            if "shown_as" in request:
                os.waitpid(child, 0)
                received.close()
            else:
                watched[child] = received
                received.send(json.dumps(child).encode())
            for stream in streams:
                os.close(stream)


def _report_ended(watched: dict[int, socket.socket]) -> None:
    while watched:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        # the caller may be gone
        with watched.pop(pid) as watcher, suppress(OSError):
            watcher.send(json.dumps(os.waitstatus_to_exitcode(status)).encode())


def _prepare() -> None:
    import_everything()
    for folder in (_TESTS, os.path.dirname(os.path.abspath(__file__))):
        sys.path.remove(folder)  # keeps helpers out of children
    assert threading.active_count() == 1, "a thread would be lost in a child"
    assert tempfile.tempdir is None, "a child would not read its own environment"


@cache
def _import_mcp() -> None:
    """Takes longer than the rest of such a run; other runs would pay for the memory."""
    import mcp.client.client
    import mcp.client.sse  # noqa: F401

    gc.freeze()


def _become(request: dict[str, Any], streams: Sequence[int], watcher: int) -> int:
    """Run the request. Also returns in a helper process that is forked to start sessions."""
    terminal, shown_as = request.get("terminal"), request.get("shown_as")
    if shown_as:
        _detach(watcher, shown_as)
    if terminal:
        os.setsid()
    for standard, given in enumerate(streams):
        os.dup2(given, standard)
    os.closerange(3, _OPEN_FILES)
    if shown_as:
        wait_at_gate()
    if terminal:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    if request.get("manages"):
        ours, theirs = _pair()
        if os.fork() == 0:
            return _serve_a_manager(ours, theirs)
        theirs.close()
        from rookery.manager.sessions import session_process

        session_process.spawn = spawn_from(ours)  # type: ignore[assignment]
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environ"])
    time.tzset()
    open_standard_streams()
    return _run(request["arguments"], request.get("program"))


def _detach(watcher: int, shown_as: Sequence[str]) -> None:
    """Fork and let the parent exit, so that the sub-reaper adopts the process; report its id
    after its command line is set."""
    if os.fork():
        os._exit(0)
    show_as(shown_as)
    with socket.socket(fileno=watcher) as link, suppress(OSError):  # the caller may be gone
        link.send(json.dumps(os.getpid()).encode())


def _serve_a_manager(its: socket.socket, link: socket.socket) -> int:
    its.close()
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nothing, standard)
    return _serve(link)


def _run(arguments: list[str], program: str | None) -> int:
    if program:
        sys.argv = [program, *arguments]
        sys.path.insert(0, _TESTS)
        try:
            runpy.run_path(program, run_name="__main__")
        except SystemExit as end:
            return int(end.code or 0)
        return 0
    sys.argv = ["rookery", *arguments]
    from rookery.__main__ import main

    return main()


def open_standard_streams() -> None:
    """Open the standard streams as Python does at startup, which depends on terminals."""
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
    """End as Python does, but without tearing down imported modules, which takes longer than
    most runs."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    gc.collect()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream and not stream.closed:
                stream.flush()
    except Exception:
        sys.exit(code)  # Python reports the failed write with its own exit code
    os._exit(code)


if __name__ == "__main__":
    _prepare()
    _end(_serve(socket.socket(fileno=os.dup(0))))
