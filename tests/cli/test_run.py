"""Signals to a run that is already ending or does not react."""

import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, sys, time
from rookery.cli import run as hosting
handler = hosting._SignalHandler(None)
handler.install([signal.SIGTERM, signal.SIGINT])
if sys.argv[1] != "never":
    handler._leaving_since = time.monotonic() - float(sys.argv[1])
for _ in range(int(sys.argv[2])):
    os.kill(os.getpid(), signal.SIGTERM)
print("alive")
"""


@pytest.mark.parametrize(
    ("since", "signals", "code"),
    [
        pytest.param("0", 9, 0, id="further ones are ignored at first"),
        pytest.param("6", 1, 143, id="after five seconds one ends it"),
        pytest.param("never", 2, 0, id="two without a handler"),
        pytest.param("never", 3, 143, id="three without a handler"),
    ],
)
def test_repeated_signals_end_a_run_that_does_not_stop(since: str, signals: int, code: int):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, since, str(signals)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (code, "" if code else "alive\n"), done.stderr
