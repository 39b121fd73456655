"""Starts wardens, or forks them from a process that is kept ready.

A warden gets its command through a socket. It does nothing until then, and ends when we do.

A command may kill its warden. Orphans go to the nearest ancestor that is a sub-reaper: the warden
while it lives, then us. `end_orphans` ends them.
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
from threading import Lock
from typing import ClassVar, NamedTuple, TypeAlias

from rookery.platform.fork_server import CLONE_NUMBERS, PID_SIZE, PIPE, TERMINAL
from rookery.platform.own_programs import own_script
from rookery.platform.warden import PR_SET_CHILD_SUBREAPER, prctl

INTERPRETER = os.path.realpath(sys.executable)
"""Not the link in a virtual environment, because commands may be able to replace it."""
WARDEN = Path(__file__).with_name("warden.py")
STARTER = Path(__file__).with_name("starter.py")
CONFINE = Path(__file__).parents[1] / "sandbox" / "confine.py"
ORDER_SECONDS = 10.0
"""Seconds for a warden to read a command that does not fit into the socket's buffer."""
FORK_SECONDS = 2.0
_SOURCES = str(Path(__file__).parents[2])
_SERVE = """
import sys
sys.path.append(sys.argv[1])
from rookery.platform.fork_server import main
main()
"""
_PLACES = {True: "terminal", False: "pipe"}
LONGEST_WORD_PAGES = 32
"""The kernel's limit for one argument or variable."""
USUAL_SPACE = 2 * 1024 * 1024
"""Lower bound for the total, since some libraries report only the minimum of the standard."""
WORD_OVERHEAD = 8
"""A pointer; its NUL is counted with the word."""
ROWS, COLUMNS = 40, 120
ROOT = "/"

_MOST_ROUNDS = 1000
"""How often to look for new children of killed processes, as some fork without end."""


