"""Lists the running commands of all processes of this user: one small file each.

A file outlives a killed process, so an entry counts only while its warden lives. PIDs are reused,
so a warden is identified by PID and start time.
"""

import os
import select
import signal
import time
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rookery.core.limits import MIB
from rookery.core.text.characters import as_utf8
from rookery.engine.ports.actions import Permit
from rookery.engine.ports.workspace import CommandState, RunningCommand
from rookery.errors import StorageError
from rookery.first_use import prepared
from rookery.platform.disk import private_folder, put
from rookery.platform.wardens import process_state

END, KEEP, LOOK = signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2
"""Signals to a warden: end the command; let it outlive us; check for `KEEP`."""
END_SECONDS, KEEP_SECONDS = 10.0, 5.0
LARGEST_FILE = 1 * MIB


class ListedCommand(Struct, frozen=True, kw_only=True):
    """A running command; `id` is the PID of its warden, `started` is in milliseconds."""

    id: int
    born: int
    task_id: str
    call_id: str
    command: str
    folder: str
    state: CommandState
    started: int


class CommandRegistry:
    """The commands listed in `folder`, which is created with the first one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def of(self, task_id: str, workspace: Path) -> "TaskCommandList":
        return TaskCommandList(self, task_id, workspace)

    def all(self) -> list[ListedCommand]:
        """Running commands, oldest first. Removes entries of dead ones."""
        found = [self._read(path) for path in self._folder.glob("*.json")]
        listed = [command for command in found if command]
        return sorted(listed, key=lambda command: (command.started, command.id))

    def put(self, command: ListedCommand) -> None:
        """Never fails: a full disk must not end a command."""
        with suppress(OSError, StorageError):
            private_folder(self._folder)
            put(self._path(command.id), [msgspec.json.encode(command)], durable=False)

    def remove(self, number: int) -> None:
        with suppress(OSError):
            self._path(number).unlink(missing_ok=True)

    def stop(self, command: ListedCommand) -> None:
        """End a command and everything it started, and wait for it. Raises `StorageError` on
        timeout."""
        with _HeldWarden(command) as warden:
            warden.signal(END)
            if not warden.ended_within(END_SECONDS):
                raise StorageError(f"Command {command.id} was asked to end, but has not ended yet.")
        self.remove(command.id)

    def keep(self, command: ListedCommand) -> None:
        """Let a command outlive its session. Raises `StorageError` if its warden does not
        respond."""
        with _HeldWarden(command) as warden:
            warden.signal(KEEP)
            warden.signal(LOOK)
            if not warden.acknowledged_within(KEEP_SECONDS):
                raise StorageError(f"Command {command.id} could not be kept; it does not answer.")
        self.put(replace(command, state="kept"))

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}.json"

    def _read(self, path: Path) -> ListedCommand | None:
        try:
            with path.open("rb") as file:
                command = msgspec.json.decode(file.read(LARGEST_FILE), type=prepared(ListedCommand))
        except FileNotFoundError:
            return None  # it has just ended
        except (OSError, msgspec.MsgspecError, UnicodeError):
            command = None
        if command and path == self._path(command.id) and _lives(command):
            return command
        with suppress(OSError):
            path.unlink(missing_ok=True)
        return None


class TaskCommandList(Struct):
    """Adds the commands of one task to the list and removes them."""

    commands: CommandRegistry
    task_id: str
    workspace: Path
    _started: dict[int, int] = {}

    def enter(
        self, command: RunningCommand, *, call_id: str, permit: Permit, state: CommandState
    ) -> None:
        now = time.time_ns() // 1_000_000
        self.commands.put(
            ListedCommand(
                id=command.warden,
                born=_start_time(command.warden),
                task_id=self.task_id,
                call_id=as_utf8(call_id),
                command=as_utf8(permit.command),
                folder=as_utf8(str(self.workspace / permit.cwd)),
                state=state,
                started=self._started.setdefault(command.warden, now),
            )
        )

    def leave(self, command: RunningCommand) -> None:
        self._started.pop(command.warden, None)
        self.commands.remove(command.warden)


class _HeldWarden:
    """The warden of a listed command, held so that its PID cannot be reused meanwhile."""

    def __init__(self, command: ListedCommand) -> None:
        self._pid = command.id
        gone = f"Command {command.id} has already ended."
        try:
            self._process = os.pidfd_open(command.id)
        except AttributeError as error:
            raise StorageError(
                "This system cannot tell whether the PID was reused, so nothing was "
                "killed. End the command in its session."
            ) from error
        except OSError as error:
            raise StorageError(gone) from error
        if not _lives(command):
            os.close(self._process)
            raise StorageError(gone)

    def __enter__(self) -> "_HeldWarden":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._process)

    def signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):  # ended by itself, which is as good
            signal.pidfd_send_signal(self._process, number)

    def ended_within(self, seconds: float) -> bool:
        return bool(select.select([self._process], [], [], seconds)[0])

    def acknowledged_within(self, seconds: float) -> bool:
        """Whether it has handled `KEEP`. It checks the sender, so the sender must stay alive."""
        deadline = time.monotonic() + seconds
        while _is_pending(self._pid, KEEP) and time.monotonic() < deadline:
            time.sleep(0.01)
        return not _is_pending(self._pid, KEEP)


def _lives(command: ListedCommand) -> bool:
    if command.born:
        return _start_time(command.id) == command.born
    try:
        os.kill(command.id, 0)
    except (OSError, OverflowError):
        return False  # gone, or not ours
    return True


def _is_pending(pid: int, number: signal.Signals) -> bool:
    """Whether a process has not handled a signal yet."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    words = [line.split() for line in status.splitlines() if line.startswith("ShdPnd:")]
    return any(int(mask, 16) >> (number - 1) & 1 for _, mask in words)


def _start_time(pid: int) -> int:
    """When a process started, in ticks since boot; 0 if it is dead or that is unknown."""
    process = process_state(pid)
    return 0 if process is None or process.dead else process.began
