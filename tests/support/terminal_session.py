"""The real command on a real pseudo-terminal.

    with TerminalSession(["rookery", "fix it"], cwd=folder, environ=environ) as terminal:
        terminal.wait_for("Approve?")
        terminal.type("y")
        assert terminal.exit_code() == 0

Tests wait for a text, for the end of the process, or for an effect, never for a time.
"""

import fcntl
import json
import os
import pty
import random
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from llm_server import LlmServer
from rookery.permissions.trust import TrustStore
from support.warm_start import PipedProcess, WarmProcess, needs_plain_start, start_piped, start_warm

COMMAND = str(Path(sys.executable).parent / "rookery")
PATIENCE = 60.0
A_MOMENT = 0.002
CTRL_C = b"\x03"
CTRL_D = b"\x04"
OTHER_COMMANDS = ("auth", "commit", "demo", "list", "rewind")
"""Commands that start no task, and so have no front end to choose."""

_TRACEBACK = re.compile(r"^Traceback", re.MULTILINE)
_COLOURS = re.compile(r"\x1b\[([0-9;]*m|\?2004[hl])")
"""Colours, and the invisible request for bracketed paste."""


class TerminalSession:
    """A process with a pseudo-terminal that the test types into and reads."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        environ: Mapping[str, str],
        columns: int = 100,
        rows: int = 40,
    ) -> None:
        self._command = command
        self._cwd = cwd
        self._environ = environ
        self._size = (columns, rows)
        self._read = b""
        self._seen = 0
        self.typed_before = b""
        """Keys that are typed before the process starts."""

    def __enter__(self) -> Self:
        self._master, slave = pty.openpty()
        self.resize(*self._size)
        self.press(self.typed_before)
        try:
            self.process = self._start(slave)
        finally:
            os.close(slave)
        return self

    def _start(self, slave: int) -> "subprocess.Popen[bytes] | WarmProcess":
        program, *arguments = self._command
        if program == COMMAND and not needs_plain_start(self._environ):
            return start_warm(
                arguments, self._environ, str(self._cwd), streams=[slave] * 3, terminal=True
            )
        return subprocess.Popen(
            self._command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=self._cwd,
            env=self._environ,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)

    @property
    def raw(self) -> str:
        """The raw output so far."""
        return self._read.decode("utf-8", "replace")

    @property
    def screen(self) -> str:
        """The output so far, without colours and carriage returns."""
        return _COLOURS.sub("", self.raw).replace("\r\n", "\n")

    def wait_for(self, text: str) -> str:
        """Read until `text` appears after the last match; return the output before it."""
        deadline = time.monotonic() + PATIENCE
        while (found := self.screen.find(text, self._seen)) < 0:
            if not self._read_more(deadline):
                raise AssertionError(f"{text!r} never came. The screen:\n{self.screen}")
        before = self.screen[self._seen : found]
        self._seen = found + len(text)
        return before

    def type(self, line: str) -> None:
        """Type a line and press Enter."""
        self.press(line.encode() + b"\r")

    def press(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def exit_code(self) -> int:
        """Read until the command has ended, and return its exit code."""
        deadline = time.monotonic() + PATIENCE
        while self._read_more(deadline):
            pass
        try:
            code = self.process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise AssertionError(f"It did not end. The screen:\n{self.screen}") from None
        assert not _TRACEBACK.search(self.screen), self.screen
        return code

    def wait_until_it_listens(self) -> None:
        """Wait until the process sleeps: Python handles a signal between a prompt and `input`
        only after the answer."""
        deadline = time.monotonic() + PATIENCE
        status = Path(f"/proc/{self.process.pid}/stat")
        while status.read_text().rpartition(")")[2].split()[0] != "S":
            assert time.monotonic() < deadline
            time.sleep(A_MOMENT)  # leaves the core to the process

    def hang_up(self) -> int:
        """Close the terminal as its window would, and return the exit code."""
        os.close(self._master)
        self._master = os.open(os.devnull, os.O_RDWR)
        return self.process.wait(PATIENCE)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def _read_more(self, deadline: float) -> bool:
        """Wait for more output. False at its end, or on a timeout."""
        ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError:  # Linux's EIO once the other side is closed
            return False
        self._read += data
        return bool(data)


def _take_terminal() -> None:
    """Make standard input the controlling terminal, so that Ctrl-C works."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def at(server: LlmServer) -> list[str]:
    """Options that select the model at this server."""
    return ["--provider", "anthropic", "-m", "claude-x", "--base-url", server.url]


