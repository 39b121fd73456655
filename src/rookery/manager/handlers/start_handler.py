"""Starts sessions in the project or in worktrees of their own.

A session is on the list while its worktree is created, with the current step, and can be cancelled.
Worktrees are created one after the other, but two at a time are set up and started. This goes on
even if the client that asked disconnects.
"""

import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio
import anyio.from_thread
from anyio.abc import TaskGroup
from msgspec import Struct
from msgspec.structs import replace

from rookery import ENV_PREFIX
from rookery.core.settings import Settings
from rookery.errors import CommandRejected, RookeryError
from rookery.faults import kp
from rookery.manager.handlers.router import Handlers
from rookery.manager.handlers.session_handler import split_model
from rookery.manager.handlers.worktree_access import (
    TRUSTED,
    WorktreeAccess,
    options_in,
    parallel_mode_of,
)
from rookery.manager.handlers.worktree_scripts import WorktreeSetup
from rookery.manager.requests import StartSessions, TrustProject
from rookery.manager.sessions.session_folders import SessionOptions
from rookery.manager.sessions.session_record import (
    LABEL_LENGTH,
    ParallelMode,
    SessionRecord,
    label_of,
)
from rookery.manager.shown_rows import Done, Started
from rookery.manager.worktrees.create import (
    MOST_VERSIONS,
    automatic_branch,
    create,
    create_versions,
    known_branches,
    own_branch,
)
from rookery.manager.worktrees.reuse import import_branch
from rookery.platform.worktree_git import InTheWay
from rookery.platform.worktree_project import Project, all_listed
from rookery.platform.worktree_values import (
    Created,
    Worktree,
    WorktreeState,
    WorktreeStep,
    environment_of,
)

MAX_SETUPS = 2
COST_LIMIT = f"{ENV_PREFIX}MAX_COST"
CANCELLED = "It was cancelled before it started."
KEPT = "Its worktree {} already has files, so it is kept; remove it if you do not need it."
UNCOMMITTED = "Uncommitted changes of the project are not in the new worktree."
STAYS = "The session stays in the list, because you sent it more messages."


class StartedGroup(Struct, frozen=True, kw_only=True):
    """Sessions to start together; several are versions of one prompt."""

    sessions: tuple[str, ...]
    branch: str
    branch_exists: bool = False
    label: str = ""
    base: str = ""
    group_id: str = ""


class StartHandler:
    def __init__(
        self, access: WorktreeAccess, setup: WorktreeSetup, settings: Callable[[], Settings]
    ) -> None:
        self._access = access
        self._supervisor = access.supervisor
        self._setup = setup
        self._worktree_start = WorktreeStart(access, setup)
        self._settings = settings

    @property
    def handlers(self) -> Handlers:
        return {StartSessions: self.start, TrustProject: self._trust}

    async def _trust(self, request: TrustProject) -> Done:
        self._access.trust(request.path)
        return Done()

    async def start(self, request: StartSessions) -> Started:
        self._access.require_trust("nothing was started")
        if not 1 <= request.versions <= MOST_VERSIONS:
            raise CommandRejected(
                f"There can be 1 to {MOST_VERSIONS} versions, not {request.versions}. "
                "Nothing was started."
            )
        if request.worktree_id:
            return await self._start_in_worktree(request)
        if request.where == "worktree" or request.versions > 1 or request.branch:
            return await self._start_in_new_worktrees(request)
        session_id = await self._supervisor.start(_session_options(request, self._access.project))
        return Started(session_ids=(session_id,))

    async def _start_in_worktree(self, request: StartSessions) -> Started:
        """Start in an existing worktree, which other sessions may be using."""
        if request.versions > 1 or request.branch:
            raise CommandRejected(
                "Versions and branches need a new worktree. Leave out the worktree."
            )
        found = await self._access.find(request.worktree_id)
        if found.state is not WorktreeState.READY:
            raise CommandRejected(
                f"The worktree {found.worktree.path} is {found.state}, so nothing was started. "
                "Recreate or remove it."
            )
        worktree = found.worktree
        options = options_in(
            worktree, _session_options(request, Path(worktree.path)), self._access.project
        )
        notes = self._warn_of_others(worktree)
        return Started(session_ids=(await self._supervisor.start(options),), notes=notes)

    def _warn_of_others(self, worktree: Worktree) -> tuple[str, ...]:
        """Warn about other active sessions in the same folder."""
        ids = self._access.sessions_in(worktree)
        summaries = [each for each in map(self._supervisor.session, ids) if each]
        names = [each.record.name for each in summaries if each.flags.is_active]
        if not names:
            return ()
        return (f"Other sessions work in the same folder: {', '.join(names)}.",)

    async def _start_in_new_worktrees(self, request: StartSessions) -> Started:
        versions = request.versions
        known = await self._access.run(known_branches)
        exists = bool(request.branch) and request.branch in known
        if exists and versions > 1:
            raise CommandRejected(
                f"{request.branch} already exists; several versions need a new branch each."
            )
        group_id = secrets.token_hex(8) if versions > 1 else ""
        sessions = [
            await self._reserve(request, number, group_id) for number in range(1, versions + 1)
        ]
        start_group = StartedGroup(
            sessions=tuple(sessions),
            branch=request.branch if exists else self._new_branch(request),
            branch_exists=exists,
            label=_label(request),
            base=request.base,
            group_id=group_id,
        )
        return await self._worktree_start.begin(start_group)

    async def _reserve(self, request: StartSessions, number: int, group_id: str) -> str:
        """Put a session on the list before it has a worktree; return its id."""
        options = replace(
            _session_options(request, self._access.project, number),
            label=_label(request, number) if request.label or number > 1 else "",
            parallel_mode=ParallelMode(),
            group_id=group_id,
            options=TRUSTED,
        )
        return await self._supervisor.preparations.reserve(options, WorktreeStep.SYNCING)

    async def place_in_worktree(
        self, source: SessionRecord, options: SessionOptions
    ) -> tuple[SessionOptions, tuple[str, ...]]:
        """Options for a copy of a session, in a new worktree. Raises `CommandRejected`."""
        self._access.require_trust("nothing was copied")
        branch = self._automatic_branch(source.name)
        base = source.parallel_mode.branch if source.parallel_mode else ""
        made = await self._access.run(create, branch, label=options.label, base=base)
        notes = await self._setup.set_up(made.worktree, lambda lines: None)
        moved = options_in(made.worktree, options, self._access.project)
        return moved, (UNCOMMITTED, *made.notes, *notes)

    def _new_branch(self, request: StartSessions) -> str:
        if request.branch:
            return own_branch(request.branch) or request.branch
        return self._automatic_branch(request.prompt or request.label)

    def _automatic_branch(self, words: str) -> str:
        prefix = self._settings().manager.branch_prefix
        chance = secrets.randbelow(1_000_000)
        return automatic_branch(words, prefix=prefix, chance=chance)


