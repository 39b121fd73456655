"""Wardens that wait for their command, as processes of ours.

A warden is started without knowing what for, and is given its command through the socket between
us: so one can be started in advance, while the command before runs or the model answers. It does
nothing until it is given one, and ends when we do.

A command may kill its warden. Who loses its parent goes to the nearest ancestor that takes orphans
in: the warden as long as it lives, and after it us. Then `end_orphans` ends them.
"""

import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from typing import ClassVar, NamedTuple

from rookery.platform.own_programs import own_script

WARDEN = Path(__file__).with_name("warden.py")
ORDER_SECONDS = 10.0
"""How long a warden may take to read a command too large to be left in the socket for it."""
LONGEST_WORD_PAGES = 32
"""So much memory the system gives to one word or variable of a command."""
USUAL_SPACE = 2 * 1024 * 1024
"""Some libraries name only what every system has to have, which is less."""
WORD_OVERHEAD = 9
"""A null character and a pointer."""
ROWS, COLUMNS = 40, 120
ROOT = "/"

_ROUNDS = 1000
"""How often the children of those who were killed are looked for: some fork without end."""


class WaitingWarden:
    """A warden without a command yet: its process, and our ends of its socket and its output."""

    pids: ClassVar[set[int]] = set()
    """Of all that have not been given back to the system."""

    def __init__(self, *, terminal: bool = False) -> None:
        self.terminal = terminal
        take_orphans_in()
        with ExitStack() as undo:
            self.link, theirs = socket.socketpair()
            undo.callback(self.link.close)
            undo.callback(theirs.close)
            self.output, output_in = _open_terminal() if terminal else os.pipe()
            undo.callback(os.close, self.output)
            undo.callback(os.close, output_in)
            place = "terminal" if terminal else "pipe"
            # the warden gets our end as well: who is kept must not lose its reader with us
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", own_script(WARDEN), str(self.output), place],
                stdin=theirs.fileno(),
                stdout=output_in,
                stderr=output_in,
                pass_fds=(self.output,),
                cwd=ROOT,
                env={},
                start_new_session=True,
            )
            undo.pop_all()
        self.pids.add(self.process.pid)
        theirs.close()
        os.close(output_in)

    @property
    def waits(self) -> bool:
        return self.process.poll() is None

    def order(
        self,
        argv: Sequence[str],
        *,
        grace: float,
        folder: Path,
        environment: Mapping[str, str],
    ) -> None:
        """Have it run a command. Raises `ValueError` for words that no program can be given, and
        `OSError` if it cannot be told; then it is gone."""
        try:
            parts = [str(grace).encode(), os.fsencode(folder), b"%d" % len(argv)]
            parts += [*map(os.fsencode, argv), *_settings(environment)]
            _check(parts)
            body = b"\0".join(parts)
            self.link.settimeout(ORDER_SECONDS)
            self.link.sendall(len(body).to_bytes(8, "little") + body)
        except BaseException:
            self.dismiss()
            raise
        self.link.setblocking(False)
        os.set_blocking(self.output, False)

    def dismiss(self) -> None:
        """End it, which has no command to end."""
        self.process.kill()
        self.process.wait()
        self.pids.discard(self.process.pid)
        self.link.close()
        os.close(self.output)


class Wardens:
    """Where commands get their wardens from: each is started when it is needed."""

    def take(self, *, terminal: bool) -> WaitingWarden:
        return WaitingWarden(terminal=terminal)

    def prepare(self) -> None:
        """Use the time until the next command."""


class WardensInAdvance(Wardens):
    """One waits for the next command, once there was a first. It is for a pipe, as most are."""

    def __init__(self) -> None:
        self._spare: WaitingWarden | None = None
        self._closed = False

    def take(self, *, terminal: bool) -> WaitingWarden:
        if terminal or self._spare is None:
            return super().take(terminal=terminal)
        spare, self._spare = self._spare, None
        if spare.waits:
            return spare
        spare.dismiss()  # somebody killed it
        return super().take(terminal=terminal)

    def prepare(self) -> None:
        if self._spare is None and not self._closed:
            with suppress(OSError):  # then the next command finds out why none can be started
                self._spare = WaitingWarden()

    def close(self) -> None:
        self._closed = True
        if self._spare is not None:
            self._spare.dismiss()
            self._spare = None


def _settings(environment: Mapping[str, str]) -> Iterator[bytes]:
    for name, text in environment.items():
        yield os.fsencode(name) + b"=" + os.fsencode(text)


def _check(parts: Sequence[bytes]) -> None:
    """Refuse what the system would not start. Its own refusal would come too late: a command is
    told to have started before it can do anything, such as kill its warden."""
    if any(b"\0" in part for part in parts):
        raise ValueError("a word has a null character")
    longest = LONGEST_WORD_PAGES * os.sysconf("SC_PAGE_SIZE")
    whole = sum(len(part) + WORD_OVERHEAD for part in parts)
    if whole > max(USUAL_SPACE, os.sysconf("SC_ARG_MAX")) or any(
        len(part) >= longest for part in parts
    ):
        raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))


def _open_terminal() -> tuple[int, int]:
    """A terminal of a usual size: our end of it, and the command's."""
    import termios

    ours, theirs = os.openpty()
    termios.tcsetwinsize(ours, (ROWS, COLUMNS))
    return ours, theirs


class _Process(NamedTuple):
    parent: int
    session: int
    born: int


@cache
def take_orphans_in() -> None:
    from rookery.platform.warden import PR_SET_CHILD_SUBREAPER, prctl

    prctl(PR_SET_CHILD_SUBREAPER, 1)


def birth(pid: int) -> int:
    """When a process began, in ticks since the system did; 0 where that cannot be known."""
    process = _process(pid)
    return process.born if process else 0


def end_orphans(since: int, wardens: Collection[int]) -> None:
    """Kill every child of ours that we did not start ourselves, if it began after `since`.

    Of those we start only wardens have a session of their own, and all that descends from a
    warden has another than we: nobody can come back to one that was left.
    """
    for _ in range(_ROUNDS):
        orphans = [pid for pid in _orphans(since) if pid not in wardens]
        if not any([_end(pid) for pid in orphans]):
            return


def _end(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (PermissionError, ChildProcessError):
        return False  # it has become another user's, or is reaped by somebody else
    return True


def _orphans(since: int) -> Iterator[int]:
    us, here = os.getpid(), os.getsid(0)
    for entry in Path("/proc").glob("[0-9]*"):
        process = _process(int(entry.name))
        if process and process.parent == us and process.session != here and process.born >= since:
            yield int(entry.name)


def _process(pid: int) -> _Process | None:
    try:
        said = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None  # it is gone, or this system has no /proc
    return _Process(parent=int(said[1]), session=int(said[3]), born=int(said[19]))
