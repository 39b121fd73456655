"""Run short programs of tests in their own processes, without importing the product each time.

    done = run_program(CODE, str(folder), ROOKERY_KILLPOINT="files.synced")
    assert done.returncode == -signal.SIGKILL

It does what `python -c CODE ...` does. Run as a script, this is a process that imports the modules
of a program once, and forks for every run. The child may be killed like any other process.
"""

import ast
import atexit
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from functools import cache
from typing import TypeAlias

from support.disk_waits import skip_disk_waits
from support.warm_start import LARGEST_REQUEST, WarmProcess

Process: TypeAlias = WarmProcess | subprocess.Popen[bytes]

_OPEN_FILES = 1024


def run_program(
    code: str, *arguments: str, given: str = "", **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end. `given` is its input, `environ` is added to our own."""
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as stdin,
        tempfile.TemporaryFile("w+", encoding="utf-8") as stdout,
        tempfile.TemporaryFile("w+", encoding="utf-8") as stderr,
    ):
        stdin.write(given)
        stdin.seek(0)
        streams = (stdin.fileno(), stdout.fileno(), stderr.fileno())
        process = _start(code, arguments, environ, streams)
        ended = process.wait()
        for stream in (stdout, stderr):
            stream.seek(0)
        return subprocess.CompletedProcess([*arguments], ended, stdout.read(), stderr.read())


def start_program(
    code: str, *arguments: str, output: int = 2, errors: int = 2, **environ: str
) -> Process:
    """Start a program in its own session, with its output on our standard error."""
    with open(os.devnull, "rb") as nothing:
        return _start(code, arguments, environ, (nothing.fileno(), output, errors))


def _start(
    code: str, arguments: tuple[str, ...], environ: dict[str, str], streams: tuple[int, int, int]
) -> Process:
    if sys.platform != "linux":  # no SOCK_SEQPACKET elsewhere
        path = {"PYTHONPATH": os.pathsep.join(sys.path)}
        return subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            env={**os.environ, **path, **environ},
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            start_new_session=True,
        )
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        request = {"code": code, "arguments": arguments, "environ": {**os.environ, **environ}}
        body = json.dumps(request).encode()
        socket.send_fds(_server(), [body], [*streams, theirs.fileno()])
    return WarmProcess(ours)


@cache
def _server() -> socket.socket:
    """The server process, shared by all tests of this process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LARGEST_REQUEST)
    process = subprocess.Popen(
        [sys.executable, __file__],
        stdin=theirs.fileno(),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    theirs.close()

    @atexit.register
    def end() -> None:
        ours.close()
        process.wait()

    return ours


# ── the server process ──────────────────────────────────────────────────────────────────


def _serve() -> None:
    link = socket.socket(fileno=os.dup(0))
    skip_disk_waits()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children are reaped by the system
    while True:
        body, descriptors, _, _ = socket.recv_fds(link, LARGEST_REQUEST, 8)
        if not body:
            return
        request = json.loads(body)
        _import_for(request["code"])
        if os.fork() == 0:
            *streams, watcher = descriptors
            _watch(request, streams, socket.socket(fileno=watcher))
        for each in descriptors:
            os.close(each)


@cache
def _import_for(code: str) -> None:
    import anyio.lowlevel

    anyio.run(anyio.lowlevel.checkpoint)
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.module:
            importlib.import_module(node.module)
        elif isinstance(node, ast.Import):
            for each in node.names:
                importlib.import_module(each.name)


def _watch(request: dict[str, object], streams: list[int], watcher: socket.socket) -> None:
    """Run the program, and send its process id and its exit code to the caller."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child == 0:
        _become(request, streams)
    try:
        watcher.send(json.dumps(child).encode())
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        watcher.send(json.dumps(ended).encode())
    finally:
        os._exit(0)  # also if the caller is gone


def _become(request: dict[str, object], streams: list[int]) -> None:
    code, arguments, environ = request["code"], request["arguments"], request["environ"]
    assert isinstance(code, str)
    assert isinstance(arguments, list)
    assert isinstance(environ, dict)
    ended = 1
    try:
        os.setsid()
        for standard, given in enumerate(streams):
            os.dup2(given, standard)
        os.closerange(3, _OPEN_FILES)
        os.environ.clear()
        os.environ.update(environ)
        sys.argv = ["-c", *arguments]
        exec(compile(code, "<program>", "exec"), {"__name__": "__main__"})
        ended = 0
    except Exception:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(ended)


if __name__ == "__main__":
    _serve()
