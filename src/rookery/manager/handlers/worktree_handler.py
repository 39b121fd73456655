"""Requests about worktrees: list, finish, apply, merge, remove, import, scripts.

The commit message of a finished worktree is the user's, or the agent's if it writes one in time.
Before a removal everything that runs there is stopped, and uncommitted work is saved.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.to_thread

from rookery import NAME, PROJECT_FOLDER
from rookery.errors import CommandRejected
from rookery.manager import requests as asked
from rookery.manager.handlers.router import Handlers
from rookery.manager.handlers.worktree_access import WorktreeAccess
from rookery.manager.handlers.worktree_scripts import AgreedScripts, RunScripts
from rookery.manager.sessions.session_states import TRUE_IN
from rookery.manager.shown_rows import (
    Done,
    Plan,
    ScriptRow,
    WorktreeRow,
)
from rookery.manager.worktrees.apply import apply, plan_apply
from rookery.manager.worktrees.create import known_branches
from rookery.manager.worktrees.keep import keeps
from rookery.manager.worktrees.merge import finish, merge, stage, staged
from rookery.manager.worktrees.project_scripts import project_script
from rookery.manager.worktrees.remove import clear, plan_removal, recover, remove
from rookery.manager.worktrees.reuse import (
    bring_back,
    import_branch,
    import_worktree,
    importable,
    resume,
)
from rookery.platform.paths import visible
from rookery.platform.worktree_git import InTheWay
from rookery.platform.worktree_project import RUN_SCRIPT
from rookery.platform.worktree_values import (
    BranchFate,
    Code,
    KeptWork,
    Listed,
    Removed,
    Worktree,
    WorktreeState,
    counted,
)

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
UNPLANNED = "Get the plan first, and send its token."


class WorktreeHandler:
    def __init__(self, access: WorktreeAccess, agreed: AgreedScripts, scripts: RunScripts) -> None:
        self._access = access
        self._agreed = agreed
        self._scripts = scripts
        self._finisher = WorktreeFinisher(access)
        self._remover = WorktreeRemover(access, scripts)

    @property
    def handlers(self) -> Handlers:
        in_worktree = self._access.in_worktree
        return {
            asked.ListWorktrees: self._list,
            asked.ReadStats: in_worktree(lambda worktree, _: self._access.stats(worktree)),
            asked.RecreateWorktree: self._recreate,
            asked.FinishWorktree: in_worktree(
                lambda worktree, request: self._finisher.finish(worktree, request.message)
            ),
            asked.PlanApply: in_worktree(self._plan_apply),
            asked.ApplyWorktree: in_worktree(self._apply),
            asked.MergeWorktree: in_worktree(self._merge),
            asked.PlanRemoval: in_worktree(lambda worktree, _: self._remover.plan(worktree)),
            asked.RemoveWorktree: in_worktree(self._remove),
            asked.ListImportable: lambda _: self._access.run(importable),
            asked.ImportWork: self._import,
            asked.ListKept: lambda _: self._access.run(keeps),
            asked.BringBack: self._bring_back,
            asked.RunScript: self._run_script,
            asked.StopScript: in_worktree(self._stop_script),
            asked.ListScripts: self._list_scripts,
            asked.AgreeScript: self._agree,
            asked.ListBranches: lambda _: self._access.run(known_branches),
        }

    async def recover(self) -> None:
        """Finish removals that were interrupted, at every start; results become notices."""
        if self._access.supervisor.read_only or not self._access.is_trusted:
            return
        with suppress(InTheWay):
            found = await self._access.run(recover)
            saved = [f"{keep.about}. {keep.message}" for keep in found.keeps]
            self._access.supervisor.store.notices.extend([*saved, *found.trouble])
            self._access.supervisor.overview_changed()

    async def _list(self, request: asked.ListWorktrees) -> tuple[WorktreeRow, ...]:
        return tuple(map(self._row, await self._access.listed()))

    def _row(self, listed: Listed) -> WorktreeRow:
        worktree = listed.worktree
        return WorktreeRow(
            id=worktree.id,
            branch=worktree.branch,
            path=visible(worktree.path),
            parent_branch=worktree.parent_branch,
            state=listed.state,
            label=worktree.label,
            group_id=worktree.group_id,
            imported=worktree.imported,
            sessions=self._access.sessions_in(worktree),
            running=self._scripts.runs(worktree),
            first_port=worktree.ports.first if worktree.ports else 0,
        )

    async def _recreate(self, request: asked.RecreateWorktree) -> Done:
        found = await self._access.find(request.worktree_id)
        if found.state is WorktreeState.READY:
            return Done(notes=(f"{found.worktree.branch} already exists.",))
        resumed = await self._access.run(resume, found.worktree)
        return Done(notes=resumed.notes)

    async def _plan_apply(self, worktree: Worktree, request: asked.PlanApply) -> Plan:
        try:
            plan = await self._access.run(plan_apply, worktree, request.paths)
        except InTheWay as error:
            if error.code in (Code.CONFLICT, Code.NOTHING_TO_DO):
                return Plan(text=str(error), conflicts=_shown(error.paths))
            raise
        files = counted(len(plan.paths), "file")
        texts = (f"{files} of {worktree.branch} would be applied.", *plan.notes)
        return Plan(text=" ".join(texts), paths=_shown(plan.paths), token=plan.token)

    async def _apply(self, worktree: Worktree, request: asked.ApplyWorktree) -> Done:
        if not request.token:
            raise CommandRejected(UNPLANNED)
        applied = await self._access.run(apply, worktree, request.paths, agreed=request.token)
        files = counted(len(applied.paths), "file")
        done = f"Applied {files} of {worktree.branch}."
        return Done(notes=(done, *saved_work_notes(applied.keep), *applied.notes))

    async def _merge(self, worktree: Worktree, _: asked.MergeWorktree) -> Done:
        kept = await self._access.run(merge, worktree)
        done = f"{worktree.branch} was merged into {worktree.parent_branch}."
        return Done(notes=(done, *saved_work_notes(kept)))

    async def _remove(self, worktree: Worktree, request: asked.RemoveWorktree) -> Done:
        if not request.token:
            raise CommandRejected(UNPLANNED)
        return await self._remover.remove(
            worktree, request.token, delete_branch=request.delete_branch
        )

    async def _import(self, request: asked.ImportWork) -> WorktreeRow:
        if bool(request.branch) == bool(request.folder):
            raise CommandRejected("Give either a branch or a folder to import.")
        if request.branch:
            made = await self._access.run(import_branch, request.branch)
        else:
            folder = Path(request.folder)
            if not folder.is_absolute():
                raise CommandRejected(f"{request.folder} is not an absolute path.")
            made = await self._access.run(import_worktree, folder)
        return self._row(Listed(worktree=made.worktree, state=WorktreeState.READY))

    async def _bring_back(self, request: asked.BringBack) -> WorktreeRow:
        made = await self._access.run(bring_back, request.ref, request.branch)
        return self._row(Listed(worktree=made.worktree, state=WorktreeState.READY))

    async def _run_script(self, request: asked.RunScript) -> Done:
        found = await self._access.find(request.worktree_id)
        project = self._access.project
        script = project_script(project, RUN_SCRIPT)
        if found.state is not WorktreeState.READY:
            raise CommandRejected(f"The worktree {found.worktree.path} is {found.state}.")
        if not script:
            raise CommandRejected(f"The project has no {PROJECT_FOLDER}/{RUN_SCRIPT}.")
        if not self._agreed.knows(script):
            shown = Path(script.path).relative_to(project)
            raise CommandRejected(
                f"You have not agreed to {shown} as it is now. Read it: {NAME} "
                "sessions worktrees scripts"
            )
        self._scripts.start(found.worktree, script)
        return Done(notes=(f"Its output goes to {self._scripts.log(found.worktree)}.",))

    async def _stop_script(self, worktree: Worktree, _: asked.StopScript) -> Done:
        await self._scripts.stop(worktree)
        return Done()

    async def _list_scripts(self, request: asked.ListScripts) -> tuple[ScriptRow, ...]:
        self._access.require_trust()
        return self._agreed.offered()

    async def _agree(self, request: asked.AgreeScript) -> Done:
        self._access.require_trust()
        self._agreed.agree_to(request.digest)
        return Done(notes=("If it changes, you must agree to it again.",))


def _shown(paths: Sequence[str]) -> tuple[str, ...]:
    return tuple(map(visible, paths))


class WorktreeFinisher:
    def __init__(self, access: WorktreeAccess) -> None:
        self._access = access

    async def finish(self, worktree: Worktree, message: str) -> Done:
        """Commit with the given message, else with the agent's, else with a default one."""
        kept: tuple[str, ...] = ()
        if not message.strip():
            done = await self._access.run(stage, worktree)
            kept = saved_work_notes(done.keep)
            if done.files and await self._has_agent_committed(worktree):
                return Done(notes=(f"The agent committed to {worktree.branch}.", *kept))
        finished = await self._access.run(finish, worktree, message)
        files, commit = counted(finished.files, "file"), finished.commit[:SHORT_COMMIT]
        note = f"Committed {files} to {worktree.branch}: {commit}."
        return Done(notes=(note, *kept, *saved_work_notes(finished.keep), *finished.notes))

    async def _has_agent_committed(self, worktree: Worktree) -> bool:
        """Ask a session to commit; return whether nothing is staged afterwards."""
        if not (session_id := await self._ask_session(worktree)):
            return False
        idle_checks = 0
        with anyio.move_on_after(SECONDS_TO_COMMIT):
            while await self._access.run(staged, worktree):
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