class ForkedChild:
    """A child of ours that another process forked; like `Popen`, as far as wardens need it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        return self._reap(os.WNOHANG)

    def wait(self) -> int:
        status = self._reap(0)
        assert status is not None
        return status

    def kill(self) -> None:
        if self.poll() is None:  # its number is ours until it is reaped
            os.kill(self.pid, signal.SIGKILL)

    def _reap(self, options: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode


Process: TypeAlias = subprocess.Popen[bytes] | ForkedChild


class ForkServer:
    """Forks wardens, for all sessions of this process. Only for Linux, on machines whose `clone`
    call `warden` knows.

    It is in our session: `end_orphans` leaves it alone.
    """

    _shared: "ClassVar[ForkServer | None]" = None
    _lock: ClassVar[Lock] = Lock()

    @classmethod
    def enter(cls) -> "ForkServer":
        """Return the running server, or start one. Each caller must call `leave` once."""
        with cls._lock:
            cls._shared = cls._shared or cls()
            cls._shared._users += 1
            return cls._shared

    def leave(self, *, broken: bool = False) -> None:
        """Stop using it. It ends with its last user, or at once if it is `broken`."""
        with self._lock:
            self._users -= 1
            if broken or not self._users:
                self.close()
                if ForkServer._shared is self:
                    ForkServer._shared = None

    def __init__(self) -> None:
        self._users = 0
        become_subreaper()
        self._link, theirs = socket.socketpair()
        self._link.settimeout(FORK_SECONDS)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _SERVE, _SOURCES, own_script(CONFINE)],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=ROOT,
                env={},
                process_group=0,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def fork(self, *files: int, terminal: bool) -> ForkedChild:
        """Fork a warden with these files. Raises `OSError` if the server was killed or stopped."""
        with self._lock:
            try:
                socket.send_fds(self._link, [TERMINAL if terminal else PIPE], files)
                answer = self._link.recv(PID_SIZE)
            except OSError:
                self._link.close()  # or a late answer would be taken for that to another request
                raise
        if len(answer) < PID_SIZE:
            raise OSError(errno.ECHILD, os.strerror(errno.ECHILD))
        return ForkedChild(int.from_bytes(answer, "little"))

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._link.close()


class WaitingWarden:
    """A warden without a command yet: its process, and our ends of its socket and output."""

    pids: ClassVar[set[int]] = set()
    """All wardens that were not reaped yet."""
    starting: ClassVar[Lock] = Lock()
    """Held until a new one is among `pids`, as any thread may start one."""

    def __init__(self, *, terminal: bool = False, server: ForkServer | None = None) -> None:
        """Started, or forked by the `server`. Raises `OSError`."""
        self.terminal = terminal
        become_subreaper()
        with self.starting, ExitStack() as undo:
            self.link, theirs = socket.socketpair()
            undo.callback(self.link.close)
            undo.callback(theirs.close)
            self.output, output_in = _open_terminal() if terminal else os.pipe()
            undo.callback(os.close, self.output)
            undo.callback(os.close, output_in)
            # the warden gets our end too, to read the output of a kept command after us
            files = (theirs.fileno(), self.output, output_in)
            self.process: Process
            if server:
                self.process = server.fork(*files, terminal=terminal)
            else:
                self.process = _start(*files, terminal=terminal)
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
        """Send it a command. Raises `ValueError` for invalid arguments, and `OSError` if it
        cannot be sent; in both cases the warden is ended."""
        try:
            words = [str(grace), str(folder), str(len(argv)), *argv]
            words += [f"{name}={text}" for name, text in environment.items()]
            body = os.fsencode("\0".join(words))
            _check(body, len(words))
            self.link.settimeout(ORDER_SECONDS)
            self.link.sendall(len(body).to_bytes(8, "little") + body)
        except BaseException:
            self.dismiss()
            raise
        self.link.setblocking(False)
        os.set_blocking(self.output, False)

    def dismiss(self) -> None:
        """End a warden that has no command."""
        self.process.kill()
        self.process.wait()
        self.pids.discard(self.process.pid)
        self.link.close()
        os.close(self.output)


class Wardens:
    """Starts a warden for each command."""

    def take(self, *, terminal: bool) -> WaitingWarden:
        return WaitingWarden(terminal=terminal)

    def prepare(self) -> None:
        """Called before a command is prepared, so that both are done at the same time."""


class ForkedWardens(Wardens):
    """Forks the wardens of a host, in any thread. Starts a warden that cannot be forked."""

    def __init__(self) -> None:
        self.server: ForkServer | None = None
        self._choosing = Lock()
        self._closed = sys.platform != "linux" or os.uname().machine not in CLONE_NUMBERS

    def take(self, *, terminal: bool) -> WaitingWarden:
        self.prepare()
        if server := self.server:
            try:
                return WaitingWarden(terminal=terminal, server=server)
            except OSError:
                self._leave(server, broken=True)
        return super().take(terminal=terminal)

    def prepare(self) -> None:
        with self._choosing:
            if self.server is None and not self._closed:
                with suppress(OSError):  # starting the warden will report the error
                    self.server = ForkServer.enter()

    def close(self) -> None:
        self._closed = True
        self._leave(self.server)

    def _leave(self, server: ForkServer | None, *, broken: bool = False) -> None:
        with self._choosing:
            if server and server is self.server:
                self.server = None
                server.leave(broken=broken)


def _start(link: int, output: int, output_in: int, *, terminal: bool) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-I", "-S", own_script(WARDEN), str(output), _PLACES[terminal]],
        stdin=link,
        stdout=output_in,
        stderr=output_in,
        pass_fds=(output,),
        cwd=ROOT,
        env={},
        start_new_session=True,
    )


def start_words(*how: str) -> list[str]:
    """The arguments before a program that is to be started as `starter` can."""
    return [INTERPRETER, "-I", "-S", own_script(STARTER), *how]


def _check(body: bytes, count: int) -> None:
    """Refuse what the kernel would not start. Its own error would come too late, because a
    command is reported as started before it runs: it could kill its warden."""
    parts = body.split(b"\0")
    if len(parts) != count:
        raise ValueError("a word has a null character")
    longest = LONGEST_WORD_PAGES * os.sysconf("SC_PAGE_SIZE")
    whole = len(body) + WORD_OVERHEAD * count
    if whole > max(USUAL_SPACE, os.sysconf("SC_ARG_MAX")) or max(map(len, parts)) >= longest:
        raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))


def _open_terminal() -> tuple[int, int]:
    """Open a terminal of a usual size: our end, and the command's."""
    import termios

    ours, theirs = os.openpty()
    termios.tcsetwinsize(ours, (ROWS, COLUMNS))
    return ours, theirs


class ProcessState(NamedTuple):
    """What the kernel says of a process; `began` is in clock ticks since boot."""

    dead: bool
    parent: int
    group: int
    session: int
    began: int


@cache
def become_subreaper() -> None:
    prctl(PR_SET_CHILD_SUBREAPER, 1)


def end_orphans(since: int, wardens: Collection[int]) -> None:
    """Kill every child that we did not start ourselves and that began after `since`.

    Of our own children only wardens have a session of their own, and all descendants of a warden
    are in other sessions than ours, to which they cannot return.
    """
    for _ in range(_MOST_ROUNDS):
        with WaitingWarden.starting:
            orphans = [pid for pid in _orphans(since) if pid not in wardens]
        if not any([_end(pid) for pid in orphans]):
            return


def _end(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (PermissionError, ProcessLookupError, ChildProcessError):
        return False  # another user's by now, or already reaped
    return True


def _orphans(since: int) -> Iterator[int]:
    us, here = os.getpid(), os.getsid(0)
    for entry in Path("/proc").glob("[0-9]*"):
        process = process_state(int(entry.name))
        if process and process.parent == us and process.session != here and process.began >= since:
            yield int(entry.name)


def process_state(pid: int) -> ProcessState | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None  # gone, or no /proc
    numbers = (int(fields[at]) for at in (1, 2, 3, 19))
    return ProcessState(fields[0] == b"Z", *numbers)
