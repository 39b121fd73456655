"""Sessions that start: in the project, or in worktrees of their own.

A session is on the list already while its worktree is made, shown with the step it is at, and can
be cancelled. Git makes one worktree after the other; two at a time are set up and started. What is
begun is finished whether or not whoever asked still waits.
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

from rookery.core.settings import Settings
from rookery.errors import CommandRejected, RookeryError
from rookery.faults import kp
from rookery.manager.handlers.router import Handlers
from rookery.manager.handlers.worktree_access import WorktreeAccess
from rookery.manager.handlers.worktree_scripts import SettingUp
from rookery.manager.requests import (
    StartSessions,
    TrustProject,
)
from rookery.manager.sessions.session_folders import SessionOptions
from rookery.manager.sessions.session_record import LABEL_LENGTH, ParallelMode, label_of
from rookery.manager.shown_rows import Done, Started
from rookery.manager.worktrees.branch_names import MOST_VERSIONS, automatic_branch, own_branch
from rookery.manager.worktrees.worktree_values import (
    Created,
    Listed,
    Obstacle,
    VersionsMade,
    Worktree,
    WorktreeState,
    WorktreeStep,
    environment_of,
)

TRUSTED = ("--trust",)
"""In a worktree of a trusted project one works as in the project. Whether the project still is
trusted is looked at before each process is started."""
SET_UP_AT_ONCE = 2
CANCELLED = "It was cancelled before it started."
KEPT = "Its worktree {} already has files, so it is kept; remove it if you do not need it."
STAYS = "The session stays in the list, because you sent it more messages."


class StartedGroup(Struct, frozen=True, kw_only=True):
    """Sessions that are to begin: versions of one another, if there are several."""

    sessions: tuple[str, ...]
    branch: str
    branch_is_there: bool = False
    label: str = ""
    base: str = ""
    group_id: str = ""


class StartHandler:
    """`settings` gives those that hold now."""

    def __init__(
        self, access: WorktreeAccess, setting_up: SettingUp, settings: Callable[[], Settings]
    ) -> None:
        self._access = access
        self._supervisor = access.supervisor
        self._apart = WorktreeStart(access, setting_up)
        self._settings = settings

    @property
    def handlers(self) -> Handlers:
        return {StartSessions: self._start, TrustProject: self._trust}

    async def _trust(self, request: TrustProject) -> Done:
        self._access.trust(request.path)
        return Done()

    async def _start(self, request: StartSessions) -> Started:
        self._access.demand_trust("nothing was started")
        if not 1 <= request.versions <= MOST_VERSIONS:
            raise CommandRejected(
                f"There can be 1 to {MOST_VERSIONS} versions, not {request.versions}. "
                "Nothing was started."
            )
        if request.worktree_id:
            return await self._start_in_worktree(request)
        if request.where == "worktree" or request.versions > 1 or request.branch:
            return await self._start_apart(request)
        session_id = await self._supervisor.start(_wish(request, self._access.project))
        return Started(session_ids=(session_id,))

    async def _start_in_worktree(self, request: StartSessions) -> Started:
        """Beside whoever works there already."""
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
        wish = replace(
            _wish(request, Path(worktree.path)),
            parallel_mode=parallel_mode_of(worktree),
            worktree_id=worktree.id,
            env=environment_of(worktree, str(self._access.project)),
            options=TRUSTED,
        )
        notes = self._others_in(worktree)
        return Started(session_ids=(await self._supervisor.start(wish),), notes=notes)

    def _others_in(self, worktree: Worktree) -> tuple[str, ...]:
        """Two who write into the same files should be known to each other's user."""
        ids = self._access.sessions_in(worktree)
        shown = [each for each in map(self._supervisor.session, ids) if each]
        names = [each.record.name for each in shown if each.flags.is_active]
        if not names:
            return ()
        return (f"Other sessions work in the same folder: {', '.join(names)}.",)

    async def _start_apart(self, request: StartSessions) -> Started:
        versions = request.versions
        known = await self._access.done(self._access.operations.branches)
        is_there = bool(request.branch) and request.branch in known
        if is_there and versions > 1:
            raise CommandRejected(
                f"{request.branch} already exists; several versions need a new branch each."
            )
        group_id = secrets.token_hex(8) if versions > 1 else ""
        sessions = [
            await self._reserved(request, number, group_id) for number in range(1, versions + 1)
        ]
        beginning = StartedGroup(
            sessions=tuple(sessions),
            branch=request.branch if is_there else self._new_branch(request),
            branch_is_there=is_there,
            label=_label(request),
            base=request.base,
            group_id=group_id,
        )
        return await self._apart.begin(beginning)

    async def _reserved(self, request: StartSessions, number: int, group_id: str) -> str:
        """The id of a session that is on the list and has no place yet."""
        wish = replace(
            _wish(request, self._access.project, number),
            label=_label(request, number) if request.label or number > 1 else "",
            parallel_mode=ParallelMode(),
            group_id=group_id,
            options=TRUSTED,
        )
        return await self._supervisor.preparations.reserve(wish, WorktreeStep.SYNCING)

    def _new_branch(self, request: StartSessions) -> str:
        if request.branch:
            return own_branch(request.branch) or request.branch
        prefix = self._settings().manager.branch_prefix
        chance = secrets.randbelow(1_000_000)
        return automatic_branch(request.prompt or request.label, prefix=prefix, chance=chance)


