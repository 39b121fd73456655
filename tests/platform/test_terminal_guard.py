"""The watcher of a terminal, whose modes may change in a signal handler."""

import os
import signal

from rookery.platform.terminal_guard import TerminalGuard

ROUNDS = 3000


def test_a_signal_handler_can_report_modes_while_they_are_reported():
    master, slave = os.openpty()
    guard = TerminalGuard(slave)
    calls: list[int] = []

    def report(number: int, _: object) -> None:
        calls.append(number)
        guard.off()

    before = signal.signal(signal.SIGALRM, report)
    try:
        for number in range(ROUNDS):
            signal.setitimer(signal.ITIMER_REAL, (1 + number % 60) / 1e6)
            guard.off()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        assert guard._watcher
        guard._watcher.kill()
        guard._watcher.communicate()
        os.close(master)
        os.close(slave)
    assert calls
