"""Scripts of a project for its worktrees: one to set them up, one to run the code in them.

They run outside the sandbox, so a script runs only as the exact text the user agreed to, whatever
the file holds by then.
"""

import os
from collections.abc import Callable, Collection, Mapping
from hashlib import sha256
from pathlib import Path

import anyio
from msgspec import Struct

from rookery import PROJECT_FOLDER
from rookery.core.limits import KIB
from rookery.errors import ToolError
from rookery.platform.git_folders import OWN_FOLDER, regular_content
from rookery.platform.guarded_process import GuardedProcess, command_environment, start_guarded
from rookery.platform.user_folders import find_own_program
from rookery.platform.wardens import WaitingWarden, Wardens
from rookery.platform.worktree_project import SETUP_SCRIPT
from rookery.platform.worktree_values import Worktree, environment_of

LARGEST = 100 * KIB

LONGEST = 300.0
GRACE = 2.0
PATIENCE = 3.0
"""Seconds after the grace period until an unresponsive warden is killed."""


class ProjectScript(Struct, frozen=True, kw_only=True):
    path: str
    text: str
    digest: str
    """SHA-256 of the text; an approval covers only this."""


def project_script(project: Path, name: str) -> ProjectScript | None:
    """The first script found that can be run."""
    for folder in (PROJECT_FOLDER, OWN_FOLDER):
        for file in (name, f"{name}.sh"):
            path = project / folder / file
            data = None if path.parent.is_symlink() else regular_content(str(path), LARGEST + 1)
            if data is not None and len(data) <= LARGEST and b"\0" not in data:
                text = data.decode("utf-8", "surrogateescape")
                return ProjectScript(path=str(path), text=text, digest=sha256(data).hexdigest())
    return None


def script_command(script: ProjectScript, project: Path) -> list[str]:
    """Command that runs the approved text rather than the file."""
    shell = find_own_program("bash", project) or "/bin/sh"
    return [shell, "-c", script.text, script.path]


def script_environment(
    worktree: Worktree, project: Path, environ: Mapping[str, str]
) -> dict[str, str]:
    usual = command_environment(environ, confined=False)
    return {**usual, **environment_of(worktree, str(project))}


def setup_script(project: Path) -> ProjectScript | None:
    return project_script(project, SETUP_SCRIPT)


async def run_setup(
    script: ProjectScript,
    worktree: Worktree,
    project: Path,
    *,
    approved: str,
    on_output: Callable[[str], None],
    environ: Mapping[str, str] | None = None,
    seconds: float = LONGEST,
    wardens: Wardens | None = None,
    other_pids: Callable[[], Collection[int]] = tuple,
) -> str:
    """Run the script if its digest is `approved`, passing output to `on_output`. Returns what went
    wrong; empty if nothing. If it kills its warden, all processes that could be its own are killed,
    except `other_pids`, started by us."""
    if script.digest != approved:
        return f"You have not agreed to {script.path} as it is now; read it."
    try:
        process = start_guarded(
            wardens or Wardens(),
            script_command(script, project),
            grace=GRACE,
            folder=Path(worktree.path),
            environment=script_environment(
                worktree, project, os.environ if environ is None else environ
            ),
        )
    except ToolError as error:
        return f"The set-up script did not run. {error}"
    return await _attend(process, on_output, seconds, other_pids)


async def _attend(
    process: GuardedProcess,
    on_output: Callable[[str], None],
    seconds: float,
    other_pids: Callable[[], Collection[int]],
) -> str:
    def read_output() -> None:
        while data := process.read():
            on_output(data.decode("utf-8", "replace"))

    try:
        with anyio.move_on_after(seconds) as time:
            while process.status is None and not process.gone:
                await wait_for_output(process)
                read_output()
    finally:
        with anyio.CancelScope(shield=True):
            await end_process(process, GRACE)
            read_output()
            close_process(process, {*other_pids()})
    return _trouble(process, seconds if time.cancelled_caught else 0.0)


async def wait_for_output(process: GuardedProcess) -> None:
    """Wait until the process has written or ended."""
    async with anyio.create_task_group() as group:

        async def wait(file: int) -> None:
            await anyio.wait_readable(file)
            group.cancel_scope.cancel()

        for file in process.sources:
            group.start_soon(wait, file)
    process.listen()


async def end_process(process: GuardedProcess, grace: float) -> None:
    """Stop the process and wait until it is gone."""
    process.stop()
    with anyio.move_on_after(grace + PATIENCE):
        while not process.gone:
            await anyio.wait_readable(process.sources[0])
            process.listen()
    if not process.gone:
        process.kill()


def close_process(process: GuardedProcess, other_pids: set[int]) -> None:
    """Close a process that is gone; orphans it left are killed, `other_pids` are not."""
    others = other_pids - WaitingWarden.pids
    WaitingWarden.pids.update(others)
    try:
        process.close()
    finally:
        WaitingWarden.pids.difference_update(others)


def _trouble(process: GuardedProcess, after: float) -> str:
    if after:
        return f"The set-up script was stopped after {after:g} s."
    if process.failure or not process.pid:
        return "The set-up script could not be started."
    if process.status is None:
        return "The set-up script ended with an unknown status."
    code = os.waitstatus_to_exitcode(process.status)
    return f"The set-up script ended with status {code}." if code else ""