class Installed:
    """The installed command with its own home, workspace and no keys."""

    def __init__(self, folder: Path, *, trusted: bool = True) -> None:
        self.home = folder / "home"
        self.workspace = folder / "work"
        self.workspace.mkdir()
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "decoy"),
            "ROOKERY_HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "NO_COLOR": "1",
        }
        if trusted:
            TrustStore(self.home / "config" / "trust.json").trust(self.workspace)

    def run(
        self, *arguments: str, input: str | bytes = "", **environ: str
    ) -> subprocess.CompletedProcess[str]:
        """Run the command without a terminal, as programs do."""
        given = input.encode() if isinstance(input, str) else input
        everything = self.environ | environ
        if needs_plain_start(everything):
            code, out, err = _run_plainly(arguments, everything, self.workspace, given)
        else:
            code, out, err = _run_warm(arguments, everything, self.workspace, given)
        assert not _TRACEBACK.search(out + err), err
        return subprocess.CompletedProcess(arguments, code, out, err)

    def start(self, *arguments: str, **environ: str) -> "subprocess.Popen[bytes]":
        """Start the command without a terminal."""
        return subprocess.Popen(
            [COMMAND, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.workspace,
            env=self.environ | environ,
        )

    def piped(self, *arguments: str) -> "subprocess.Popen[bytes] | PipedProcess":
        """Start the command with a pipe for each standard stream."""
        if not needs_plain_start(self.environ):
            return start_piped(arguments, self.environ, str(self.workspace))
        return subprocess.Popen(
            [COMMAND, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.workspace,
            env=self.environ,
        )

    def run_onto(self, *arguments: str, stdin: int, stdout: int, stderr: int) -> int:
        """Run the command with these files as its streams, and return its exit code."""
        streams = [stdin, stdout, stderr]
        process: subprocess.Popen[bytes] | WarmProcess
        if needs_plain_start(self.environ):
            names = dict(zip(("stdin", "stdout", "stderr"), streams, strict=True))
            process = subprocess.Popen(
                [COMMAND, *arguments], cwd=self.workspace, env=self.environ, **names
            )
        else:
            process = start_warm(arguments, self.environ, str(self.workspace), streams=streams)
        with process:
            return process.wait(PATIENCE)

    def terminal(self, *arguments: str, columns: int = 100, **environ: str) -> TerminalSession:
        """Run the command in plain mode, whose output can be read from the start."""
        plain = [] if arguments[:1] and arguments[0] in OTHER_COMMANDS else ["--no-tui"]
        return TerminalSession(
            [COMMAND, *plain, *arguments],
            cwd=self.workspace,
            environ=self.environ | environ,
            columns=columns,
        )

    def script(self, text: str) -> list[str]:
        """Flags that replace the model by a script."""
        file = self.workspace.parent / "script.yaml"
        file.write_text(text, encoding="utf-8")
        return ["--provider", "scripted", "-m", str(file)]

    def sessions(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = json.loads(self.run("list", "--format", "json").stdout)[
            "sessions"
        ]
        return rows


def _run_plainly(
    arguments: Sequence[str], environ: Mapping[str, str], folder: Path, given: bytes
) -> tuple[int, str, str]:
    done = subprocess.run(
        [COMMAND, *arguments],
        input=given,
        cwd=folder,
        env=environ,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def _run_warm(
    arguments: Sequence[str], environ: Mapping[str, str], folder: Path, given: bytes
) -> tuple[int, str, str]:
    pipes = [os.pipe(), os.pipe(), os.pipe()]
    (stdin, writes), (reads_out, stdout), (reads_err, stderr) = pipes
    streams = [stdin, stdout, stderr]
    try:
        process = start_warm(arguments, environ, str(folder), streams=streams)
    finally:
        for each in streams:
            os.close(each)
    try:
        out, err = _talk(writes, given, [reads_out, reads_err])
        return process.wait(PATIENCE), out.decode(), err.decode()
    except subprocess.TimeoutExpired:
        process.kill()
        raise


def _talk(writes: int, given: bytes, reads: Sequence[int]) -> list[bytes]:
    """Write the input of one stream, and read the others to their end."""
    deadline = time.monotonic() + PATIENCE
    left = memoryview(given)  # slicing bytes would copy the rest for every write
    received = dict.fromkeys(reads, b"")
    open_ones = {writes, *reads}
    try:
        while open_ones:
            patience = max(0.0, deadline - time.monotonic())
            ready = select.select(open_ones & received.keys(), open_ones & {writes}, [], patience)
            if not any(ready):
                raise subprocess.TimeoutExpired(COMMAND, PATIENCE)
            for each in ready[0]:
                more = os.read(each, 65536)
                received[each] += more
                if not more:
                    open_ones.discard(each)
            for each in ready[1]:
                left = _written(each, left)
                if not left:
                    open_ones.discard(each)
                    os.close(each)
        return list(received.values())
    finally:
        for each in {*reads, *(open_ones & {writes})}:
            os.close(each)


def _written(pipe: int, given: memoryview) -> memoryview:
    """The rest that is still to be written."""
    try:
        return given[os.write(pipe, given[: select.PIPE_BUF]) :]
    except BrokenPipeError:  # the process no longer reads
        return given[:0]


def a_pause() -> str:
    """A number of seconds to sleep that no other process uses, to find a command from outside:
    in a sandbox it has another process id."""
    return f"{random.uniform(300, 900):.9f}"


def processes_with(word: str) -> list[int]:
    """The processes with that word among their arguments."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes()
        except OSError:  # ended meanwhile
            continue
        if word.encode() in words:
            found.append(int(entry.parent.name))
    return found
