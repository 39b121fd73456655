"""The run scripts of worktrees: at most one process for each, which leads a group of its own.

Like sessions they run on when the manager ends, and the next one finds them again: a script waits
behind a gate until its mark is on disk.
"""

import os
import signal
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import anyio
import msgspec
from anyio.abc import TaskGroup

from rookery.errors import CommandRejected, StorageError
from rookery.faults import kp
from rookery.manager.sessions.session_folders import ProcessMark
from rookery.manager.sessions.session_process import SessionProcess, born, lives
from rookery.manager.worktrees.project_scripts import (
    ProjectScript,
    script_command,
    script_environment,
)
from rookery.manager.worktrees.worktree_values import Worktree
from rookery.platform.disk import PRIVATE_FILE, private_folder, put, reason
from rookery.platform.user_folders import Places

PATIENCE = 5.0
"""Seconds that a script has to end itself."""
LONGEST = 10.0
"""Seconds after which a script that was killed is still not gone, and is given up."""
_LARGEST_MARK = 4096
_SHELL = "/bin/sh"
_GATE = 'read -r go || exit 0; exec 0</dev/null; cd -- "$0" && exec "$@"'


class RunScripts:
    def __init__(
        self, project: Path, places: Places, environ: Mapping[str, str], group: TaskGroup
    ) -> None:
        self._project = project
        self._folder = places.state / "scripts"
        self._environ = environ
        self._group = group
        self._processes: dict[str, SessionProcess] = {}

    def runs(self, worktree: Worktree) -> bool:
        process = self._process(worktree)
        return process is not None and not process.is_gone

    def is_stopping(self, worktree: Worktree) -> bool:
        process = self._processes.get(worktree.path)
        return process is not None and process.ending and not process.is_gone

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(each.mark.pid for each in self._processes.values() if not each.is_gone)

    def log(self, worktree: Worktree) -> Path:
        """What the script has written, since it was last started."""
        return self._file(worktree, "log")

    def start(self, worktree: Worktree, script: ProjectScript) -> None:
        """A script that was agreed to. Raises `CommandRejected` if one runs already, and
        `StorageError` if it cannot be started."""
        if self.runs(worktree):
            raise CommandRejected(f"The run script of {worktree.branch} is running already.")
        private_folder(self._folder)
        try:
            process = self._spawned(worktree, script)
        except OSError as error:
            raise StorageError(f"The run script did not start ({reason(error)}).") from error
        self._watch(worktree, process)

    async def stop(self, worktree: Worktree) -> None:
        """Raises `CommandRejected` if it is not to be stopped."""
        process = self._process(worktree)
        if process is None or process.is_gone:
            return
        with anyio.move_on_after(PATIENCE + LONGEST):
            await process.end(patience=PATIENCE)
        if not process.is_gone:
            raise CommandRejected(f"The run script of {worktree.branch} could not be stopped.")

    def _spawned(self, worktree: Worktree, script: ProjectScript) -> SessionProcess:
        inside, outside = os.pipe()
        try:
            pid = self._waiting(worktree, script, inside)
            kp("manager.script_spawned")
            try:
                mark = ProcessMark(generation=1, pid=pid, born=born(pid))
                put(self._file(worktree, "json"), [msgspec.json.encode(mark)])
            except BaseException:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                raise
            kp("manager.script_marked")
            os.write(outside, b"go\n")
        finally:
            os.close(inside)
            os.close(outside)
        return SessionProcess(mark)

    def _waiting(self, worktree: Worktree, script: ProjectScript, gate: int) -> int:
        """The number of a process that waits at the gate, apart from us and from any terminal."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        output = os.open(self.log(worktree), flags, PRIVATE_FILE)
        try:
            return os.posix_spawn(
                _SHELL,
                [_SHELL, "-c", _GATE, worktree.path, *script_command(script, self._project)],
                script_environment(worktree, self._project, self._environ),
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, gate, 0),
                    (os.POSIX_SPAWN_DUP2, output, 1),
                    (os.POSIX_SPAWN_DUP2, output, 2),
                ],
                setsid=True,
                setsigmask=(),
            )
        finally:
            os.close(output)

    def _process(self, worktree: Worktree) -> SessionProcess | None:
        """The one that we have started, or an earlier manager has."""
        if known := self._processes.get(worktree.path):
            return known
        try:
            data = self._file(worktree, "json").read_bytes()[:_LARGEST_MARK]
            mark = msgspec.json.decode(data, type=ProcessMark)
        except (OSError, msgspec.MsgspecError):
            return None
        if not lives(mark):
            return None
        process = SessionProcess(mark)
        self._watch(worktree, process)
        return process

    def _watch(self, worktree: Worktree, process: SessionProcess) -> None:
        self._processes[worktree.path] = process
        self._group.start_soon(process.watch)

    def _file(self, worktree: Worktree, ending: str) -> Path:
        name = sha256(os.fsencode(worktree.path)).hexdigest()[:16]
        return self._folder / f"{name}.{ending}"
