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


def test_what_is_given_and_what_is_written_may_be_larger_than_a_pipe():
    data = bytes(range(256)) * 4096
    assert run(ECHO, given=data) == (3, data, b"")


def test_a_program_need_not_read_what_it_is_given():
    assert run("import sys; sys.stderr.write('no')", given=bytes(10**6)) == (0, b"", b"no")


def test_what_takes_too_long_is_killed_with_all_that_it_started(tmp_path: Path):
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
