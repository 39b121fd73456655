"""Scripts of a project: agreed to by the user, run in a worktree, or run once to set it up.

Trusting a project does not run its scripts. Agreeing to one does, until a byte of it changes.

Run scripts outlive the manager, and the next one adopts them: a script waits behind a gate until
its process mark is on disk. There is at most one per worktree.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec
from anyio.abc import TaskGroup
from msgspec import Struct

from rookery import NAME
from rookery.errors import CommandRejected, StorageError
from rookery.first_use import prepared
from rookery.manager.handlers.worktree_access import WorktreeAccess
from rookery.manager.sessions.session_folders import ProcessMark
from rookery.manager.sessions.session_process import (
    SessionProcess,
    is_alive,
    start_detached,
    start_ticks,
)
from rookery.manager.shown_rows import ScriptRow
from rookery.manager.worktrees.checkout_files import copy_included
from rookery.manager.worktrees.project_scripts import (
    ProjectScript,
    project_script,
    run_setup,
    script_command,
    script_environment,
    setup_script,
)
from rookery.manager.worktrees.remove import clear, plan_removal, remove
from rookery.platform.disk import KeptList, private_folder, put, reason
from rookery.platform.paths import visible
from rookery.platform.user_folders import Places
from rookery.platform.worktree_git import InTheWay
from rookery.platform.worktree_project import RUN_SCRIPT, SETUP_SCRIPT
from rookery.platform.worktree_values import BranchFate, Worktree

FILE = "scripts.json"
PATIENCE = 5.0
"""Seconds between SIGTERM and SIGKILL."""
KILL_SECONDS = 10.0
"""Seconds to wait for a killed script before giving up."""
_LARGEST_MARK = 4096
MAX_LINE = 500
"""Maximum length of an output line."""


class AgreedScript(Struct, frozen=True):
    project: str
    digest: str


class AgreedScripts:
    """The scripts of one project that the user agreed to, in a file that processes may share."""

    def __init__(self, project: Path, places: Places) -> None:
        self._project = project
        self._kept = KeptList(places.config / FILE, AgreedScript)

    def knows(self, script: ProjectScript) -> bool:
        return AgreedScript(str(self._project), script.digest) in self._kept.believed()

    def offered(self) -> tuple[ScriptRow, ...]:
        """The scripts with their current texts, for the user to read."""
        found = [(name, project_script(self._project, name)) for name in (SETUP_SCRIPT, RUN_SCRIPT)]
        return tuple(
            ScriptRow(
                name=name,
                path=visible(str(Path(script.path).relative_to(self._project))),
                text=script.text,
                digest=script.digest,
                agreed=self.knows(script),
            )
            for name, script in found
            if script
        )

    def agree_to(self, digest: str) -> None:
        """Agree to the script with this digest. Raises `CommandRejected` if it has changed, and
        `StorageError` if that cannot be saved."""
        if all(each.digest != digest for each in self.offered()):
            raise CommandRejected("The script was changed or removed; look again.")
        new = AgreedScript(str(self._project), digest)
        self._kept.update(lambda kept: [*(old for old in kept if old != new), new])


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

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(each.mark.pid for each in self._processes.values() if not each.is_gone)

    def log(self, worktree: Worktree) -> Path:
        """The file with the output since the last start."""
        return self._file(worktree, "log")

    def start(self, worktree: Worktree, script: ProjectScript) -> None:
        """Start a script that was agreed to. Raises `CommandRejected` if one is running, and
        `StorageError` if it cannot be started."""
        if self.runs(worktree):
            raise CommandRejected(f"The run script of {worktree.branch} is already running.")
        private_folder(self._folder)
        try:
            process = self._spawn(worktree, script)
        except OSError as error:
            raise StorageError(f"The run script did not start ({reason(error)}).") from error
        self._watch(worktree, process)

    async def stop(self, worktree: Worktree) -> None:
        """Raises `CommandRejected` if the script could not be stopped."""
        process = self._process(worktree)
        if process is None or process.is_gone:
            return
        with anyio.move_on_after(PATIENCE + KILL_SECONDS):
            await process.end(patience=PATIENCE)
        if not process.is_gone:
            raise CommandRejected(f"The run script of {worktree.branch} could not be stopped.")

    def _spawn(self, worktree: Worktree, script: ProjectScript) -> SessionProcess:
        command = [worktree.path, *script_command(script, self._project)]
        environ = script_environment(worktree, self._project, self._environ)

        def keep(pid: int) -> ProcessMark:
            mark = ProcessMark(generation=1, pid=pid, born=start_ticks(pid))
            put(self._file(worktree, "json"), [msgspec.json.encode(mark)])
            return mark

        return start_detached(command, self.log(worktree), environ, keep, kind="manager.script_")

    def _process(self, worktree: Worktree) -> SessionProcess | None:
        """The running script, started by this manager or an earlier one."""
        if known := self._processes.get(worktree.path):
            return known
        try:
            data = self._file(worktree, "json").read_bytes()[:_LARGEST_MARK]
            mark = msgspec.json.decode(data, type=prepared(ProcessMark))
        except (OSError, msgspec.MsgspecError):
            return None
        if not is_alive(mark):
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


class WorktreeSetup:
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
        self, worktree: Worktree, on_lines: Callable[[Sequence[str]], None]
    ) -> tuple[str, ...]:
        """Set up a worktree and return notes; `on_lines` receives output lines as they arrive."""
        notes: list[str] = []
        try:
            await self._access.run(copy_included, worktree)
        except InTheWay as error:
            notes.append(str(error))
        notes += await self._run(worktree, on_lines)
        on_lines(notes)
        return tuple(notes)

    async def _run(
        self, worktree: Worktree, on_lines: Callable[[Sequence[str]], None]
    ) -> list[str]:
        project = self._access.project
        if not (script := setup_script(project)):
            return []
        if not self._agreed.knows(script):
            shown = Path(script.path).relative_to(project)
            look = f"{NAME} sessions worktrees scripts"
            return [f"{shown} was not run, because you have not agreed to it as it is now: {look}"]
        lines = _OutputLines()
        trouble = await run_setup(
            script,
            worktree,
            project,
            approved=script.digest,
            on_output=lambda text: on_lines(tuple(lines.of(text))),
            environ=self._environ,
            other_pids=self.processes,
        )
        on_lines(tuple(lines.rest()))
        return [trouble] if trouble else []

    def processes(self) -> set[int]:
        """PIDs of sessions and run scripts, which must not be killed with another process."""
        pids = (record.pid for record in self._access.supervisor.records())
        return {*filter(None, pids), *self._scripts.pids}

    async def discard(self, worktree: Worktree) -> bool:
        """Remove an unused worktree; return whether it was empty and is gone."""
        with suppress(InTheWay):
            plan = await self._access.run(plan_removal, worktree)
            if plan.to_keep or plan.left_out or plan.unmerged_commits:
                return False
            fate = BranchFate.DELETE if worktree.branch_owned else BranchFate.KEEP
            removed = await self._access.run(remove, plan, fate)
            if removed:
                with suppress(InTheWay):
                    await anyio.to_thread.run_sync(clear, removed)
            return True
        return False


class _OutputLines:
    """Splits chunks of output into lines that are safe to display."""

    def __init__(self) -> None:
        self._partial = ""

    def of(self, text: str) -> Iterator[str]:
        *whole, self._partial = (self._partial + text).replace("\r", "\n").split("\n")
        self._partial = self._partial[-MAX_LINE:]
        return (visible(line)[:MAX_LINE] for line in whole if line)

    def rest(self) -> Iterator[str]:
        return self.of("\n")
