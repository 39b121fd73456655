"""The command, or a program of a test, as a process with text pipes.

It has the parts of `subprocess.Popen` that our tests need. It and its sessions start warm, unless
the environment has variables that only a new interpreter reads.
"""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from support.warm_start import WarmProcess, begin, needs_plain_start

PLAINLY = {"PYTHONHASHSEED": "1"}
"""Environment variables that disable warm starts."""


class TextProcess(WarmProcess):
    def __init__(self, link: socket.socket, stdout: int, stderr: int) -> None:
        super().__init__(link)
        self.stdout = os.fdopen(stdout, encoding="utf-8")
        self.stderr = os.fdopen(stderr, encoding="utf-8")

    def __exit__(self, *_: object) -> None:
        self.stdout.close()
        self.stderr.close()
        self.wait()

    def communicate(self, *, timeout: float) -> tuple[str, str]:
        """Its output until it ends. It is killed on a timeout."""
        patience = threading.Timer(timeout, self.kill)
        patience.start()
        try:
            with self.stdout, self.stderr:
                said = self.stdout.read(), self.stderr.read()  # stderr fits into a pipe
            self.wait()
        finally:
            patience.cancel()
        return said


Started: TypeAlias = "subprocess.Popen[str] | TextProcess"


def start_text(
    arguments: Sequence[str],
    environ: Mapping[str, str],
    folder: Path,
    *,
    program: Path | None = None,
    given: str = "",
) -> Started:
    """`given` is its input, small enough to fit into a pipe."""
    stdin, into = os.pipe()
    with os.fdopen(into, "w", encoding="utf-8") as pipe:
        pipe.write(given)
    try:
        if needs_plain_start(environ):
            return _start_plainly(arguments, environ, folder, program, stdin)
        return _start_warm(arguments, environ, folder, program, stdin)
    finally:
        os.close(stdin)


def _start_plainly(
    arguments: Sequence[str],
    environ: Mapping[str, str],
    folder: Path,
    program: Path | None,
    stdin: int,
) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, *([str(program)] if program else ["-m", "rookery"]), *arguments],
        cwd=folder,
        env={"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONSAFEPATH": "1", **environ},
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _start_warm(
    arguments: Sequence[str],
    environ: Mapping[str, str],
    folder: Path,
    program: Path | None,
    stdin: int,
) -> TextProcess:
    (out, stdout), (err, stderr) = os.pipe(), os.pipe()
    try:
        link = begin(
            arguments,
            environ,
            str(folder),
            [stdin, stdout, stderr],
            manages=True,
            program=str(program or ""),
        )
    finally:
        os.close(stdout)
        os.close(stderr)
    return TextProcess(link, out, err)


def processes_with(mark: str) -> list[int]:
    """Running processes with this text in their command line. Numbers of processes mean nothing
    outside a sandbox."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found
