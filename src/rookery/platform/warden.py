"""Runs one command and makes sure that nothing of it outlives the command or rookery.

There is one per command: `wardens` runs this file as a script, or `fork_server` forks one. The
command is read from a socket, which is a script's standard input. The warden starts the shell and
adopts what the shell's children leave behind; as their sub-reaper it also gets those that
double-fork or start a new session. It ends all of them when told to, some time after the command
ends, or when rookery dies. None of this needs polling, as each event closes a socket or ends a
process.

On the socket it sends `started PID`, `ended STATUS` or `failed ERRNO`, and receives `end` and
`keep`; a kept command continues without rookery. From other processes, but not from the command
itself, SIGTERM means `end`, and SIGUSR1 followed by SIGUSR2 means `keep`.

`warden.py keep GRACE LEASH PROGRAM...` does the same for a program that uses our standard streams,
such as an MCP server. LEASH is a socket to rookery; the program is ended when it closes or sends
`end`, and all that the program started is ended with it.

It runs before every command, so it imports almost nothing.
"""

# `os`, `signal` and `ctypes` would take longer to import than everything else here
import _signal  # type: ignore[import-not-found]
import posix as os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    Become: TypeAlias = Callable[[bytes, list[bytes], dict[bytes, bytes]], object]

KILL_SECONDS = 2.0
"""Seconds to wait for killed processes; only the kernel can delay their end."""
DEV_NULL = "/dev/null"
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

END, KEEP, LOOK = _signal.SIGTERM, _signal.SIGUSR1, _signal.SIGUSR2

_WE_HANDLE = (_signal.SIGCHLD, END, LOOK)
_WE_IGNORE = (_signal.SIGHUP, _signal.SIGINT)
_PYTHON_IGNORES = (_signal.SIGPIPE, _signal.SIGXFSZ)


def main(output: int, place: str) -> None:
    """Wait for a command and run it. Rookery reads the command's output from `output`; `place`
    is "terminal" if that is one."""
    product = _take_socket()
    os.set_inheritable(output, False)
    guard(product, output, on_terminal=place == "terminal")


def guard(product: int, output: int, *, on_terminal: bool, become: "Become" = os.execve) -> None:
    """Receive a command from rookery's socket and run it. `become` makes a process the command."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    data = _receive_order(product)
    if not data:
        return  # rookery has ended before it sent a command
    order = Order(data)
    for number in _WE_IGNORE:
        _signal.signal(number, _signal.SIG_IGN)
    signals = _signal_pipe()
    try:
        os.chdir(order.folder)
        leader = _start(order.argv, order.environment, become, on_terminal=on_terminal)
    except OSError as error:
        _send(product, f"failed {error.errno}")
        return
    _send(product, f"started {leader}")
    command = GuardedCommand(leader, product, output)
    watch(command, signals, order.grace)
    end(command, signals, order.grace)


def keep(grace: float, leash: int, argv: list[str]) -> None:
    os.set_inheritable(leash, False)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    for number in _WE_IGNORE:
        _signal.signal(number, _signal.SIG_IGN)
    signals = _signal_pipe()
    coding = sys.getfilesystemencoding()
    words = [word.encode(coding, "surrogateescape") for word in argv]
    leader = _start(words, os.environ, os.execve, on_terminal=False)
    os.dup2(os.open(DEV_NULL, os.O_RDONLY), 0)
    command = GuardedCommand(leader, leash, -1)
    watch(command, signals, 0.0)
    end(command, signals, grace)


class Order:
    """What to run, in which folder and environment, and the grace period for ending it."""

    def __init__(self, data: bytes) -> None:
        grace, self.folder, count, *rest = data.split(b"\0")
        self.grace = float(grace)
        self.argv = rest[: int(count)]
        settings = (each.partition(b"=") for each in rest[int(count) :])
        self.environment = {name: text for name, _, text in settings}


class GuardedCommand:
    """The shell, `leader` of its session, and all its descendants."""

    def __init__(self, leader: int, product: int, output: int) -> None:
        self.leader = leader
        self.product = product
        self.ended = False
        self._output = output
        self._kept = False
        self._source = product

    @property
    def sources(self) -> list[int]:
        """The descriptor to read: rookery's socket, or the command's output once rookery is
        gone."""
        return [self._source] if self._source >= 0 else []

    def listen(self) -> bool:
        """Read from the source; returns whether the command must be ended."""
        try:
            data = os.read(self._source, 65536)
        except BlockingIOError:
            return False
        except OSError:
            data = b""  # rookery died, or no process has the terminal open
        if self._source == self.product:
            return self._handle(data)
        if not data:
            self._source = -1
        return False

    def keep(self) -> None:
        self._kept = True
        _send(self.product, "kept 1")

    def _handle(self, data: bytes) -> bool:
        words = data.split()
        if b"keep" in words:
            self.keep()
        if not data:
            self._source = self._output  # read it, or the command would block on a full pipe
        return b"end" in words if data else not self._kept

    def reap(self) -> bool:
        """Reap ended processes; returns False once none is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.leader:
                self.ended = True
                _send(self.product, f"ended {status}")

    def signal(self, number: int) -> None:
        """Signal all processes once; the shell's group in one call, so that no fork is missed."""
        group = None if self.ended else self.leader
        if group:
            _kill(-group, number)
        for pid, group_of_pid in _descendants():
            if group_of_pid != group:
                _kill(pid, number)


