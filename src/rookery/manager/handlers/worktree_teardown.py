"""Finishing a worktree (committing to its branch) and removing it.

The commit message is the user's, or the agent's if it writes one in time. Before a removal
everything that runs there is stopped, and uncommitted work is saved.
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
"""Seconds for the agent to commit what is staged."""
CHECK_SECONDS = 1.0
IDLE_CHECKS = 2
"""Number of checks of an idle session after which it counts as not having committed."""
SHORT_COMMIT = 10
"""Length of a shortened commit id."""
COMMIT_REQUEST = (
    "Everything in this worktree is staged now. Commit it with one `git commit`, with a message "
    "in the style of conventional commits that says what the change does and why. Stage nothing "
    "else, do not push, and change no file."
)
SECONDS_TO_STOP = 30.0
"""Seconds for the processes of its sessions to end."""


class WorktreeFinisher:
    def __init__(self, access: WorktreeAccess) -> None:
        self._access = access
        self._operations = access.operations

    async def finish(self, worktree: Worktree, message: str) -> Done:
        """Commit with the given message, else with the agent's, else with a default one."""
        kept: tuple[str, ...] = ()
        if not message.strip():
            staged = await self._access.run(partial(self._operations.stage, worktree))
            kept = saved_work_notes(staged.keep)
            if staged.files and await self._has_agent_committed(worktree):
                return Done(notes=(f"The agent committed to {worktree.branch}.", *kept))
        finished = await self._commit(worktree, message)
        files, commit = counted(finished.files, "file"), finished.commit[:SHORT_COMMIT]
        note = f"Committed {files} to {worktree.branch}: {commit}."
        return Done(notes=(note, *kept, *saved_work_notes(finished.keep), *finished.notes))

    async def _commit(self, worktree: Worktree, message: str) -> Finished:
        done = await self._access.try_run(partial(self._operations.finish, worktree, message))
        if not isinstance(done, Obstacle):
            return done
        if done.code is Code.NOTHING_TO_DO and not message.strip():
            raise CommandRejected(f"Nothing is left to commit in {worktree.branch}.")
        raise CommandRejected(done.text)

    async def _has_agent_committed(self, worktree: Worktree) -> bool:
        """Ask a session to commit; return whether nothing is staged afterwards."""
        if not (session_id := await self._ask_session(worktree)):
            return False
        staged, idle_checks = partial(self._operations.staged, worktree), 0
        with anyio.move_on_after(SECONDS_TO_COMMIT):
            while await self._access.run(staged):
                idle_checks = idle_checks + 1 if self._is_idle(session_id) else 0
                if idle_checks > IDLE_CHECKS:
                    return False
                await anyio.sleep(CHECK_SECONDS)
            return True
        return False

    def _is_idle(self, session_id: str) -> bool:
        shown = self._access.supervisor.session(session_id)
        return shown is None or not shown.flags.is_active

    async def _ask_session(self, worktree: Worktree) -> str:
        """Send the request to the first session that accepts it; return its id, or an empty
        string. A session that waits for an approval would take the message as a rejection."""
        supervisor = self._access.supervisor
        for session_id in self._access.sessions_in(worktree):
            shown = supervisor.session(session_id)
            if shown and shown.record.state in TRUE_IN["can_finish_to_branch"]:
                with suppress(CommandRejected):  # its state changed; try the next one
                    await supervisor.send(session_id, COMMIT_REQUEST)
                    return session_id
        return ""


def saved_work_notes(keep: Keep | None) -> tuple[str, ...]:
    """A note about saved work, if there is any."""
    return (keep.told,) if keep else ()


class WorktreeRemover:
    def __init__(self, access: WorktreeAccess, scripts: RunScripts) -> None:
        self._access = access
        self._supervisor = access.supervisor
        self._operations = access.operations
        self._scripts = scripts

    async def plan(self, worktree: Worktree) -> Plan:
        found = await self._access.run(partial(self._operations.plan_removal, worktree))
        running = self._running(worktree)
        stops = [f"Will be stopped first: {', '.join(running)}."] if running else []
        return Plan(
            text=" ".join([visible(found.told), *stops]),
            paths=tuple(map(visible, found.to_keep)),
            token=found.token,
        )

    async def remove(self, worktree: Worktree, token: str, *, delete_branch: bool) -> Done:
        """Raises `CommandRejected` if it fails; then the worktree is unchanged."""
        plan = await self._access.run(partial(self._operations.plan_removal, worktree))
        if plan.token != token:
            raise CommandRejected(
                "Something changed since you saw the plan, so nothing was removed. Look again."
            )
        self._access.closed.add(worktree.path)
        try:
            await self._stop_all(worktree)
            fate = BranchFate.DELETE if delete_branch else BranchFate.KEEP
            removed: Removed | Forgotten = await self._access.run(
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
        names = [each.record.name for each in shown if each and each.record.process_open]
        return [*names, *(["its run script"] if self._scripts.runs(worktree) else [])]

    async def _stop_all(self, worktree: Worktree) -> None:
        """Raises `CommandRejected` if something could not be stopped."""
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
        """Delete the files; an interrupted deletion is finished at the next start."""
        clear = partial(self._operations.clear, removed)
        await anyio.to_thread.run_sync(clear, abandon_on_cancel=True)
