"""Scripts of a project: agreed to by the user, run in a worktree, or run once to set it up.

Trusting a project does not run its scripts. Agreeing to one does, until a byte of it changes.

Run scripts go on when the manager ends, and the next one finds them again: a script waits behind a
gate until its mark is on disk. There is at most one for each worktree.
"""

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

import anyio
import msgspec
from anyio.abc import TaskGroup
from msgspec import Struct

from rookery import NAME
from rookery.errors import CommandRejected, StorageError
from rookery.faults import kp
from rookery.manager.handlers.worktree_access import WorktreeAccess
from rookery.manager.sessions.session_folders import ProcessMark
from rookery.manager.sessions.session_process import SessionProcess, born, lives
from rookery.manager.worktrees.project_scripts import (
    ProjectScript,
    project_script,
    run_setup,
    script_command,
    script_environment,
    setup_script,
)
from rookery.manager.worktrees.worktree_project import RUN_SCRIPT, SETUP_SCRIPT
from rookery.manager.worktrees.worktree_values import BranchFate, Obstacle, Removed, Worktree
from rookery.platform.disk import PRIVATE_FILE, KeptList, private_folder, put, reason
from rookery.platform.paths import visible
from rookery.platform.user_folders import Places

FILE = "scripts.json"
PATIENCE = 5.0
"""Seconds that a script has to end itself."""
LONGEST = 10.0
"""Seconds after which a script that was killed is still not gone, and is given up."""
_LARGEST_MARK = 4096
_SHELL = "/bin/sh"
_GATE = 'read -r go || exit 0; exec 0</dev/null; cd -- "$0" && exec "$@"'
LONGEST_LINE = 500
"""Characters of a line of a script's output that are kept."""


class AgreedScript(Struct, frozen=True):
    project: str
    digest: str


class OfferedScript(Struct, frozen=True, kw_only=True):
    """A script as it is now, to be looked at."""

    name: str
    script: ProjectScript
    agreed: bool


class AgreedScripts:
    """Of one project, kept in a file of the user's. Several processes may use it at once."""

    def __init__(self, project: Path, places: Places) -> None:
        self._project = project
        self._kept = KeptList(places.config / FILE, AgreedScript)

    def knows(self, script: ProjectScript) -> bool:
        return self._known_as(script) in self._kept.believed()

    def offered(self) -> tuple[OfferedScript, ...]:
        found = [(name, project_script(self._project, name)) for name in (SETUP_SCRIPT, RUN_SCRIPT)]
        return tuple(
            OfferedScript(name=name, script=script, agreed=self.knows(script))
            for name, script in found
            if script
        )

    def agree_to(self, digest: str) -> None:
        """To the script that was shown under this digest. Raises `CommandRejected` if it is not
        that any more, and `StorageError` if it could not be kept."""
        shown = [each.script for each in self.offered() if each.script.digest == digest]
        if not shown:
            raise CommandRejected("The script was changed or removed; look again.")
        new = self._known_as(shown[0])
        self._kept.update(lambda kept: [*(old for old in kept if old != new), new])

    def _known_as(self, script: ProjectScript) -> AgreedScript:
        return AgreedScript(str(self._project), script.digest)


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
            raise CommandRejected(f"The run script of {worktree.branch} is already running.")
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


class SettingUp:
    def __init__(
        self,
        access: WorktreeAccess,
        agreed: AgreedScripts,
        scripts: RunScripts,
        environ: Mapping[str, str],
    ) -> None:
        self._access = access
        self._agreed = agreed
        self._scripts = scripts
        self._environ = environ

    async def set_up(
        self, worktree: Worktree, heard: Callable[[Sequence[str]], None]
    ) -> tuple[str, ...]:
        """`heard` is given the lines as they come. What should be known is returned."""
        copied = await self._access.tried(lambda: self._access.operations.copy_included(worktree))
        notes = [copied.text] if isinstance(copied, Obstacle) else []
        notes += await self._run(worktree, heard)
        heard(notes)
        return tuple(notes)

    async def _run(self, worktree: Worktree, heard: Callable[[Sequence[str]], None]) -> list[str]:
        project = self._access.project
        if not (script := setup_script(project)):
            return []
        if not self._agreed.knows(script):
            shown = Path(script.path).relative_to(project)
            look = f"{NAME} sessions worktrees scripts"
            return [f"{shown} was not run, because you have not agreed to it as it is now: {look}"]
        lines = _OutputLines()
        run = await run_setup(
            script,
            worktree,
            project,
            approved=script.digest,
            heard=lambda text: heard(tuple(lines.of(text))),
            environ=self._environ,
            spared=self._processes,
        )
        heard(tuple(lines.rest()))
        return [run.trouble] if run.trouble else []

    def _processes(self) -> set[int]:
        """Of sessions and run scripts, which are nobody's but the user's."""
        pids = (record.pid for record in self._access.supervisor.records())
        return {*filter(None, pids), *self._scripts.pids}

    async def discard(self, worktree: Worktree) -> bool:
        """Remove a worktree that nobody has worked in yet; whether it held nothing and is gone."""
        operations = self._access.operations
        plan = await self._access.tried(lambda: operations.plan_removal(worktree))
        if isinstance(plan, Obstacle) or plan.to_keep or plan.left_out or plan.unmerged_commits:
            return False
        fate = BranchFate.DELETE if worktree.branch_owned else BranchFate.KEEP
        removed = await self._access.tried(lambda: operations.remove(plan, fate))
        if isinstance(removed, Removed):
            await self._access.tried(lambda: operations.clear(removed))
        return not isinstance(removed, Obstacle)


class _OutputLines:
    """Output that comes in pieces, as lines that can be shown."""

    def __init__(self) -> None:
        self._begun = ""

    def of(self, text: str) -> Iterator[str]:
        *whole, self._begun = (self._begun + text).replace("\r", "\n").split("\n")
        self._begun = self._begun[-LONGEST_LINE:]
        return (visible(line)[:LONGEST_LINE] for line in whole if line)

    def rest(self) -> Iterator[str]:
        return self.of("\n")
