"""The worktrees of the manager's project: which there are, whose they are, and whether a session
may run in one.

Git reads a repository's settings, so nothing is asked of it unless the user trusts the project.
Where a session works is told by the user's own folder, never by the list in the project, which
anybody may have written.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread
from msgspec.structs import replace

from rookery import NAME
from rookery.errors import CommandRejected
from rookery.manager.dependencies import TrustedFolders
from rookery.manager.review.reviews import ReviewOperations
from rookery.manager.sessions.session_record import SessionRecord
from rookery.manager.sessions.supervisor import Supervisor
from rookery.manager.worktrees.create import Fetching
from rookery.manager.worktrees.operations import WorktreeOperations
from rookery.manager.worktrees.worktree_values import (
    KEEP_REFS,
    Listed,
    Obstacle,
    Worktree,
    WorktreeState,
)
from rookery.platform.paths import visible

GITS_AT_ONCE = 3
_NOT_HERE = (
    "The worktree of this session was never created. The session is kept; start "
    "another with the same prompt."
)

T = TypeVar("T")


class WorktreeAccess:
    def __init__(
        self, supervisor: Supervisor, trust: TrustedFolders, *, fetching: Fetching | None = None
    ) -> None:
        self.supervisor = supervisor
        self.project = supervisor.project
        self.operations = WorktreeOperations(self.project, fetching=fetching)
        self.review = ReviewOperations(self.project)
        self.closed: set[str] = set()
        """The paths of worktrees that are about to go: nothing is started there any more."""
        self._trust = trust
        self._places: dict[str, Path] = {}
        self._threads = anyio.CapacityLimiter(GITS_AT_ONCE)

    @property
    def is_trusted(self) -> bool:
        return self._trust.trusts(self.project)

    def demand_trust(self, so: str = "git is not run in it") -> None:
        if not self.is_trusted:
            raise CommandRejected(
                f"{self.project} is not trusted, so {so}. Look through it, then run: {NAME} trust"
            )

    def trust(self, path: str) -> None:
        """Whoever names the project has seen which it is."""
        if path != str(self.project):
            raise CommandRejected(
                f"The project is {self.project}, which is not the path given. Nothing was trusted."
            )
        self._trust.trust(self.project)
        self.supervisor.head_changed()

    async def done(self, operation: Callable[[], T | Obstacle]) -> T:
        """What an operation does, in a thread. Raises `CommandRejected` with what is in
        its way."""
        said = await self.tried(operation)
        if isinstance(said, Obstacle):
            raise CommandRejected(said.text)
        return said

    async def tried(self, operation: Callable[[], T | Obstacle]) -> T | Obstacle:
        """The same with what is in the way as an answer."""
        self.demand_trust()
        return await anyio.to_thread.run_sync(operation, limiter=self._threads)

    async def listed(self) -> list[Listed]:
        """Those that git knows, and those that only their sessions remember."""
        remembered = [
            worktree
            for record in self.supervisor.records()
            if record.worktree_id and (worktree := self._remembered(record))
        ]
        return await self.done(lambda: self._listed(remembered))

    async def find(self, worktree_id: str) -> Listed:
        """Whoever works in a worktree can write what is noted of it, also another one's id."""
        found = [each for each in await self.listed() if each.worktree.id == worktree_id]
        if not found:
            raise CommandRejected(f"No such worktree: {worktree_id}.")
        if len(found) > 1:
            places = ", ".join(visible(each.worktree.path) for each in found)
            raise CommandRejected(
                f"Several worktrees have the id {worktree_id}, so nothing was done: {places}."
            )
        return found[0]

    async def of_session(self, session_id: str) -> Worktree | None:
        """The worktree that a session works in; None if it works in the project itself. Raises
        `CommandRejected` if it has none any more."""
        self.demand_trust()
        place = self.place_of(session_id)
        if place == self.project:
            return None
        for each in await self.listed():
            if Path(each.worktree.path) == place:
                return each.worktree
        if removed := await self.removed(session_id):
            raise CommandRejected(removed)
        raise CommandRejected(
            f"{place}, where this session works, is not a worktree of this project."
        )

    async def removed(self, session_id: str) -> str:
        """That the worktree of a session was removed and where its work is, if so."""
        records = self.supervisor.records()
        record = next((each for each in records if each.session_id == session_id), None)
        place = self._place(session_id)
        if not (record and place) or record.worktree_id or place == self.project:
            return ""
        if place.exists() or not self.is_trusted:
            return ""
        trouble = partial(self._trouble_with, place, record)
        return await anyio.to_thread.run_sync(trouble, limiter=self._threads) or ""

    def place_of(self, session_id: str) -> Path:
        """The folder that a session works in."""
        if place := self._place(session_id):
            return place
        raise CommandRejected(f"Session {session_id} does not exist, or has not started.")

    def sessions_in(self, worktree: Worktree) -> tuple[str, ...]:
        """The sessions that work in it, or did."""
        place = Path(worktree.path)
        ids = (record.session_id for record in self.supervisor.records())
        return tuple(each for each in ids if self._place(each) == place)

    def forget(self, worktree: Worktree) -> None:
        """It was removed: its sessions are only to be read from now on, and do not bring it back
        on the list."""
        for session_id in self.sessions_in(worktree):
            session = self.supervisor.find(session_id)
            session.record = replace(session.record, worktree_id=None, unread=False)
            session.keep(now=True)

    def ready_to_run(self, record: SessionRecord) -> str | None:
        """Why no process of a session can be started now, if so. It never runs anywhere but where
        it belongs."""
        place = self._place(record.session_id)
        if place is None:
            return None  # its keeper says better why it cannot be run
        if place == self.project:
            return self._trouble_here(record)
        if not self.is_trusted:
            return (
                f"{self.project} is no longer trusted, so nothing runs in its "
                f"worktrees. The session is kept; to continue it: {NAME} trust"
            )
        if str(place) in self.closed:
            return f"The worktree {place.name} is being removed. The session is kept."
        return self._trouble_with(place, record)

    def _trouble_here(self, record: SessionRecord) -> str | None:
        """A session that asks is read-only where nothing is trusted; one that does not ask would
        act there."""
        if record.parallel_mode and record.parallel_mode.enabled:
            return _NOT_HERE
        launch = self.supervisor.folder(record.session_id).launch()
        if (launch and not launch.auto_approve) or self.is_trusted:
            return None
        return (
            f"{self.project} is not trusted, so no session runs in it with auto-approve. "
            f"The session is kept; to continue it: {NAME} trust"
        )

    def _trouble_with(self, place: Path, record: SessionRecord) -> str | None:
        branch = record.parallel_mode.branch if record.parallel_mode else ""
        known = Worktree(id=record.worktree_id or place.name, branch=branch, path=str(place))
        match self.operations.state_of(known):
            case Obstacle(text=text):
                return text
            case WorktreeState.READY:
                return None
            case (WorktreeState.MISSING | WorktreeState.LOST) as state if not record.worktree_id:
                is_there = f" Its branch {branch} exists." if state is WorktreeState.MISSING else ""
                return (
                    f"The worktree {place.name} was "
                    f"removed.{is_there}{self._kept_of(place)} The session can be "
                    "read; start another to continue."
                )
            case WorktreeState.MISSING:
                return (
                    f"The worktree {place} was removed, but its branch {branch} "
                    "exists. The session is kept: recreate its worktree, then resume "
                    "it."
                )
            case WorktreeState.LOST:
                return (
                    f"The worktree {place} and its branch {branch} were removed. The "
                    "session can be read, but not continued."
                )
            case WorktreeState.UNFINISHED:
                return f"The worktree {place} is incomplete. Remove it and start again."
            case _:
                return (
                    f"{place} is no longer a worktree of this project. Run `git "
                    "worktree repair`, then resume the session."
                )

    def _kept_of(self, place: Path) -> str:
        """Where the work is that was not committed when a worktree was removed."""
        keeps = self.operations.keeps()
        if isinstance(keeps, Obstacle):
            return ""
        begins = f"{KEEP_REFS}{place.name}-"
        if not (mine := [each.ref for each in keeps if each.ref.startswith(begins)]):
            return ""
        return (
            f" Uncommitted work is saved; restore it with: {NAME} sessions worktrees "
            f"bring-back {mine[-1]} BRANCH."
        )

    def _listed(self, remembered: list[Worktree]) -> list[Listed] | Obstacle:
        found = self.operations.listed()
        if isinstance(found, Obstacle):
            return found
        paths = {each.worktree.path for each in found}
        lost = {each.path: each for each in remembered if each.path not in paths}
        for worktree in lost.values():
            state = self.operations.state_of(worktree)
            if not isinstance(state, Obstacle):
                found.append(Listed(worktree=worktree, state=state))
        return found

    def _remembered(self, record: SessionRecord) -> Worktree | None:
        """A worktree as a session remembers it, which is how it can be made again."""
        place, own = self._place(record.session_id), record.parallel_mode
        if not (place and own and record.worktree_id) or place == self.project:
            return None
        return Worktree(
            id=record.worktree_id,
            branch=own.branch,
            path=str(place),
            parent_branch=own.parent_branch,
            group_id=record.group_id,
            label=record.label,
            branch_owned=True,
        )

    def _place(self, session_id: str) -> Path | None:
        """Once a session has a place, it keeps it."""
        if session_id not in self._places:
            launch = self.supervisor.folder(session_id).launch()
            if launch is None or launch.project != str(self.project):
                return None
            self._places[session_id] = Path(launch.workspace)
        return self._places[session_id]
