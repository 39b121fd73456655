"""Standard streams that never fail when they are written."""

import codecs
import errno
import io
import os
import select
import sys
from typing import Any, TextIO

from rookery.core.text.terminal_text import spell_plainly

READER_GONE = {errno.EPIPE, errno.EIO, errno.ECONNRESET, errno.ESHUTDOWN}
"""The reader closed the pipe, the terminal hung up, or the peer is gone."""

DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class LossyStream:
    """A stream that drops its output if it cannot be written."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError:
            discard_output(self._stream)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            discard_output(self._stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def prepare_streams() -> None:
    """Make sure that printing never fails: on missing streams or characters the encoding lacks."""
    codecs.register_error("plainly", spell_plainly)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
        elif mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="plainly")
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr = LossyStream(sys.stderr)


def output_error(error: OSError) -> OSError | None:
    """Return why standard output cannot be written; None if the error is about something else.
    Buffered output is dropped then, or Python would report the error again at exit."""
    is_closed = error.errno in READER_GONE and _is_closed(sys.stdout)
    lost = error if is_closed or error.errno in DISK_FULL else None
    try:
        sys.stdout.flush()
    except OSError as still_wrong:
        lost = still_wrong
    if lost:
        discard_output(sys.stdout)
    return lost


def _is_closed(stream: TextIO) -> bool:
    poll = select.poll()
    poll.register(stream.fileno(), 0)
    return bool(poll.poll(0))


def discard_output(stream: TextIO) -> None:
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, stream.fileno())
    os.close(devnull)
