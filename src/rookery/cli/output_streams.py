"""Standard output and standard error, whatever becomes of those who read them.

What a command is for goes to standard output: without it there is nothing left to do. What goes
to standard error only accompanies it, so losing that one silences it and ends nothing.
"""

import codecs
import errno
import io
import os
import select
import sys
from typing import Any, TextIO

from rookery.core.text.terminal_text import spell_plainly

LEFT = {errno.EPIPE, errno.EIO, errno.ECONNRESET, errno.ESHUTDOWN}
"""A pipe whose reader has closed it, a terminal that hung up, a peer that is gone."""

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class Dispensable:
    """A stream that may be lost: what cannot be written then goes nowhere."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError:
            lead_nowhere(self._stream)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            lead_nowhere(self._stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def ready_streams() -> None:
    """Whatever is printed later can be printed, in any encoding and with any stream closed."""
    codecs.register_error("plainly", spell_plainly)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
        elif mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="plainly")
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr = Dispensable(sys.stderr)


def why_output_is_lost(error: OSError) -> OSError | None:
    """What keeps standard output from being written, if it is that which went wrong. What was
    still to be written then goes nowhere, or Python complains once more when it exits."""
    nobody_reads = error.errno in LEFT and _nobody_reads(sys.stdout)
    lost = error if nobody_reads or error.errno in FULL else None
    try:
        sys.stdout.flush()
    except OSError as still_wrong:
        lost = still_wrong
    if lost:
        lead_nowhere(sys.stdout)
    return lost


def _nobody_reads(stream: TextIO) -> bool:
    poll = select.poll()
    poll.register(stream.fileno(), 0)
    return bool(poll.poll(0))


def lead_nowhere(stream: TextIO) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
