"""The worktrees of the project: which exist, which session uses them, and whether one may run
there.

Git reads a repository's settings, so it is not run unless the user trusts the project. Where a
session works is read from the user's own folder, never from files in the project.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import anyio
import anyio.to_thread
from msgspec.structs import replace

from rookery import NAME
from rookery.errors import CommandRejected
from rookery.manager.dependencies import TrustedFolders
from rookery.manager.review.checkout_changes import KnownStats, stats_since
from rookery.manager.sessions.session_folders import SessionOptions
from rookery.manager.sessions.session_record import ParallelMode, SessionRecord
from rookery.manager.sessions.supervisor import Supervisor
from rookery.manager.shown_rows import WorktreeStats
from rookery.manager.worktrees.keep import keeps
from rookery.platform.paths import visible
from rookery.platform.worktree_git import Fetching, InTheWay
from rookery.platform.worktree_project import Project, all_listed, git_of, on_project, state_of
from rookery.platform.worktree_values import (
    KEEP_REFS,
    Listed,
    Worktree,
    environment_of,
)

MAX_GIT_PROCESSES = 3
_NEVER_CREATED = (
    "The worktree of this session was never created. The session is kept; start "
    "another with the same prompt."
)

P = ParamSpec("P")
T = TypeVar("T")
TRUSTED = ("--trust",)
"""A worktree of a trusted project is trusted. That the project is still trusted is checked
before each process is started."""


class WorktreeAccess:
    def __init__(
        self, supervisor: Supervisor, trust: TrustedFolders, *, fetching: Fetching | None = None
    ) -> None:
        self.supervisor = supervisor
        self.project = supervisor.project
        self.closed: set[str] = set()
        """Paths of worktrees that are being removed; nothing is started there."""
        self._fetching = fetching or Fetching()
        self._known_stats: KnownStats = {}
        self._trust = trust
        self._folder_cache: dict[str, Path] = {}
        self._threads = anyio.CapacityLimiter(MAX_GIT_PROCESSES)

    @property
    def is_trusted(self) -> bool:
        return self._trust.trusts(self.project)

    def require_trust(self, effect: str = "git is not run in it") -> None:
        if not self.is_trusted:
            raise CommandRejected(
                f"{self.project} is not trusted, so {effect}. Look through it, "
                f"then run: {NAME} trust"
            )

    def trust(self, path: str) -> None:
        """Trust the project. `path` must name it, which shows that the user has seen it."""
        if path != str(self.project):
            raise CommandRejected(
                f"The project is {self.project}, which is not the path given. Nothing was trusted."
            )
        self._trust.trust(self.project)
        self.supervisor.overview_changed()

    async def run(
        self,
        operation: Callable[Concatenate[Project, P], T],
        /,
        *given: P.args,
        **named: P.kwargs,
    ) -> T:
        """Run an operation on the project in a thread. Raises `InTheWay` if it is not possible."""
        self.require_trust()
        return await anyio.to_thread.run_sync(
            lambda: on_project(self.project, self._fetching, operation, *given, **named),
            limiter=self._threads,
        )

    async def stats(self, worktree: Worktree) -> WorktreeStats:
        return await self.run(stats_since, self._known_stats, worktree)

    async def listed(self) -> list[Listed]:
        """Worktrees known to git, and those that only their sessions' records know."""
        recorded = [
            worktree
            for record in self.supervisor.records()
            if record.worktree_id and (worktree := self._recorded_worktree(record))
        ]
        return await self.run(_listed, recorded)

    async def find(self, worktree_id: str) -> Listed:
        """Raises `CommandRejected` if the id is not unique: a session can write any id to its
        worktree."""
        found = [each for each in await self.listed() if each.worktree.id == worktree_id]
        if not found:
            raise CommandRejected(f"No such worktree: {worktree_id}.")
        if len(found) > 1:
            paths_found = ", ".join(visible(each.worktree.path) for each in found)
            raise CommandRejected(
                f"Several worktrees have the id {worktree_id}, so nothing was done: {paths_found}."
            )
        return found[0]

    def in_worktree(
        self, act: Callable[[Worktree, Any], Awaitable[Any]]
    ) -> Callable[[Any], Awaitable[Any]]:
        """Make a handler that calls `act` with the worktree that the request names."""

        async def handle(request: Any) -> Any:
            return await act((await self.find(request.worktree_id)).worktree, request)

        return handle

    async def of_session(self, session_id: str) -> Worktree | None:
        """The worktree of a session; None if it works in the project itself. Raises
        `CommandRejected` if its worktree no longer exists."""
        self.require_trust()
        folder = self.folder_of(session_id)
        if folder == self.project:
            return None
        for each in await self.listed():
            if Path(each.worktree.path) == folder:
                return each.worktree
        if removal_note := await self.removal_note(session_id):
            raise CommandRejected(removal_note)
        raise CommandRejected(
            f"{folder}, where this session works, is not a worktree of this project."
        )

    async def removal_note(self, session_id: str) -> str:
        """A sentence about the removed worktree of a session and its work; empty if not removed."""
        records = self.supervisor.records()
        record = next((each for each in records if each.session_id == session_id), None)
        folder = self._folder(session_id)
        if not (record and folder) or record.worktree_id or folder == self.project:
            return ""
        if folder.exists() or not self.is_trusted:
            return ""
        return (
            await anyio.to_thread.run_sync(
                self._worktree_obstacle, folder, record, limiter=self._threads
            )
            or ""
        )

    def folder_of(self, session_id: str) -> Path:
        """The folder a session works in."""
        if folder := self._folder(session_id):
            return folder
        raise CommandRejected(f"Session {session_id} does not exist, or has not started.")

    def sessions_in(self, worktree: Worktree) -> tuple[str, ...]:
        """Ids of sessions that work or worked in the worktree."""
        folder = Path(worktree.path)
        ids = (record.session_id for record in self.supervisor.records())
        return tuple(each for each in ids if self._folder(each) == folder)

    def forget(self, worktree: Worktree) -> None:
        """Detach the sessions of a removed worktree, which makes them read-only."""
        for session_id in self.sessions_in(worktree):
            session = self.supervisor.find(session_id)
            session.record = replace(session.record, worktree_id=None, unread=False)
            session.save(now=True)

    def start_obstacle(self, record: SessionRecord) -> str | None:
        """Why no process of a session can be started, or None. It never runs in another folder."""
        folder = self._folder(record.session_id)
        if folder is None:
            return None  # the process keeper has a better message
        if folder == self.project:
            return self._project_obstacle(record)
        if not self.is_trusted:
            return (
                f"{self.project} is no longer trusted, so nothing runs in its "
                f"worktrees. The session is kept; to continue it: {NAME} trust"
            )
        if str(folder) in self.closed:
            return f"The worktree {folder.name} is being removed. The session is kept."
        return self._worktree_obstacle(folder, record)

    def _project_obstacle(self, record: SessionRecord) -> str | None:
        """In an untrusted project a session that asks is read-only; one with auto-approve must
        not run."""
        if record.parallel_mode and record.parallel_mode.enabled:
            return _NEVER_CREATED
        launch = self.supervisor.folder(record.session_id).launch()
        if (launch and not launch.auto_approve) or self.is_trusted:
            return None
        return (
            f"{self.project} is not trusted, so no session runs in it with auto-approve. "
            f"The session is kept; to continue it: {NAME} trust"
        )

    def _worktree_obstacle(self, folder: Path, record: SessionRecord) -> str | None:
        try:
            return on_project(self.project, self._fetching, _obstacle_in, folder, record)
        except InTheWay as error:
            return str(error)

    def _recorded_worktree(self, record: SessionRecord) -> Worktree | None:
        """The worktree as the session's record describes it, from which it can be recreated."""
        folder, own = self._folder(record.session_id), record.parallel_mode
        if not (folder and own and record.worktree_id) or folder == self.project:
            return None
        return Worktree(
            id=record.worktree_id,
            branch=own.branch,
            path=str(folder),
            parent_branch=own.parent_branch,
            group_id=record.group_id,
            label=record.label,
            branch_owned=True,
        )

    def _folder(self, session_id: str) -> Path | None:
        """The folder of a session, cached because it never changes."""
        if session_id not in self._folder_cache:
            launch = self.supervisor.folder(session_id).launch()
            if launch is None or launch.project != str(self.project):
                return None
            self._folder_cache[session_id] = Path(launch.workspace)
        return self._folder_cache[session_id]


