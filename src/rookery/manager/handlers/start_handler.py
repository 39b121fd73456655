"""Starting sessions: in the project itself, in a worktree that is there, or each in its own."""

import secrets
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from rookery.core.settings import Settings
from rookery.errors import CommandRejected
from rookery.manager.handlers.router import Handlers
from rookery.manager.handlers.worktree_access import WorktreeAccess
from rookery.manager.handlers.worktree_setup import SettingUp
from rookery.manager.handlers.worktree_start import Apart, Beginning, parallel_mode_of
from rookery.manager.requests import Done, Started, StartSessions, TrustProject
from rookery.manager.sessions.session_folders import Wish
from rookery.manager.sessions.session_record import LABEL_LENGTH, ParallelMode, label_of
from rookery.manager.worktrees.names import MOST_VERSIONS, automatic_branch, own_branch
from rookery.manager.worktrees.worktree_values import State, Step, Worktree, environment_of

TRUSTED = ("--trust",)
"""In a worktree of a trusted project one works as in the project. Whether the project still is
trusted is looked at before each process is started."""


class StartFamily:
    """`settings` gives those that hold now."""

    def __init__(
        self, access: WorktreeAccess, setting_up: SettingUp, settings: Callable[[], Settings]
    ) -> None:
        self._access = access
        self._supervisor = access.supervisor
        self._apart = Apart(access, setting_up)
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
            raise CommandRejected("Versions and branches need worktrees of their own.")
        found = await self._access.find(request.worktree_id)
        if found.state is not State.READY:
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
        return (f"Others work in the same files now: {', '.join(names)}.",)

    async def _start_apart(self, request: StartSessions) -> Started:
        versions = request.versions
        known = await self._access.done(self._access.desk.branches)
        is_there = bool(request.branch) and request.branch in known
        if is_there and versions > 1:
            raise CommandRejected(
                f"{request.branch} is there already; several versions need a new branch each."
            )
        group_id = secrets.token_hex(8) if versions > 1 else ""
        sessions = [
            await self._reserved(request, number, group_id) for number in range(1, versions + 1)
        ]
        beginning = Beginning(
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
        return await self._supervisor.preparations.reserve(wish, Step.SYNCING)

    def _new_branch(self, request: StartSessions) -> str:
        if request.branch:
            return own_branch(request.branch) or request.branch
        prefix = self._settings().manager.branch_prefix
        chance = secrets.randbelow(1_000_000)
        return automatic_branch(request.prompt or request.label, prefix=prefix, chance=chance)


def _wish(request: StartSessions, workspace: Path, number: int = 1) -> Wish:
    provider, model = _model(request, number)
    return Wish(
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
