"""Tests can interrupt what they start, also in a run whose shell ignores Ctrl-C."""

import signal
import subprocess

from support.interrupts import heed_interrupts


def test_children_can_be_interrupted_although_this_process_could_not():
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGQUIT)}
    try:
        for number in before:
            signal.signal(number, signal.SIG_IGN)
        heed_interrupts()
        for number in before:
            done = subprocess.run(["sh", "-c", f"kill -{number} $$"])
            assert done.returncode == -number
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