def saved_work_notes(keep: KeptWork | None) -> tuple[str, ...]:
    """A note about saved work, if there is any."""
    return (keep.message,) if keep else ()


class WorktreeRemover:
    def __init__(self, access: WorktreeAccess, scripts: RunScripts) -> None:
        self._access = access
        self._supervisor = access.supervisor
        self._scripts = scripts

    async def plan(self, worktree: Worktree) -> Plan:
        found = await self._access.run(plan_removal, worktree)
        running = self._running(worktree)
        stops = [f"Will be stopped first: {', '.join(running)}."] if running else []
        return Plan(
            text=" ".join([visible(found.message), *stops]),
            paths=tuple(map(visible, found.to_keep)),
            token=found.token,
        )

    async def remove(self, worktree: Worktree, token: str, *, delete_branch: bool) -> Done:
        """Raises `CommandRejected` if it fails; then the worktree is unchanged."""
        plan = await self._access.run(plan_removal, worktree)
        if plan.token != token:
            raise CommandRejected(
                "Something changed since you saw the plan, so nothing was removed. Look again."
            )
        self._access.closed.add(worktree.path)
        try:
            await self._stop_all(worktree)
            fate = BranchFate.DELETE if delete_branch else BranchFate.KEEP
            removed = await self._access.run(remove, plan, fate)
            self._access.forget(worktree)
        finally:
            self._access.closed.discard(worktree.path)
        if not removed:
            return Done(notes=(f"{worktree.path} was imported, so its files were kept.",))
        self._supervisor.group.start_soon(self._clear, removed)
        gone = f"The branch {worktree.branch} was deleted." if removed.branch_deleted else ""
        kept = removed.keep.message if removed.keep else ""
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
        with suppress(InTheWay):
            await anyio.to_thread.run_sync(clear, removed, abandon_on_cancel=True)
