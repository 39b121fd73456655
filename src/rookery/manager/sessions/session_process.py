"""One process that serves one session: started detached, watched, ended.

A process is started behind a gate: it does nothing before the gate opens, and exits if the manager
dies first. The gate opens once the process mark is on disk, so a process that works can always be
found again.
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
POLL_SECONDS = 0.2
"""Polling interval on systems that do not report the end of a process."""
IDLE_EXIT_SECONDS = 300
"""Seconds without a manager after which an idle process ends itself."""
_TERMINATION_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
ENVIRONMENT = {"NO_COLOR": "1", "FORCE_COLOR": "0"}


class ProcessEnd(Struct, frozen=True, kw_only=True):
    """How a process ended; both fields are None for a process that another manager started."""

    code: int | None = None
    signal: int | None = None

    @property
    def is_shutdown(self) -> bool:
        """Whether it got a termination signal, as all processes do at a system shutdown."""
        return self.signal in _TERMINATION_SIGNALS or (self.code or 0) - 128 in _TERMINATION_SIGNALS


class SessionProcess:
    def __init__(self, mark: ProcessMark) -> None:
        self.mark = mark
        self._gone = anyio.Event()
        self.ending = False
        """Whether the manager has asked it to end."""

    @property
    def is_gone(self) -> bool:
        return self._gone.is_set()

    async def watch(self) -> ProcessEnd:
        """Wait until the process is gone. May be called once."""
        end = None if await _wait_with_pidfd(self.mark) else await self._poll()
        end = end or _exit_status(self.mark.pid) or ProcessEnd()
        self._gone.set()
        return end

    async def _poll(self) -> ProcessEnd | None:
        """Poll for the end. A child of ours remains a zombie until its exit status is read."""
        while is_alive(self.mark):
            if end := _exit_status(self.mark.pid):
                return end
            await anyio.sleep(POLL_SECONDS)
        return None

    async def wait(self) -> None:
        await self._gone.wait()

    async def end(self, *, patience: float) -> None:
        """Send SIGTERM, then SIGKILL after `patience` seconds. Needs a running `watch`."""
        self.ending = True
        self._signal(signal.SIGTERM)
        with anyio.move_on_after(patience):
            await self._gone.wait()
        self._signal(signal.SIGKILL)
        await self._gone.wait()

    def _signal(self, number: signal.Signals) -> None:
        if self.is_gone or not is_alive(self.mark):
            return
        with suppress(ProcessLookupError):
            try:
                os.killpg(self.mark.pid, number)
            except ProcessLookupError:  # it has no process group yet
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
    """Start a process and open its gate once `marked` has returned. Raises `StorageError` if no
    process could be started."""
    if not Path(launch.workspace).is_dir():
        raise StorageError(
            f"The folder {launch.workspace} is missing. The session is kept; it can "
            "continue once the folder exists again."
        )
    private_folder(folder.path)
    arguments = [sys.executable, "-P", "-m", NAME, "serve", "--socket", str(folder.socket)]
    ending = ["--until-left", str(IDLE_EXIT_SECONDS)]
    command = [launch.workspace, *arguments, *ending, *launch.flags()]
    environment = {**environ, **(launch.env or {}), **ENVIRONMENT}

    def keep(pid: int) -> ProcessMark:
        mark = ProcessMark(
            generation=generation,
            pid=pid,
            born=start_ticks(pid),
            new_task=new_task,
            at_rest=at_rest,
            after=after,
            boot=boot_id(),
        )
        folder.keep_mark(mark)
        marked(mark)
        return mark

    try:
        process = start_detached(command, folder.log, environment, keep)
        kp("manager.let_go")
        return process
    except OSError as error:
        raise StorageError(
            f"No process could be started for the session ({reason(error)}). Nothing was lost; "
            "retry."
        ) from error


def start_detached(
    command: list[str],
    log: Path,
    environ: Mapping[str, str],
    keep: Callable[[int], ProcessMark],
    *,
    kind: str = "manager.",
) -> SessionProcess:
    """Start a command, which begins with its folder, and open its gate once `keep` has saved the
    mark of its PID. Raises `OSError`. `kind` begins the names of its kill points."""
    with _Gate() as gate:
        pid = spawn(command, log, gate.inside, environ)
        kp(f"{kind}spawned")
        try:
            mark = keep(pid)
        except BaseException:
            gate.close()
            os.waitpid(pid, 0)
            raise
        kp(f"{kind}marked")
        gate.open()
    return SessionProcess(mark)


class _Gate:
    """A pipe that a new process reads from: a byte lets it start, end of file makes it exit."""

    def __init__(self) -> None:
        self.inside, self._outside = os.pipe()
        self._closed = False

    def __enter__(self) -> "_Gate":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> None:
        with suppress(BrokenPipeError):  # it has ended already
            os.write(self._outside, b".")

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            os.close(self.inside)
            os.close(self._outside)


def spawn(command: list[str], log: Path, gate: int, environ: Mapping[str, str]) -> int:
    """Start a detached process that waits at the gate; return its PID."""
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


def is_alive(mark: ProcessMark) -> bool:
    """Whether exactly this process runs; its PID may have been reused."""
    if mark.boot and mark.boot != boot_id():
        return False
    if mark.born:
        return start_ticks(mark.pid) == mark.born
    try:
        os.kill(mark.pid, 0)
    except (OSError, OverflowError):
        return False
    return True


def boot_id() -> str:
    """Id of the running system's boot; empty if the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


def start_ticks(pid: int) -> int:
    """Start time in clock ticks since boot; 0 if the process is dead or the system does not say."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] == b"Z" else int(fields[19])


async def _wait_with_pidfd(mark: ProcessMark) -> bool:
    """Wait until the system reports the end; return False if it cannot report it."""
    try:
        process = os.pidfd_open(mark.pid)
    except ProcessLookupError:
        return True
    except (AttributeError, OSError):  # unsupported, or too many open files
        return False
    try:
        if is_alive(mark):
            await anyio.wait_readable(process)
    finally:
        os.close(process)
    return True


def _exit_status(pid: int) -> ProcessEnd | None:
    """How our child ended; None if it still runs or is not our child."""
    try:
        found, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return None
    if not found:
        return None
    if os.WIFSIGNALED(status):
        return ProcessEnd(signal=os.WTERMSIG(status))
    return ProcessEnd(code=os.waitstatus_to_exitcode(status))
