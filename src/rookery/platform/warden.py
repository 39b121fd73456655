"""Stands between the product and one command, so that nothing of the command outlives either.

`wardens` runs this file as a script of its own, one per command, and maybe before there is one:
what to run is said on the socket that is its standard input. It starts the shell, adopts
whatever the shell's children leave behind (it is their sub-reaper, so neither a double fork
nor a new session gets away) and ends all of it when told to, when the command has been over
for a while, or when the product dies: each of these closes a socket or ends a process, and
nobody has to look. It says `started PID`, `ended STATUS` or `failed ERRNO` on that socket, and
hears `end` and `keep` there: a command that is kept goes on without the product. From other
processes it takes SIGTERM for `end`, and SIGUSR1 followed by SIGUSR2 for `keep`, though not from
the command itself.

`warden.py keep GRACE LEASH PROGRAM...` does the same for a program that talks on our standard
streams, such as an MCP server: LEASH is a socket to the product, and the program is ended when
that is cut or says `end`, and with all it started once it is over.

It is in the way of every command, hence imports almost nothing.
"""

# what `os`, `signal` and `ctypes` add to these takes longer to import than all the rest
import _signal  # type: ignore[import-not-found]
import posix as os
import select
import sys
import time

KILL_SECONDS = 2.0
"""How long killed processes are waited for. Only the kernel can make it longer than nothing."""
NOWHERE = "/dev/null"
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

END, KEEP, LOOK = _signal.SIGTERM, _signal.SIGUSR1, _signal.SIGUSR2

_IGNORED_HERE = (_signal.SIGHUP, _signal.SIGINT)
_IGNORED_BY_PYTHON = (_signal.SIGPIPE, _signal.SIGXFSZ)


def main(output: int, place: str) -> None:
    """Wait for a command and run it. `output` is where the product reads what the command
    writes, and `place` is "terminal" if that is one."""
    product = _take_socket()
    os.set_inheritable(output, False)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    heard = _hear_order(product)
    if not heard:
        return  # the product has ended, and was the only one who could want anything
    order = Order(heard)
    for number in _IGNORED_HERE:
        _signal.signal(number, _signal.SIG_IGN)
    news = _news_of_signals()
    try:
        os.chdir(order.folder)
        leader = _start(order.argv, order.environment, on_terminal=place == "terminal")
    except OSError as error:
        _tell(product, f"failed {error.errno}")
        return
    _tell(product, f"started {leader}")
    command = GuardedCommand(leader, product, output)
    watch(command, news, order.grace)
    end(command, news, order.grace)


def keep(grace: float, leash: int, argv: list[str]) -> None:
    os.set_inheritable(leash, False)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    for number in _IGNORED_HERE:
        _signal.signal(number, _signal.SIG_IGN)
    news = _news_of_signals()
    coding = sys.getfilesystemencoding()
    words = [word.encode(coding, "surrogateescape") for word in argv]
    leader = _start(words, os.environ, on_terminal=False)
    os.dup2(os.open(NOWHERE, os.O_RDONLY), 0)
    command = GuardedCommand(leader, leash, -1)
    watch(command, news, 0.0)
    end(command, news, grace)


class Order:
    """What to run, where and with which variables, and how long its end may take."""

    def __init__(self, heard: bytes) -> None:
        grace, self.folder, count, *rest = heard.split(b"\0")
        self.grace = float(grace)
        self.argv = rest[: int(count)]
        settings = (each.partition(b"=") for each in rest[int(count) :])
        self.environment = {name: text for name, _, text in settings}


class GuardedCommand:
    """The shell, `leader` of its session, and all that descends from it."""

    def __init__(self, leader: int, product: int, output: int) -> None:
        self.leader = leader
        self.product = product
        self.ended = False
        self._output = output
        self._kept = False
        self._source = product

    @property
    def sources(self) -> list[int]:
        """Whom to listen to: the product, or, once it has left, the command itself."""
        return [self._source] if self._source >= 0 else []

    def listen(self) -> bool:
        """Whether the command is to be ended."""
        try:
            heard = os.read(self._source, 65536)
        except BlockingIOError:
            return False
        except OSError:
            heard = b""  # a product that died, or a terminal that nobody has open any more
        if self._source == self.product:
            return self._obey(heard)
        if not heard:
            self._source = -1
        return False

    def keep(self) -> None:
        self._kept = True
        _tell(self.product, "kept 1")

    def _obey(self, heard: bytes) -> bool:
        words = heard.split()
        if b"keep" in words:
            self.keep()
        if not heard:
            self._source = self._output  # or the command would soon wait for a reader
        return b"end" in words if heard else not self._kept

    def reap(self) -> bool:
        """Collect the dead. False once nobody is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.leader:
                self.ended = True
                _tell(self.product, f"ended {status}")

    def signal(self, number: int) -> None:
        """Signal everybody once; the shell's group in one go, so that no fork slips through."""
        group = None if self.ended else self.leader
        if group:
            _kill(-group, number)
        for pid, group_of_pid in _descendants():
            if group_of_pid != group:
                _kill(pid, number)


