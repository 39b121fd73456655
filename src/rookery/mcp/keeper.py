"""Stands between the product and one server, so that nothing of the server outlives either.

This file is run as a program of its own, one per server: `keeper.py GRACE LEASH PROGRAM...`.
The server gets the keeper's standard streams. The keeper adopts whatever the server's children
leave behind, and ends all of it when the leash, a socket to the product, brings a word or is cut,
which it is however the product dies; or when the server itself is over, of which it tells first:
`ended STATUS`.
"""

import os
import select
import signal
import sys
import time

KILL_SECONDS = 2.0
"""How long killed processes are waited for. Only the kernel can make it longer than nothing."""
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

_IGNORED_HERE = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


def main(grace: float, leash: int, argv: list[str]) -> None:
    os.set_inheritable(leash, False)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    for number in _IGNORED_HERE:
        signal.signal(number, signal.SIG_IGN)
    news, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    leader = _start(argv)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    status = _watch(leader, news, leash)
    if status is not None:
        _tell(leash, f"ended {status}\n")
    _end_all(leader if status is None else None, news, grace)


def _start(argv: list[str]) -> int:
    keeper = os.getpid()
    leader = os.fork()
    if leader:
        return leader
    try:
        os.setsid()
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == keeper:  # else it died before it could be told to take us along
            for number in (*_IGNORED_HERE, *_IGNORED_BY_PYTHON):
                signal.signal(number, signal.SIG_DFL)
            os.execv(argv[0], argv)
    except OSError as error:
        os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def _watch(leader: int, news: int, leash: int) -> int | None:
    """The status of the server once it has ended; None if it is to be ended."""
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == leader:
            return status
        if pid:
            continue
        ready, _, _ = select.select([news, leash], [], [])
        if leash in ready:
            return None
        os.read(news, 4096)


def _end_all(leader: int | None, news: int, grace: float) -> None:
    """Ask everybody to end, and after a while no longer ask."""
    asked = False
    asking_ends = time.monotonic() + grace
    killing_ends = asking_ends + KILL_SECONDS
    while _anybody_left() and (now := time.monotonic()) < killing_ends:
        if now >= asking_ends:
            _signal(leader, signal.SIGKILL)
        elif not asked:
            _signal(leader, signal.SIGTERM)
            asked = True
        left = (asking_ends if now < asking_ends else killing_ends) - now
        if select.select([news], [], [], left)[0]:
            os.read(news, 4096)


def _anybody_left() -> bool:
    """Collect the dead, and look for the living."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _signal(leader: int | None, number: int) -> None:
    """The server's group in one go, so that no fork slips through, and then everybody else."""
    targets = [*([-leader] if leader else []), *_descendants()]
    for target in targets:
        try:  # noqa: SIM105 (contextlib is slow to import)
            os.kill(target, number)
        except (ProcessLookupError, PermissionError):
            pass  # it is gone, or has become somebody else's


def _descendants() -> list[int]:
    """Every process below this one; none where there is no /proc."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if sys.platform == "linux" else ():
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, IndexError):
            continue  # it ended while we looked
        children.setdefault(parent, []).append(int(name))
    found: list[int] = []
    generation = [os.getpid()]
    while generation:
        generation = [child for parent in generation for child in children.get(parent, ())]
        found += generation
    return found


def _tell(leash: int, line: str) -> None:
    try:  # noqa: SIM105 (contextlib is slow to import)
        os.write(leash, line.encode())
    except OSError:
        pass  # the product died; what is left to do needs no listener


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    try:
        main(float(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
    finally:
        os._exit(0)