def _wish(request: StartSessions, workspace: Path, number: int = 1) -> SessionOptions:
    provider, model = _model(request, number)
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
    )


def _model(request: StartSessions, number: int) -> tuple[str | None, str | None]:
    """The provider and the model of a version, as far as they are named."""
    own = request.models[number - 1] if number <= len(request.models) else ""
    provider, slash, model = (own or request.model).partition("/")
    return (provider or None, model or None) if slash else (None, provider or None)


def _label(request: StartSessions, number: int = 1) -> str:
    """Later versions have their number behind the name, which makes room for it."""
    label = request.label or label_of(request.prompt)
    mark = f" v{number}" if number > 1 else ""
    return f"{label[: LABEL_LENGTH - len(mark)].rstrip()}{mark}"


class _StartProgress:
    """How far the sessions of a beginning have come."""

    def __init__(self, beginning: StartedGroup) -> None:
        self.beginning = beginning
        self.over = anyio.Event()
        self.waiting = dict(enumerate(beginning.sessions, 1))
        """Those without a worktree, by their numbers."""
        self.begun: list[str] = []
        self.failed: list[str] = []
        self.notes: list[str] = []
        self._there: set[str] = set()

    def note_those_there(self, listed: list[Listed] | Obstacle) -> None:
        if not isinstance(listed, Obstacle):
            self._there = {each.worktree.id for each in listed}

    def has_made(self, worktree: Worktree) -> bool:
        """Otherwise it is set up already, and not ours to discard."""
        return worktree.id not in self._there

    def begin(self, session_id: str) -> None:
        self.begun.append(session_id)
        self._look()

    def fail(self, why: str) -> None:
        self.failed.append(why)
        self._look()

    def _look(self) -> None:
        if len(self.begun) + len(self.failed) == len(self.beginning.sessions):
            self.over.set()

    @property
    def told(self) -> Started:
        sessions = self.beginning.sessions
        some = f"{len(self.begun)} of {len(sessions)} versions have started."
        return Started(
            session_ids=tuple(each for each in sessions if each in self.begun),
            notes=(*((some,) if self.failed else ()), *dict.fromkeys(self.notes)),
            failed=tuple(self.failed),
        )