def _session_options(request: StartSessions, workspace: Path, number: int = 1) -> SessionOptions:
    own = request.models[number - 1] if number <= len(request.models) else ""
    provider, model = split_model(own or request.model or None)
    return SessionOptions(
        prompt=request.prompt,
        workspace=workspace,
        images=request.images,
        label=request.label,
        provider=provider,
        model=model,
        mode=request.mode or None,
        auto_approve=request.auto_approve,
        intent=request.intent,
        env={COST_LIMIT: repr(request.max_cost)} if request.max_cost else None,
    )


def _label(request: StartSessions, number: int = 1) -> str:
    """The label; later versions get their number as a suffix, within the length limit."""
    label = request.label or label_of(request.prompt)
    mark = f" v{number}" if number > 1 else ""
    return f"{label[: LABEL_LENGTH - len(mark)].rstrip()}{mark}"


class _StartState:
    """Progress of the sessions of one `StartedGroup`."""

    def __init__(self, start_group: StartedGroup) -> None:
        self.start_group = start_group
        self.over = anyio.Event()
        self.waiting = dict(enumerate(start_group.sessions, 1))
        """Sessions without a worktree, by version number."""
        self.started: list[str] = []
        self.failed: list[str] = []
        self.notes: list[str] = []
        self.existing: set[str] = set()

    def has_created(self, worktree: Worktree) -> bool:
        """Whether this start created the worktree. Otherwise it must be kept."""
        return worktree.id not in self.existing

    @property
    def result(self) -> Started:
        sessions = self.start_group.sessions
        some = f"{len(self.started)} of {len(sessions)} versions have started."
        return Started(
            session_ids=tuple(each for each in sessions if each in self.started),
            notes=(*((some,) if self.failed else ()), *dict.fromkeys(self.notes)),
            failed=tuple(self.failed),
        )


