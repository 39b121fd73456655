"""Runs that do not react: signals still end them, without a traceback."""

import fcntl
import signal
import struct
import subprocess
import termios
import time
from pathlib import Path
from typing import IO

from support.terminal_session import A_MOMENT, Installed
from support.warm_start import PipedProcess

FLOOD = """
- calls:
    - {tool: execute_command, arguments: {command: yes | head -c 600000, cwd: null, timeout: null}}
- calls: [{tool: attempt_completion, arguments: {result: Done.}}]
"""


def test_the_third_signal_ends_a_run_whose_reader_stopped_reading(tmp_path: Path):
    installed = Installed(tmp_path)
    flags = [*installed.script(FLOOD), "-p", "--output-format", "stream-json", "go"]
    with installed.piped(*flags) as run:
        _wait_until_stuck(run.stdout)
        for _ in range(3):
            run.send_signal(signal.SIGTERM)
            if _ended(run):
                break
        assert run.wait(60) == 143


def test_without_print_yes_or_a_terminal_nothing_is_changed(tmp_path: Path):
    installed = Installed(tmp_path)
    script = """
- calls: [{tool: write_to_file, arguments: {path: a.txt, content: hi}}]
- calls: [{tool: attempt_completion, arguments: {result: Done.}}]
"""
    ended = installed.run(*installed.script(script), "go")
    assert ended.returncode == 5
    assert ended.stderr.startswith("note: Not interactive: running as with --print")
    assert "not interactive: skips actions that need approval" in ended.stderr
    assert not (installed.workspace / "a.txt").exists()
    assert installed.run(*installed.script(script), "-y", "go").returncode == 0
    assert (installed.workspace / "a.txt").exists()


def _wait_until_stuck(out: IO[bytes]) -> None:
    """Until no more fits into the pipe. A piece that is larger than half a page takes a whole
    one, so how much that is depends on the pieces."""
    half = fcntl.fcntl(out, fcntl.F_GETPIPE_SZ) // 2
    before = unchanged = 0
    while unchanged < 50:
        time.sleep(A_MOMENT)
        held = _held(out)
        unchanged = unchanged + 1 if half <= held == before else 0
        before = held


def _held(out: IO[bytes]) -> int:
    (count,) = struct.unpack("i", fcntl.ioctl(out, termios.FIONREAD, b"\0" * 4))
    return int(count)


def _ended(run: "subprocess.Popen[bytes] | PipedProcess") -> bool:
    try:
        run.wait(1)
    except subprocess.TimeoutExpired:
        return False
    return True
