"""Making a new worktree fit for a session: files that git does not bring, then the project's own
script. What goes wrong is told and stops nothing."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from rookery import NAME
from rookery.manager.handlers.agreed_scripts import AgreedScripts
from rookery.manager.handlers.run_scripts import RunScripts
from rookery.manager.handlers.worktree_access import WorktreeAccess
from rookery.manager.worktrees.setup_script import run_setup, setup_script
from rookery.manager.worktrees.worktree_values import BranchFate, Obstacle, Removed, Worktree
from rookery.platform.paths import visible

LONGEST_LINE = 500
"""Characters of a line of a script's output that are kept."""


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
        copied = await self._access.tried(lambda: self._access.desk.copy_included(worktree))
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
            return [f"{shown} was not run, as nobody has agreed to it as it is now: {look}"]
        lines = _Lines()
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
        desk = self._access.desk
        plan = await self._access.tried(lambda: desk.plan_removal(worktree))
        if isinstance(plan, Obstacle) or plan.to_keep or plan.left_out or plan.unmerged_commits:
            return False
        fate = BranchFate.DELETE if worktree.branch_owned else BranchFate.KEEP
        removed = await self._access.tried(lambda: desk.remove(plan, fate))
        if isinstance(removed, Removed):
            await self._access.tried(lambda: desk.clear(removed))
        return not isinstance(removed, Obstacle)


class _Lines:
    """Output that comes in pieces, as lines that can be shown."""

    def __init__(self) -> None:
        self._begun = ""

    def of(self, text: str) -> Iterator[str]:
        *whole, self._begun = (self._begun + text).replace("\r", "\n").split("\n")
        self._begun = self._begun[-LONGEST_LINE:]
        return (visible(line)[:LONGEST_LINE] for line in whole if line)

    def rest(self) -> Iterator[str]:
        return self.of("\n")