def watch(command: GuardedCommand, signals: int, grace: float) -> None:
    """Wait until no process is left, an end is requested, or `grace` seconds after the shell
    ended."""
    deadline: float | None = None
    while command.reap():
        if command.ended and deadline is None:
            deadline = time.monotonic() + grace
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        ready, _, _ = select.select([signals, *command.sources], [], [], left)
        numbers = os.read(signals, 4096) if signals in ready else b""
        if LOOK in numbers and _asked_to_keep():
            command.keep()
        over = not ready or END in numbers
        if over or (set(ready) - {signals} and command.listen()):
            return


def end(command: GuardedCommand, signals: int, grace: float) -> None:
    asked = False
    asking_ends = time.monotonic() + grace
    killing_ends = asking_ends + KILL_SECONDS
    while command.reap() and (now := time.monotonic()) < killing_ends:
        if now >= asking_ends:
            command.signal(_signal.SIGKILL)
        elif not asked:
            command.signal(_signal.SIGTERM)
            asked = True
        left = (asking_ends if now < asking_ends else killing_ends) - now
        if select.select([signals], [], [], left)[0]:
            os.read(signals, 4096)


def _take_socket() -> int:
    """Move rookery's socket from standard input to where the command cannot inherit it."""
    product = os.dup(0)
    os.dup2(os.open(DEV_NULL, os.O_RDONLY), 0)
    return product


def _receive_order(product: int) -> bytes:
    """Read the command after its length; empty if rookery ended before sending all of it."""
    size = int.from_bytes(_read(product, 8), "little")
    data = _read(product, size)
    return data if len(data) == size else b""


def _read(product: int, size: int) -> bytes:
    """Read exactly `size` bytes: what follows is for `GuardedCommand.listen`."""
    data = b""
    while len(data) < size and (more := os.read(product, size - len(data))):
        data += more
    return data


def _signal_pipe() -> int:
    """A pipe that receives the number of every signal. Only `KEEP` is blocked until it is waited
    for, because its sender matters."""
    signals, wake = os.pipe()
    os.set_blocking(wake, False)
    _signal.pthread_sigmask(_signal.SIG_BLOCK, (KEEP,))
    _signal.set_wakeup_fd(wake)
    for number in _WE_HANDLE:
        _signal.signal(number, lambda *_: None)
    return signals


def _asked_to_keep() -> bool:
    """Whether a living process that does not belong to the command asked to keep it."""
    sent = _signal.sigtimedwait((KEEP,), 0) if sys.platform == "linux" else None
    if sent is None:
        return False
    try:
        os.kill(sent.si_pid, 0)
    except OSError:
        return False  # the sender has ended, so its parents are unknown
    return sent.si_pid not in {pid for pid, _ in _descendants()}


def _start(
    argv: list[bytes], environment: dict[bytes, bytes], become: "Become", *, on_terminal: bool
) -> int:
    warden = os.getpid()
    leader = os.fork()
    if leader == 0:
        _exec(argv, environment, warden, become, on_terminal=on_terminal)
    nowhere = os.open(DEV_NULL, os.O_WRONLY)
    for standard in (1, 2):
        os.dup2(nowhere, standard)
    return leader


def _exec(
    argv: list[bytes],
    environment: dict[bytes, bytes],
    warden: int,
    become: "Become",
    *,
    on_terminal: bool,
) -> None:
    try:
        os.setsid()
        prctl(PR_SET_PDEATHSIG, _signal.SIGKILL)
        if os.getppid() != warden:
            return  # it died before the death signal was set
        _signal.set_wakeup_fd(-1)  # `become` may run a script of ours instead of a program
        for number in (*_WE_HANDLE, *_WE_IGNORE, *_PYTHON_IGNORES):
            _signal.signal(number, _signal.SIG_DFL)
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, (KEEP,))
        if on_terminal:
            _take_terminal()
        become(argv[0], argv, environment)
    except OSError as error:
        os.write(2, argv[0] + f": {error.strerror}\n".encode())
    finally:
        os._exit(127)


def _take_terminal() -> None:
    """Make standard output the controlling terminal of this session, and its input."""
    import fcntl
    import termios

    fcntl.ioctl(1, termios.TIOCSCTTY, 0)
    os.dup2(1, 0)


def _descendants() -> list[tuple[int, int]]:
    """Every process below this one, with its process group; none where there is no /proc."""
    children: dict[int, list[tuple[int, int]]] = {}
    for name in os.listdir("/proc") if sys.platform == "linux" else ():
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                _, parent, group = file.read().rpartition(b")")[2].split()[:3]
        except (OSError, ValueError):
            continue  # ended meanwhile
        children.setdefault(int(parent), []).append((int(name), int(group)))
    found: list[tuple[int, int]] = []
    generation = [os.getpid()]
    while generation:
        born = [child for parent in generation for child in children.get(parent, ())]
        found += born
        generation = [pid for pid, _ in born]
    return found


def _kill(target: int, number: int) -> None:
    try:  # noqa: SIM105 (contextlib is slow to import)
        os.kill(target, number)
    except (ProcessLookupError, PermissionError):
        pass  # gone, or another user's by now


def _send(product: int, line: str) -> None:
    try:  # noqa: SIM105 (contextlib is slow to import)
        os.write(product, line.encode() + b"\n")
    except OSError:
        pass  # rookery died; the cleanup continues


def prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        import _ctypes

        libc = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]
        _ctypes.call_function(_ctypes.dlsym(libc, "prctl"), (option, value, 0, 0, 0))


if __name__ == "__main__":
    try:
        if sys.argv[1] == "keep":
            keep(float(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
        else:
            main(int(sys.argv[1]), sys.argv[2])
    finally:
        os._exit(0)
