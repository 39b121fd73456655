"""Removing a worktree: first whoever works in it is stopped, then nothing of it is lost."""

from functools import partial

import anyio
import anyio.to_thread

from rookery.errors import CommandRejected
from rookery.manager.handlers.run_scripts import RunScripts
from rookery.manager.handlers.worktree_access import WorktreeAccess
from rookery.manager.requests import Done, Plan
from rookery.manager.worktrees.worktree_values import BranchFate, Forgotten, Removed, Worktree
from rookery.platform.paths import visible

PATIENCE = 30.0
"""Seconds that the processes of its sessions have to end."""


class Removing:
    def __init__(self, access: WorktreeAccess, scripts: RunScripts) -> None:
        self._access = access
        self._supervisor = access.supervisor
        self._desk = access.desk
        self._scripts = scripts

    async def plan(self, worktree: Worktree) -> Plan:
        found = await self._access.done(partial(self._desk.plan_removal, worktree))
        running = self._running(worktree)
        stops = [f"Still running there, and ended first: {', '.join(running)}."] if running else []
        return Plan(
            text=" ".join([visible(found.told), *stops]),
            paths=tuple(map(visible, found.to_keep)),
            token=found.token,
        )

    async def remove(self, worktree: Worktree, token: str, *, delete_branch: bool) -> Done:
        """Raises `CommandRejected`, and then the worktree is there as it was."""
        plan = await self._access.done(partial(self._desk.plan_removal, worktree))
        if plan.token != token:
            raise CommandRejected(
                "Something has changed since you were shown what would be removed, so nothing "
                "was. Look again."
            )
        self._access.closed.add(worktree.path)
        try:
            await self._stop_all(worktree)
            fate = BranchFate.DELETE if delete_branch else BranchFate.KEEP
            removed: Removed | Forgotten = await self._access.done(
                lambda: self._desk.remove(plan, fate)
            )
            self._access.forget(worktree)
        finally:
            self._access.closed.discard(worktree.path)
        if isinstance(removed, Forgotten):
            return Done(notes=(f"{worktree.path} is yours, so it was only forgotten.",))
        self._supervisor.group.start_soon(self._clear, removed)
        gone = f"The branch {worktree.branch} was deleted." if removed.branch_deleted else ""
        kept = removed.keep.told if removed.keep else ""
        return Done(notes=tuple(filter(None, (kept, gone))))

    def _running(self, worktree: Worktree) -> list[str]:
        shown = map(self._supervisor.session, self._access.sessions_in(worktree))
        names = [each.record.name for each in shown if each and each.session.process_open]
        return [*names, *(["its run script"] if self._scripts.runs(worktree) else [])]

    async def _stop_all(self, worktree: Worktree) -> None:
        """Raises `CommandRejected` if something is not to be stopped."""
        sessions = map(self._supervisor.find, self._access.sessions_in(worktree))
        for session in list(sessions):
            with anyio.move_on_after(PATIENCE) as waiting:
                await session.end()
            if waiting.cancelled_caught:
                raise CommandRejected(
                    f"{session.record.name} could not be stopped, so its worktree stays. Stop it, "
                    "then remove the worktree."
                )
        await self._scripts.stop(worktree)

    async def _clear(self, removed: Removed) -> None:
        """May take long; whoever comes later does what we do not get done."""
        clear = partial(self._desk.clear, removed)
        await anyio.to_thread.run_sync(clear, abandon_on_cancel=True)