def _listed(project: Project, recorded: list[Worktree]) -> list[Listed]:
    found = all_listed(project)
    paths = {each.worktree.path for each in found}
    lost = {each.path: each for each in recorded if each.path not in paths}.values()
    return [*found, *(Listed(worktree=each, state=state_of(project, each)) for each in lost)]


def _obstacle_in(project: Project, folder: Path, record: SessionRecord) -> str | None:
    branch = record.parallel_mode.branch if record.parallel_mode else ""
    known = Worktree(id=record.worktree_id or folder.name, branch=branch, path=str(folder))
    if folder.exists() or record.worktree_id:
        git_of(project, known)
        return None
    is_there = f" Its branch {branch} exists." if branch in project.branches else ""
    return (
        f"The worktree {folder.name} was removed.{is_there}{_saved_work_note(project, folder)} The "
        "session can be read; start another to continue."
    )


def _saved_work_note(project: Project, folder: Path) -> str:
    """A sentence about the uncommitted work saved when a worktree was removed."""
    begins = f"{KEEP_REFS}{folder.name}-"
    if not (mine := [each.ref for each in keeps(project) if each.ref.startswith(begins)]):
        return ""
    return (
        f" Uncommitted work is saved; restore it with: {NAME} sessions worktrees "
        f"bring-back {mine[-1]} BRANCH."
    )


def options_in(worktree: Worktree, options: SessionOptions, project: Path) -> SessionOptions:
    """The options of a session, moved into a worktree."""
    return replace(
        options,
        workspace=Path(worktree.path),
        parallel_mode=parallel_mode_of(worktree),
        worktree_id=worktree.id,
        env={**(options.env or {}), **environment_of(worktree, str(project))},
        options=TRUSTED,
    )


def parallel_mode_of(worktree: Worktree) -> ParallelMode:
    return ParallelMode(
        branch=worktree.branch, worktree_path=worktree.path, parent_branch=worktree.parent_branch
    )
