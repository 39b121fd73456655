"""Requests about worktrees: list, finish, apply, merge, remove, import, scripts."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rookery import NAME, PROJECT_FOLDER
from rookery.errors import CommandRejected
from rookery.manager.handlers.router import Handlers
from rookery.manager.handlers.worktree_access import WorktreeAccess
from rookery.manager.handlers.worktree_scripts import AgreedScripts, RunScripts
from rookery.manager.handlers.worktree_teardown import (
    WorktreeFinisher,
    WorktreeRemover,
    saved_work_notes,
)
from rookery.manager.requests import (
    ListBranches,
)
from rookery.manager.shown_rows import (
    Done,
    Importables,
    KeptWork,
    Plan,
    ScriptRow,
    WorktreeRow,
    WorktreeStats,
)
from rookery.manager.worktree_requests import (
    AgreeScript,
    ApplyWorktree,
    BringBack,
    FinishWorktree,
    ImportWork,
    ListImportable,
    ListKept,
    ListScripts,
    ListWorktrees,
    MergeWorktree,
    PlanApply,
    PlanRemoval,
    ReadStats,
    RecreateWorktree,
    RemoveWorktree,
    RunScript,
    StopScript,
)
from rookery.manager.worktrees.project_scripts import project_script
from rookery.manager.worktrees.worktree_project import RUN_SCRIPT
from rookery.manager.worktrees.worktree_values import (
    Code,
    Keep,
    Listed,
    Obstacle,
    RecoveredWork,
    Worktree,
    WorktreeState,
    counted,
)
from rookery.platform.paths import visible

UNPLANNED = "Get the plan first, and send its token."


class WorktreeHandler:
    def __init__(self, access: WorktreeAccess, agreed: AgreedScripts, scripts: RunScripts) -> None:
        self._access = access
        self._operations = access.operations
        self._agreed = agreed
        self._scripts = scripts
        self._finisher = WorktreeFinisher(access)
        self._remover = WorktreeRemover(access, scripts)

    @property
    def handlers(self) -> Handlers:
        return {
            ListWorktrees: self._list,
            ReadStats: self._read_stats,
            RecreateWorktree: self._recreate,
            FinishWorktree: self._finish,
            PlanApply: self._plan_apply,
            ApplyWorktree: self._apply,
            MergeWorktree: self._merge,
            PlanRemoval: self._plan_removal,
            RemoveWorktree: self._remove,
            ListImportable: self._list_importable,
            ImportWork: self._import,
            ListKept: self._list_kept,
            BringBack: self._bring_back,
            RunScript: self._run_script,
            StopScript: self._stop_script,
            ListScripts: self._list_scripts,
            AgreeScript: self._agree,
            ListBranches: self._list_branches,
        }

    async def recover(self) -> None:
        """Finish removals that were interrupted, at every start; results become notices."""
        if self._access.supervisor.read_only or not self._access.is_trusted:
            return
        found = await self._access.try_run(self._operations.recover)
        if isinstance(found, RecoveredWork):
            keeps = [f"{keep.about}. {keep.told}" for keep in found.keeps]
            notices = [*keeps, *(each.text for each in found.trouble)]
            self._access.supervisor.store.notices.extend(notices)
            if notices:
                self._access.supervisor.overview_changed()

    async def _list(self, request: ListWorktrees) -> tuple[WorktreeRow, ...]:
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

    async def _read_stats(self, request: ReadStats) -> WorktreeStats:
        worktree = await self._worktree(request.worktree_id)
        return await self._access.run(partial(self._access.review.stats, worktree))

    async def _recreate(self, request: RecreateWorktree) -> Done:
        found = await self._access.find(request.worktree_id)
        if found.state is WorktreeState.READY:
            return Done(notes=(f"{found.worktree.branch} already exists.",))
        resumed = await self._access.run(partial(self._operations.resume, found.worktree))
        return Done(notes=resumed.notes)

    async def _finish(self, request: FinishWorktree) -> Done:
        worktree = await self._worktree(request.worktree_id)
        return await self._finisher.finish(worktree, request.message)

    async def _plan_apply(self, request: PlanApply) -> Plan:
        worktree = await self._worktree(request.worktree_id)
        plan = await self._access.try_run(
            partial(self._operations.plan_apply, worktree, request.paths)
        )
        if isinstance(plan, Obstacle):
            if plan.code in (Code.CONFLICT, Code.NOTHING_TO_DO):
                return Plan(text=plan.text, conflicts=_shown(plan.paths))
            raise CommandRejected(plan.text)
        files = counted(len(plan.paths), "file")
        texts = (f"{files} of {worktree.branch} would be applied.", *plan.notes)
        return Plan(text=" ".join(texts), paths=_shown(plan.paths), token=plan.token)

    async def _apply(self, request: ApplyWorktree) -> Done:
        if not request.token:
            raise CommandRejected(UNPLANNED)
        worktree = await self._worktree(request.worktree_id)
        applied = await self._access.run(
            partial(self._operations.apply, worktree, request.paths, agreed=request.token)
        )
        files = counted(len(applied.paths), "file")
        done = f"Applied {files} of {worktree.branch}."
        return Done(notes=(done, *saved_work_notes(applied.keep), *applied.notes))

    async def _merge(self, request: MergeWorktree) -> Done:
        worktree = await self._worktree(request.worktree_id)
        merged = await self._access.run(partial(self._operations.merge, worktree))
        done = f"{worktree.branch} was merged into {merged.into}."
        return Done(notes=(done, *saved_work_notes(merged.keep)))

    async def _plan_removal(self, request: PlanRemoval) -> Plan:
        worktree = await self._worktree(request.worktree_id)
        return await self._remover.plan(worktree)

    async def _remove(self, request: RemoveWorktree) -> Done:
        if not request.token:
            raise CommandRejected(UNPLANNED)
        worktree = await self._worktree(request.worktree_id)
        return await self._remover.remove(
            worktree, request.token, delete_branch=request.delete_branch
        )

    async def _list_importable(self, request: ListImportable) -> Importables:
        found = await self._access.run(self._operations.importable)
        return Importables(branches=found.branches, worktrees=found.worktrees)

    async def _import(self, request: ImportWork) -> WorktreeRow:
        if bool(request.branch) == bool(request.folder):
            raise CommandRejected("Give either a branch or a folder to import.")
        if request.branch:
            made = await self._access.run(partial(self._operations.import_branch, request.branch))
        else:
            folder = Path(request.folder)
            if not folder.is_absolute():
                raise CommandRejected(f"{request.folder} is not an absolute path.")
            made = await self._access.run(partial(self._operations.import_worktree, folder))
        return self._row(Listed(worktree=made.worktree, state=WorktreeState.READY))

    async def _list_kept(self, request: ListKept) -> tuple[KeptWork, ...]:
        keeps = await self._access.run(self._operations.keeps)
        return tuple(KeptWork(ref=each.ref, commit=each.commit, about=each.about) for each in keeps)

    async def _bring_back(self, request: BringBack) -> WorktreeRow:
        keep = Keep(ref=request.ref, commit="")
        made = await self._access.run(partial(self._operations.bring_back, keep, request.branch))
        return self._row(Listed(worktree=made.worktree, state=WorktreeState.READY))

    async def _run_script(self, request: RunScript) -> Done:
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

    async def _stop_script(self, request: StopScript) -> Done:
        worktree = await self._worktree(request.worktree_id)
        await self._scripts.stop(worktree)
        return Done()

    async def _list_scripts(self, request: ListScripts) -> tuple[ScriptRow, ...]:
        self._access.require_trust()
        return tuple(
            ScriptRow(
                name=each.name,
                path=visible(str(Path(each.script.path).relative_to(self._access.project))),
                text=each.script.text,
                digest=each.script.digest,
                agreed=each.agreed,
            )
            for each in self._agreed.offered()
        )

    async def _agree(self, request: AgreeScript) -> Done:
        self._access.require_trust()
        self._agreed.agree_to(request.digest)
        return Done(notes=("If it changes, you must agree to it again.",))

    async def _list_branches(self, request: ListBranches) -> tuple[str, ...]:
        return tuple(await self._access.run(self._operations.branches))

    async def _worktree(self, worktree_id: str) -> Worktree:
        return (await self._access.find(worktree_id)).worktree


def _shown(paths: Sequence[str]) -> tuple[str, ...]:
    return tuple(map(visible, paths))
