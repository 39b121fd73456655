"""Stands between the product and one command, so that nothing of the command outlives either.

`terminal` runs this file as a script of its own, one per command. It starts the shell, adopts
whatever the shell's children leave behind (it is their sub-reaper, so neither a double fork
nor a new session gets away) and ends all of it when told to, when the command has been over
for a while, or when the product dies: each of these closes a socket or ends a process, and
nobody has to look. It says `started PID`, `ended STATUS` or `failed ERRNO` on that socket.

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

_IGNORED_HERE = (_signal.SIGHUP, _signal.SIGINT, _signal.SIGTERM)
_IGNORED_BY_PYTHON = (_signal.SIGPIPE, _signal.SIGXFSZ)


def main(grace: float, argv: list[str]) -> None:
    product = _take_socket()
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    for number in _IGNORED_HERE:
        _signal.signal(number, _signal.SIG_IGN)
    news = _news_of_children()
    try:
        leader = _start(argv)
    except OSError as error:
        _tell(product, f"failed {error.errno}")
        return
    _tell(product, f"started {leader}")
    command = Command(leader, product)
    watch(command, news, grace)
    end(command, news, grace)


class Command:
    """The shell, `leader` of its session, and all that descends from it."""

    def __init__(self, leader: int, product: int) -> None:
        self.leader = leader
        self.product = product
        self.ended = False

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


def watch(command: Command, news: int, grace: float) -> None:
    """Wait until nobody is left, the product wants an end, or the shell is `grace` seconds gone."""
    deadline: float | None = None
    while command.reap():
        if command.ended and deadline is None:
            deadline = time.monotonic() + grace
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        ready, _, _ = select.select([command.product, news], [], [], left)
        if news not in ready:
            return
        os.read(news, 4096)


def end(command: Command, news: int, grace: float) -> None:
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


def _news_of_children() -> int:
    """A pipe that becomes readable whenever a child has ended."""
    news, wake = os.pipe()
    os.set_blocking(wake, False)
    _signal.set_wakeup_fd(wake)
    _signal.signal(_signal.SIGCHLD, lambda *_: None)
    return news


def _start(argv: list[str]) -> int:
    warden = os.getpid()
    leader = os.fork()
    if leader == 0:
        _become(argv, warden)
    nowhere = os.open(NOWHERE, os.O_WRONLY)
    for standard in (1, 2):
        os.dup2(nowhere, standard)
    return leader


def _become(argv: list[str], warden: int) -> None:
    try:
        os.setsid()
        prctl(PR_SET_PDEATHSIG, _signal.SIGKILL)
        if os.getppid() != warden:
            return  # it died before it could be told to take us along
        for number in (*_IGNORED_HERE, *_IGNORED_BY_PYTHON):
            _signal.signal(number, _signal.SIG_DFL)
        os.execv(argv[0], argv)
    except OSError as error:
        os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


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
    except BrokenPipeError:
        pass  # the product died; what is left to do needs no listener


def prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        import _ctypes

        libc = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]
        _ctypes.call_function(_ctypes.dlsym(libc, "prctl"), (option, value, 0, 0, 0))


if __name__ == "__main__":
    try:
        main(float(sys.argv[1]), sys.argv[2:])
    finally:
        os._exit(0)
