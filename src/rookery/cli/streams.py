"""The standard streams: writing never fails, and reading never hangs.

Standard input may be a pipe without a writer: CI, cron and ssh leave one open for hours. Or a
shell loop reads its list from it. So optional input is read only if no other process reads it. It
is waited for only if a process of the same pipeline writes to it, as in
`make | rookery -p "why does it fail?"`.
"""

import codecs
import errno
import io
import os
import select
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from rookery.core.limits import MIB
from rookery.core.text.terminal_text import spell_plainly
from rookery.errors import SettingsError

READER_GONE = {errno.EPIPE, errno.EIO, errno.ECONNRESET, errno.ESHUTDOWN}
"""The reader closed the pipe, the terminal hung up, or the peer is gone."""

IDLE_SECONDS = 1.0
"""How long a pipe may be silent before it is left alone."""
ANNOUNCED_AFTER = 2.0
MOST_INPUT = 32 * MIB
_CHUNK = 64 * 1024
WRAPPERS = {
    *("timeout", "env", "nice", "ionice", "time", "nohup", "setsid", "stdbuf", "chrt", "taskset"),
    *("strace", "uv", "uvx", "pipx", "tini", "dumb-init", "docker-init", "bwrap", "firejail"),
    *("sudo", "su", "doas", "runuser", "setpriv", "systemd-run", "flock", "unshare", "chpst"),
}
"""Programs that start another and leave it their standard input. Everything else that has the same
input as we may read it: shells, and interpreters that run a loop over its lines."""
SHARED_INPUT = (
    "note: Standard input was not read, because the calling script uses it too. To read it, add "
    "- to the prompt."
)

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


def piped_input(*, needed: bool) -> str:
    """Read standard input to its end. Without `needed`, an idle pipe is left alone, and so is
    input that a calling shell script may want to read itself."""
    try:
        descriptor = sys.stdin.fileno()
    except io.UnsupportedOperation:  # a program that embeds us has replaced it
        return ""
    if needed:
        return _read_to_end(descriptor, "the prompt on standard input")
    mode = os.fstat(descriptor).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return ""
    if (caller := _calling_process()) is None:
        if select.select([descriptor], [], [], 0)[0] and not stat.S_ISREG(mode):
            print(SHARED_INPUT, file=sys.stderr)
        return ""
    if _has_writer_among_children(caller) or _is_ready(descriptor, IDLE_SECONDS):
        return _read_to_end(descriptor, "the end of standard input")
    return ""


def _read_to_end(descriptor: int, awaited: str) -> str:
    """Read all input, and print a note if that takes long. Another process that shares the pipe
    may have made it non-blocking."""
    data, announced = bytearray(), False
    while len(data) <= MOST_INPUT:
        if not (announced or _is_ready(descriptor, ANNOUNCED_AFTER)):
            print(f"note: Waiting for {awaited}.", file=sys.stderr, flush=True)
            announced = True
        select.select([descriptor], [], [])
        with suppress(BlockingIOError):
            piece = os.read(descriptor, _CHUNK)
            if not piece:
                return data.decode("utf-8", "replace")
            data += piece
    raise SettingsError(
        f"Standard input has more than {MOST_INPUT // MIB} MiB. Give a shorter text."
    )


def _is_ready(descriptor: int, seconds: float) -> bool:
    """Whether there is input, or its end, within this time."""
    return bool(select.select([descriptor], [], [], seconds)[0])


def _calling_process() -> int | None:
    """The nearest ancestor with another standard input: in a pipeline, the shell that made it.
    None if a script between has the same input. 0 if the system cannot tell."""
    ours, pid = _opened(os.getpid(), 0), os.getppid()
    while ours and pid > 1:
        try:
            about = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return 0
        name, _, rest = about.partition("(")[2].rpartition(")")
        theirs = _opened(pid, 0)
        of_another_user = not theirs and name in WRAPPERS  # such as sudo
        if theirs != ours and not of_another_user:
            return pid
        if name not in WRAPPERS:
            return None
        pid = int(rest.split()[1])
    return pid if ours else 0


def _has_writer_among_children(pid: int) -> bool:
    """Whether a child of the process writes to our standard input."""
    pipe = _opened(os.getpid(), 0)
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return False
    return any(pipe in (_opened(int(child), 1), _opened(int(child), 2)) for child in children)


def _opened(pid: int, descriptor: int) -> str:
    """The file behind a descriptor of a process; empty if it is unknown."""
    try:
        return os.readlink(f"/proc/{pid}/fd/{descriptor}")
    except OSError:
        return ""