class WorktreeStart:
    def __init__(self, access: WorktreeAccess, setup: WorktreeSetup) -> None:
        self._access = access
        self._supervisor = access.supervisor
        self._preparations = access.supervisor.preparations
        self._setup = setup
        self._room = anyio.CapacityLimiter(MAX_SETUPS)

    async def begin(self, start_group: StartedGroup) -> Started:
        """Start the sessions. Raises `CommandRejected` if none could be started; they are then
        removed, except those to which the user has sent more messages."""
        progress = _StartState(start_group)
        self._supervisor.group.start_soon(self._run, progress)
        await progress.over.wait()
        if not progress.started:
            kept = False
            for session_id in start_group.sessions:
                summary = self._supervisor.session(session_id)
                if summary and summary.undelivered:
                    kept = True
                elif summary:
                    await self._supervisor.remove(session_id)
            raise CommandRejected(progress.failed[0] + (f" {STAYS}" if kept else ""))
        return progress.result

    async def _run(self, progress: _StartState) -> None:
        async with anyio.create_task_group() as group:
            try:
                await self._access.run(self._make, progress, group)
                problem = ""
            except CommandRejected as error:
                problem = str(error)
            for number in tuple(progress.waiting):
                self._ready(progress, group, number, problem)
        progress.over.set()

    def _make(self, project: Project, progress: _StartState, group: TaskGroup) -> None:
        """Create all worktrees, one after the other. Runs in a thread."""
        wanted = progress.start_group

        def show(step: WorktreeStep) -> None:
            anyio.from_thread.run_sync(self._set_step, progress, step)

        def ready(number: int, made: Created | InTheWay) -> None:
            kp("manager.worktree_made")
            anyio.from_thread.run_sync(self._ready, progress, group, number, made)

        if len(wanted.sessions) > 1:
            create_versions(
                project,
                wanted.branch,
                label=wanted.label,
                versions=len(wanted.sessions),
                base=wanted.base,
                group_id=wanted.group_id,
                on_step=show,
                on_ready=ready,
            )
            return
        if wanted.branch_exists:
            show(WorktreeStep.CREATING)
            progress.existing = {each.worktree.id for each in all_listed(project)}
            one = import_branch(project, wanted.branch, label=wanted.label, parent=wanted.base)
        else:
            one = create(project, wanted.branch, label=wanted.label, base=wanted.base, on_step=show)
        ready(1, one)

    def _set_step(self, progress: _StartState, step: WorktreeStep) -> None:
        """Show the step. Raises `CommandRejected` if all the sessions were cancelled."""
        wanted = [each for each in progress.waiting.values() if self._try_step(each, step)]
        if not wanted:
            raise CommandRejected(CANCELLED)

    def _try_step(self, session_id: str, step: WorktreeStep) -> bool:
        try:
            self._preparations.set_step(session_id, step)
        except CommandRejected:
            return False
        return True

    def _ready(
        self, progress: _StartState, group: TaskGroup, number: int, made: Created | InTheWay | str
    ) -> None:
        if session_id := progress.waiting.pop(number, None):
            group.start_soon(self._continue, progress, session_id, made)

    async def _continue(
        self, progress: _StartState, session_id: str, made: Created | InTheWay | str
    ) -> None:
        if not isinstance(made, Created):
            self._fail(progress, session_id, str(made))
            return
        progress.notes += made.notes
        try:
            async with self._room:
                await self._set_up_and_launch(progress, session_id, made.worktree)
        except RookeryError as error:
            self._fail(progress, session_id, str(error))

    async def _set_up_and_launch(
        self, progress: _StartState, session_id: str, worktree: Worktree
    ) -> None:
        problem = CANCELLED
        async with anyio.create_task_group() as group:
            group.start_soon(self._stop_when_cancelled, session_id, group.cancel_scope)
            try:
                await self._set_up(progress, session_id, worktree)
                problem = "" if self._launch(session_id, worktree) else CANCELLED
            except RookeryError as error:  # a task group would wrap it
                problem = str(error)
            group.cancel_scope.cancel()
        if not problem:
            progress.started.append(session_id)
            return
        if progress.has_created(worktree) and not await self._setup.discard(worktree):
            progress.notes.append(KEPT.format(worktree.path))
        raise CommandRejected(problem)

    async def _set_up(self, progress: _StartState, session_id: str, worktree: Worktree) -> None:
        if not progress.has_created(worktree) or not self._try_step(session_id, WorktreeStep.SETUP):
            return
        note = partial(self._note, session_id)
        progress.notes += await self._setup.set_up(worktree, note)
        kp("manager.worktree_set_up")

    def _note(self, session_id: str, lines: Sequence[str]) -> None:
        with suppress(CommandRejected):  # it was removed
            self._preparations.note(session_id, lines)

    def _launch(self, session_id: str, worktree: Worktree) -> bool:
        if not self._try_step(session_id, WorktreeStep.STARTING):
            return False
        self._preparations.launch(
            session_id,
            workspace=Path(worktree.path),
            parallel_mode=parallel_mode_of(worktree),
            worktree_id=worktree.id,
            env=environment_of(worktree, str(self._access.project)),
        )
        return True

    async def _stop_when_cancelled(self, session_id: str, scope: anyio.CancelScope) -> None:
        with suppress(CommandRejected):  # it was removed
            await self._preparations.until_not_preparing(session_id)
        scope.cancel()

    def _fail(self, progress: _StartState, session_id: str, problem: str) -> None:
        if self._supervisor.session(session_id):
            self._preparations.fail(session_id, problem)
        progress.failed.append(problem)
