"""One process that serves one session: started apart from us, watched, ended.

A process is started behind a gate: it does nothing before it is let go, and ends if whoever
would let it go dies first. It is let go once its mark is on disk, so at any instant a process
that works is one that can be found again.
"""

import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import anyio
from msgspec import Struct

from rookery import NAME
from rookery.errors import StorageError
from rookery.faults import kp
from rookery.manager.sessions.session_folders import ProcessMark, SessionFolder, SessionLaunch
from rookery.platform.disk import PRIVATE_FILE, private_folder, reason

_GATE = """\
import os, sys
os.setsid()
if not os.read(0, 1):
    os._exit(0)
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
os.chdir(sys.argv[1])
os.execv(sys.argv[2], sys.argv[2:])
"""
SECONDS_BETWEEN_LOOKS = 0.2
"""Where the system does not tell that a process has ended."""
LEFT_ALONE = 300
"""Seconds without a manager after which a process ends itself, if it has nothing to do."""
_TOLD_TO_END = (signal.SIGTERM, signal.SIGHUP)
ENVIRONMENT = {"NO_COLOR": "1", "FORCE_COLOR": "0"}


class ProcessEnd(Struct, frozen=True, kw_only=True):
    """How a process ended; nothing is known of one that somebody else had started."""

    code: int | None = None
    signal: int | None = None

    @property
    def is_shutdown(self) -> bool:
        """It was told to end, as the system does with all processes before it ends itself."""
        return self.signal in _TOLD_TO_END or (self.code or 0) - 128 in _TOLD_TO_END


class SessionProcess:
    """A process that was alive a moment ago."""

    def __init__(self, mark: ProcessMark) -> None:
        self.mark = mark
        self._gone = anyio.Event()
        self.ending = False
        """We want it to end."""

    @property
    def is_gone(self) -> bool:
        return self._gone.is_set()

    async def watch(self) -> ProcessEnd:
        """Waits until it is gone. To be called once."""
        how = None if await _told_when_gone(self.mark) else await self._looked_for()
        how = how or _exit_of(self.mark.pid) or ProcessEnd()
        self._gone.set()
        return how

    async def _looked_for(self) -> ProcessEnd | None:
        """Where the system does not tell. Our own child stays until we have asked how it went."""
        while lives(self.mark):
            if how := _exit_of(self.mark.pid):
                return how
            await anyio.sleep(SECONDS_BETWEEN_LOOKS)
        return None

    async def gone(self) -> None:
        await self._gone.wait()

    async def end(self, *, patience: float) -> None:
        """Told to end, then made to. Whoever watches it sees it go."""
        self.ending = True
        self._signal(signal.SIGTERM)
        with anyio.move_on_after(patience):
            await self._gone.wait()
        self._signal(signal.SIGKILL)
        await self._gone.wait()

    def _signal(self, number: signal.Signals) -> None:
        if self.is_gone or not lives(self.mark):
            return
        with suppress(ProcessLookupError):
            try:
                os.killpg(self.mark.pid, number)
            except ProcessLookupError:  # it does not lead its group yet
                os.kill(self.mark.pid, number)


def start(
    folder: SessionFolder,
    launch: SessionLaunch,
    generation: int,
    environ: Mapping[str, str],
    *,
    new_task: bool,
    at_rest: bool,
    after: int,
    marked: Callable[[ProcessMark], None],
) -> SessionProcess:
    """Starts a process, which is let go once `marked` has kept what it wants of it. Raises
    `StorageError` if there can be none; then there is none."""
    if not Path(launch.workspace).is_dir():
        raise StorageError(
            f"The folder {launch.workspace} is missing. The session is kept; it can "
            "continue once the folder exists again."
        )
    private_folder(folder.path)
    arguments = [sys.executable, "-P", "-m", NAME, "serve", "--socket", str(folder.socket)]
    ending = ["--until-left", str(LEFT_ALONE)]
    command = [launch.workspace, *arguments, *ending, *launch.flags()]
    surroundings = {**environ, **(launch.env or {}), **ENVIRONMENT}
    try:
        with _Gate() as gate:
            pid = spawn(command, folder.log, gate.inside, surroundings)
            kp("manager.spawned")
            mark = ProcessMark(
                generation=generation,
                pid=pid,
                born=born(pid),
                new_task=new_task,
                at_rest=at_rest,
                after=after,
                boot=boot_id(),
            )
            try:
                folder.keep_mark(mark)
                marked(mark)
            except BaseException:
                gate.close()
                os.waitpid(pid, 0)
                raise
            kp("manager.marked")
            gate.open()
            kp("manager.let_go")
            return SessionProcess(mark)
    except OSError as error:
        raise StorageError(
            f"No process could be started for the session ({reason(error)}). Nothing was lost; "
            "retry."
        ) from error


class _Gate:
    """A pipe: a byte lets go whoever waits inside, its end turns them away."""

    def __init__(self) -> None:
        self.inside, self._outside = os.pipe()
        self._closed = False

    def __enter__(self) -> "_Gate":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> None:
        with suppress(BrokenPipeError):  # somebody has ended it already
            os.write(self._outside, b".")

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            os.close(self.inside)
            os.close(self._outside)


def spawn(command: list[str], log: Path, gate: int, environ: Mapping[str, str]) -> int:
    """The number of a process that waits at the gate, apart from us and from any terminal."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    output = os.open(log, flags, PRIVATE_FILE)
    try:
        return os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", "-c", _GATE, *command],
            environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, gate, 0),
                (os.POSIX_SPAWN_DUP2, output, 1),
                (os.POSIX_SPAWN_DUP2, output, 2),
            ],
            setsigmask=(),
        )
    finally:
        os.close(output)


def lives(mark: ProcessMark) -> bool:
    """Whether exactly that process runs: its number may be another's by now."""
    if mark.boot and mark.boot != boot_id():
        return False
    if mark.born:
        return born(mark.pid) == mark.born
    try:
        os.kill(mark.pid, 0)
    except (OSError, OverflowError):
        return False
    return True


def boot_id() -> str:
    """Of the running system; nothing where it has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


def born(pid: int) -> int:
    """When a process began, in ticks since the system did; 0 for a dead one, and where that
    cannot be known."""
    try:
        said = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return 0
    return 0 if said[0] == b"Z" else int(said[19])


async def _told_when_gone(mark: ProcessMark) -> bool:
    """Waits until the system tells; whether it does."""
    try:
        process = os.pidfd_open(mark.pid)
    except ProcessLookupError:
        return True
    except (AttributeError, OSError):  # not this system, or no room for one more
        return False
    try:
        if lives(mark):
            await anyio.wait_readable(process)
    finally:
        os.close(process)
    return True


def _exit_of(pid: int) -> ProcessEnd | None:
    """How a child of ours ended; None if it has not, or is none."""
    try:
        found, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return None
    if not found:
        return None
    if os.WIFSIGNALED(status):
        return ProcessEnd(signal=os.WTERMSIG(status))
    return ProcessEnd(code=os.waitstatus_to_exitcode(status))
