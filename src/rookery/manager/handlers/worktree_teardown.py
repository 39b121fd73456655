"""The end of a worktree: its changes committed to its branch, or the worktree removed.

The commit message is the user's, or the agent's if it writes one in time. Before a removal
whatever works there is stopped, and uncommitted work is kept.
"""

from contextlib import suppress
from functools import partial

import anyio
import anyio.to_thread

from rookery.errors import CommandRejected
from rookery.manager.handlers.worktree_access import WorktreeAccess
from rookery.manager.handlers.worktree_scripts import RunScripts
from rookery.manager.sessions.session_states import TRUE_IN
from rookery.manager.shown_rows import Done, Plan
from rookery.manager.worktrees.worktree_values import (
    BranchFate,
    Code,
    Finished,
    Forgotten,
    Keep,
    Obstacle,
    Removed,
    Worktree,
    counted,
)
from rookery.platform.paths import visible

SECONDS_TO_COMMIT = 60.0
"""Seconds that the agent has to commit what is staged."""
BETWEEN_LOOKS = 1.0
LOOKS_AT_REST = 2
"""After so many at a session that does nothing any more, it has not committed."""
SHORT_COMMIT = 10
"""Characters that name a commit well enough to be read."""
COMMIT_IT = (
    "Everything in this worktree is staged now. Commit it with one `git commit`, with a message "
    "in the style of conventional commits that says what the change does and why. Stage nothing "
    "else, do not push, and change no file."
)
SECONDS_TO_STOP = 30.0
"""Seconds that the processes of its sessions have to end."""


class Finishing:
    def __init__(self, access: WorktreeAccess) -> None:
        self._access = access
        self._operations = access.operations

    async def finish(self, worktree: Worktree, message: str) -> Done:
        """With the message, or else with the agent's; and if that does not come, with ours."""
        kept: tuple[str, ...] = ()
        if not message.strip():
            staged = await self._access.done(partial(self._operations.stage, worktree))
            kept = told_of(staged.keep)
            if staged.files and await self._has_agent_committed(worktree):
                return Done(notes=(f"The agent committed to {worktree.branch}.", *kept))
        finished = await self._committed(worktree, message)
        files, commit = counted(finished.files, "file"), finished.commit[:SHORT_COMMIT]
        said = f"Committed {files} to {worktree.branch}: {commit}."
        return Done(notes=(said, *kept, *told_of(finished.keep), *finished.notes))

    async def _committed(self, worktree: Worktree, message: str) -> Finished:
        done = await self._access.tried(partial(self._operations.finish, worktree, message))
        if not isinstance(done, Obstacle):
            return done
        if done.code is Code.NOTHING_TO_DO and not message.strip():
            raise CommandRejected(f"Nothing is left to commit in {worktree.branch}.")
        raise CommandRejected(done.text)

    async def _has_agent_committed(self, worktree: Worktree) -> bool:
        """Whether nothing is staged any more, after one of its sessions was asked."""
        if not (session_id := await self._asked(worktree)):
            return False
        staged, looks_at_rest = partial(self._operations.staged, worktree), 0
        with anyio.move_on_after(SECONDS_TO_COMMIT):
            while await self._access.done(staged):
                looks_at_rest = looks_at_rest + 1 if self._rests(session_id) else 0
                if looks_at_rest > LOOKS_AT_REST:
                    return False
                await anyio.sleep(BETWEEN_LOOKS)
            return True
        return False

    def _rests(self, session_id: str) -> bool:
        shown = self._access.supervisor.session(session_id)
        return shown is None or not shown.flags.is_active

    async def _asked(self, worktree: Worktree) -> str:
        """The first session that can hear it now; empty if none can. One that waits for leave
        would take it for a no."""
        supervisor = self._access.supervisor
        for session_id in self._access.sessions_in(worktree):
            shown = supervisor.session(session_id)
            if shown and shown.session.state in TRUE_IN["can_finish_to_branch"]:
                with suppress(CommandRejected):  # it has moved on, and another may hear it
                    await supervisor.send(session_id, COMMIT_IT)
                    return session_id
        return ""


def told_of(keep: Keep | None) -> tuple[str, ...]:
    """That something was kept, if it was."""
    return (keep.told,) if keep else ()


class Removing:
    def __init__(self, access: WorktreeAccess, scripts: RunScripts) -> None:
        self._access = access
        self._supervisor = access.supervisor
        self._operations = access.operations
        self._scripts = scripts

    async def plan(self, worktree: Worktree) -> Plan:
        found = await self._access.done(partial(self._operations.plan_removal, worktree))
        running = self._running(worktree)
        stops = [f"Will be stopped first: {', '.join(running)}."] if running else []
        return Plan(
            text=" ".join([visible(found.told), *stops]),
            paths=tuple(map(visible, found.to_keep)),
            token=found.token,
        )

    async def remove(self, worktree: Worktree, token: str, *, delete_branch: bool) -> Done:
        """Raises `CommandRejected`, and then the worktree is there as it was."""
        plan = await self._access.done(partial(self._operations.plan_removal, worktree))
        if plan.token != token:
            raise CommandRejected(
                "Something changed since you saw the plan, so nothing was removed. Look again."
            )
        self._access.closed.add(worktree.path)
        try:
            await self._stop_all(worktree)
            fate = BranchFate.DELETE if delete_branch else BranchFate.KEEP
            removed: Removed | Forgotten = await self._access.done(
                lambda: self._operations.remove(plan, fate)
            )
            self._access.forget(worktree)
        finally:
            self._access.closed.discard(worktree.path)
        if isinstance(removed, Forgotten):
            return Done(notes=(f"{worktree.path} was imported, so its files were kept.",))
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
            with anyio.move_on_after(SECONDS_TO_STOP) as waiting:
                await session.end()
            if waiting.cancelled_caught:
                raise CommandRejected(
                    f"{session.record.name} could not be stopped, so its worktree was kept. Stop "
                    "it, then remove the worktree."
                )
        await self._scripts.stop(worktree)

    async def _clear(self, removed: Removed) -> None:
        """May take long; whoever comes later does what we do not get done."""
        clear = partial(self._operations.clear, removed)
        await anyio.to_thread.run_sync(clear, abandon_on_cancel=True)