def watch(command: GuardedCommand, news: int, grace: float) -> None:
    """Wait until nobody is left, somebody wants an end, or the shell is `grace` seconds gone."""
    deadline: float | None = None
    while command.reap():
        if command.ended and deadline is None:
            deadline = time.monotonic() + grace
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        ready, _, _ = select.select([news, *command.sources], [], [], left)
        numbers = os.read(news, 4096) if news in ready else b""
        if LOOK in numbers and _kept_by_another():
            command.keep()
        over = not ready or END in numbers
        if over or (set(ready) - {news} and command.listen()):
            return


def end(command: GuardedCommand, news: int, grace: float) -> None:
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
        if select.select([news], [], [], left)[0]:
            os.read(news, 4096)


def _take_socket() -> int:
    """Move the product's socket from standard input to where the command cannot inherit it."""
    product = os.dup(0)
    os.dup2(os.open(NOWHERE, os.O_RDONLY), 0)
    return product


def _hear_order(product: int) -> bytes:
    """The command, behind its length; nothing if the product has ended before it said all."""
    size = int.from_bytes(_read(product, 8), "little")
    heard = _read(product, size)
    return heard if len(heard) == size else b""


def _read(product: int, size: int) -> bytes:
    """So many bytes and no more: what follows the command is said to whoever watches it."""
    heard = b""
    while len(heard) < size and (more := os.read(product, size - len(heard))):
        heard += more
    return heard


def _news_of_signals() -> int:
    """A pipe that takes the number of every signal: a child has ended, or somebody wants us.
    Only `KEEP` waits until it is looked for, because it matters from whom it is."""
    news, wake = os.pipe()
    os.set_blocking(wake, False)
    _signal.pthread_sigmask(_signal.SIG_BLOCK, (KEEP,))
    _signal.set_wakeup_fd(wake)
    for number in (_signal.SIGCHLD, END, LOOK):
        _signal.signal(number, lambda *_: None)
    return news


def _kept_by_another() -> bool:
    """Whether the command is to be kept, by somebody who is not of it and waits to see it done."""
    sent = _signal.sigtimedwait((KEEP,), 0) if sys.platform == "linux" else None
    if sent is None:
        return False
    try:
        os.kill(sent.si_pid, 0)
    except OSError:
        return False  # nobody can say any more of whom it was
    return sent.si_pid not in {pid for pid, _ in _descendants()}


def _start(argv: list[bytes], environment: dict[bytes, bytes], *, on_terminal: bool) -> int:
    warden = os.getpid()
    leader = os.fork()
    if leader == 0:
        _become(argv, environment, warden, on_terminal=on_terminal)
    nowhere = os.open(NOWHERE, os.O_WRONLY)
    for standard in (1, 2):
        os.dup2(nowhere, standard)
    return leader


def _become(
    argv: list[bytes], environment: dict[bytes, bytes], warden: int, *, on_terminal: bool
) -> None:
    try:
        os.setsid()
        prctl(PR_SET_PDEATHSIG, _signal.SIGKILL)
        if os.getppid() != warden:
            return  # it died before it could be told to take us along
        for number in (*_IGNORED_HERE, *_IGNORED_BY_PYTHON):
            _signal.signal(number, _signal.SIG_DFL)
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, (KEEP,))
        if on_terminal:
            _take_terminal()
        os.execve(argv[0], argv, environment)
    except OSError as error:
        os.write(2, argv[0] + f": {error.strerror}\n".encode())
    finally:
        os._exit(127)


def _take_terminal() -> None:
    """Make standard output, which is a terminal, the one of this session, and also its input."""
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
            continue  # it ended while we looked
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
        pass  # it is gone, or has become somebody else's


def _tell(product: int, line: str) -> None:
    try:  # noqa: SIM105 (contextlib is slow to import)
        os.write(product, line.encode() + b"\n")
    except OSError:
        pass  # the product died; what is left to do needs no listener


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
