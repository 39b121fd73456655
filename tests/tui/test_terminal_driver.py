"""Output of the full screen to a terminal that is gone."""

import os

from textual.drivers._writer_thread import MAX_QUEUED_WRITES

from rookery.tui.terminal_driver import TerminalWriter


class ClosedTerminal:
    """A terminal that has hung up: every write fails."""

    def write(self, text: str) -> int:
        raise OSError(5, os.strerror(5))

    def flush(self) -> None:
        raise OSError(5, os.strerror(5))


def test_output_to_a_closed_terminal_is_discarded_and_never_blocks():
    writer = TerminalWriter(ClosedTerminal())  # type: ignore[arg-type]
    writer.start()
    for _ in range(3 * MAX_QUEUED_WRITES):
        writer.write("text")
    writer.stop()
    assert not writer.is_alive()