class WorktreeStart:
    def __init__(self, access: WorktreeAccess, setting_up: SettingUp) -> None:
        self._access = access
        self._supervisor = access.supervisor
        self._preparations = access.supervisor.preparations
        self._setting_up = setting_up
        self._room = anyio.CapacityLimiter(SET_UP_AT_ONCE)

    async def begin(self, beginning: StartedGroup) -> Started:
        """Raises `CommandRejected` if none could begin; then nothing is left of them but those to
        whom the user has said more by then, which is kept with them."""
        course = _StartProgress(beginning)
        self._supervisor.group.start_soon(self._run, course)
        await course.over.wait()
        if not course.begun:
            kept = False
            for session_id in beginning.sessions:
                shown = self._supervisor.session(session_id)
                if shown and shown.mail:
                    kept = True
                elif shown:
                    await self._supervisor.remove(session_id)
            raise CommandRejected(course.failed[0] + (f" {STAYS}" if kept else ""))
        return course.told

    async def _run(self, course: _StartProgress) -> None:
        async with anyio.create_task_group() as group:
            try:
                made = await self._access.tried(partial(self._make, course, group))
                why = made.text if isinstance(made, Obstacle) else ""
            except CommandRejected as error:
                why = str(error)
            for number in tuple(course.waiting):
                self._ready(course, group, number, why)

    def _make(self, course: _StartProgress, group: TaskGroup) -> VersionsMade | Obstacle | None:
        """All worktrees, one after the other. In a thread."""
        wanted, operations = course.beginning, self._access.operations

        def told(step: WorktreeStep) -> None:
            anyio.from_thread.run_sync(self._tell, course, step)

        def ready(number: int, made: Created | Obstacle) -> None:
            kp("manager.worktree_made")
            anyio.from_thread.run_sync(self._ready, course, group, number, made)

        if len(wanted.sessions) > 1:
            return operations.create_versions(
                wanted.branch,
                label=wanted.label,
                versions=len(wanted.sessions),
                base=wanted.base,
                group_id=wanted.group_id,
                told=told,
                ready=ready,
            )
        if wanted.branch_is_there:
            told(WorktreeStep.CREATING)
            course.note_those_there(operations.listed())
            one = operations.import_branch(wanted.branch, label=wanted.label, parent=wanted.base)
        else:
            one = operations.create(wanted.branch, label=wanted.label, base=wanted.base, told=told)
        ready(1, one)
        return None

    def _tell(self, course: _StartProgress, step: WorktreeStep) -> None:
        """Raises `CommandRejected` once nobody wants any of them."""
        wanted = [each for each in course.waiting.values() if self._is_told(each, step)]
        if not wanted:
            raise CommandRejected(CANCELLED)

    def _is_told(self, session_id: str, step: WorktreeStep) -> bool:
        try:
            self._preparations.preparing(session_id, step)
        except CommandRejected:
            return False
        return True

    def _ready(
        self, course: _StartProgress, group: TaskGroup, number: int, made: Created | Obstacle | str
    ) -> None:
        if session_id := course.waiting.pop(number, None):
            group.start_soon(self._go_on, course, session_id, made)

    async def _go_on(
        self, course: _StartProgress, session_id: str, made: Created | Obstacle | str
    ) -> None:
        if not isinstance(made, Created):
            self._fail(course, session_id, made.text if isinstance(made, Obstacle) else made)
            return
        course.notes += made.notes
        try:
            async with self._room:
                await self._set_up_and_launch(course, session_id, made.worktree)
        except RookeryError as error:
            self._fail(course, session_id, str(error))

    async def _set_up_and_launch(
        self, course: _StartProgress, session_id: str, worktree: Worktree
    ) -> None:
        why = CANCELLED
        async with anyio.create_task_group() as group:
            group.start_soon(self._stop_when_unwanted, session_id, group.cancel_scope)
            try:
                await self._set_up(course, session_id, worktree)
                why = "" if self._launched(session_id, worktree) else CANCELLED
            except RookeryError as error:  # which a group would wrap
                why = str(error)
            group.cancel_scope.cancel()
        if not why:
            course.begin(session_id)
            return
        if course.has_made(worktree) and not await self._setting_up.discard(worktree):
            course.notes.append(KEPT.format(worktree.path))
        raise CommandRejected(why)

    async def _set_up(self, course: _StartProgress, session_id: str, worktree: Worktree) -> None:
        if not course.has_made(worktree) or not self._is_told(session_id, WorktreeStep.SETUP):
            return
        note = partial(self._note, session_id)
        course.notes += await self._setting_up.set_up(worktree, note)
        kp("manager.worktree_set_up")

    def _note(self, session_id: str, lines: Sequence[str]) -> None:
        with suppress(CommandRejected):  # it was removed meanwhile
            self._preparations.note(session_id, lines)

    def _launched(self, session_id: str, worktree: Worktree) -> bool:
        if not self._is_told(session_id, WorktreeStep.STARTING):
            return False
        self._preparations.launch(
            session_id,
            workspace=Path(worktree.path),
            parallel_mode=parallel_mode_of(worktree),
            worktree_id=worktree.id,
            env=environment_of(worktree, str(self._access.project)),
        )
        return True

    async def _stop_when_unwanted(self, session_id: str, scope: anyio.CancelScope) -> None:
        with suppress(CommandRejected):  # it was removed
            await self._preparations.unwanted(session_id)
        scope.cancel()

    def _fail(self, course: _StartProgress, session_id: str, why: str) -> None:
        if self._supervisor.session(session_id):
            self._preparations.fail(session_id, why)
        course.fail(why)


def parallel_mode_of(worktree: Worktree) -> ParallelMode:
    return ParallelMode(
        branch=worktree.branch,
        worktree_path=worktree.path,
        parent_branch=worktree.parent_branch,
    )
