"""Programs of ours run to their end, and leave nothing behind."""

import os
import sys
import time
from pathlib import Path

import pytest

from rookery.platform.own_programs import ProgramTimeout, run_program

ECHO = "import sys; data = sys.stdin.buffer.read(); sys.stdout.buffer.write(data); sys.exit(3)"


def run(code: str, *words: str, **more: object) -> tuple[int, bytes, bytes]:
    argv = [sys.executable, "-I", "-S", "-c", code, *words]
    return run_program(argv, cwd="/", environment={"PATH": os.defpath}, **more)  # type: ignore[arg-type]


def test_input_and_output_may_be_larger_than_a_pipe():
    data = bytes(range(256)) * 4096
    assert run(ECHO, given=data) == (3, data, b"")


def test_a_program_may_ignore_its_input():
    assert run("import sys; sys.stderr.write('no')", given=bytes(10**6)) == (0, b"", b"no")


def test_a_timeout_kills_the_program_and_its_children(tmp_path: Path):
    reported = tmp_path / "pid"
    argv = ["/bin/sh", "-c", f"sleep 60 & echo $! > '{reported}'; wait"]
    with pytest.raises(ProgramTimeout):
        run_program(argv, cwd="/", environment={"PATH": os.defpath}, seconds=1)
    until = time.monotonic() + 60
    while Path(f"/proc/{reported.read_text().strip()}").exists():
        assert time.monotonic() < until


def test_a_program_that_writes_too_much_is_killed():
    with pytest.raises(OSError, match="too much"):
        run("while True: print('x' * 1000)", most=100_000)
