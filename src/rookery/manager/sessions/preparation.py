"""Sessions that are on the list before there is what their processes need: a worktree, say.

One that is reserved is shown as being created, with the step it is at, and can be cancelled like
any other; then whoever prepares it is told so at the next step.
"""

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec.structs import replace

from rookery.errors import CommandRejected, StorageError
from rookery.manager.sessions.message_pictures import check
from rookery.manager.sessions.orders import Letter
from rookery.manager.sessions.session_events import StartSession
from rookery.manager.sessions.session_folders import SessionFolder
from rookery.manager.sessions.session_json import KeptSession
from rookery.manager.sessions.session_options import Wish, launch_of, record_of
from rookery.manager.sessions.session_record import ParallelMode
from rookery.manager.sessions.supervised_session import SupervisedSession


class Roll(Protocol):
    """The sessions there are."""

    @property
    def project(self) -> Path: ...

    def find(self, session_id: str) -> SupervisedSession: ...

    def add(self, kept: KeptSession) -> SupervisedSession: ...

    def forget(self, session_id: str) -> None: ...

    def folder(self, session_id: str) -> SessionFolder: ...


class Preparations:
    def __init__(self, roll: Roll) -> None:
        self._roll = roll
        self._wishes: dict[str, Wish] = {}

    async def reserve(self, wish: Wish, step: str = "") -> str:
        """The id of a session that will be started. Its workspace counts for nothing before it is
        launched. Raises `CommandRejected` or `StorageError`, and then there is none."""
        if not (wish.prompt.strip() or wish.images):
            raise CommandRejected("Say what to work on.")
        check(Letter(text=wish.prompt, images=wish.images))
        session_id = str(uuid.uuid4())
        session = self._roll.add(KeptSession(record=record_of(wish, session_id)))
        session.is_preparing, session.step = True, step
        try:
            await session.act(StartSession(text=wish.prompt, images=wish.images))
        except StorageError:
            self._roll.forget(session_id)
            raise
        self._wishes[session_id] = wish
        return session_id

    def preparing(self, session_id: str, step: str) -> None:
        """Shown while it lasts. Raises `CommandRejected` if nobody wants the session any more."""
        session = self._wanted(session_id)
        session.step = step
        session.keep()

    def note(self, session_id: str, lines: Sequence[str]) -> None:
        """Lines for the log of the session."""
        session = self._roll.find(session_id)
        session.note(lines)
        session.keep()

    async def unwanted(self, session_id: str) -> None:
        """Waits until the session is neither being prepared nor wanted any more."""
        session = self._roll.find(session_id)
        await session.until(lambda: not session.is_preparing)

    def launch(
        self,
        session_id: str,
        *,
        workspace: Path | None = None,
        parallel_mode: ParallelMode | None = None,
        worktree_id: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """What it needs is there: its process is started as soon as it is its turn. What is None
        is as it was wished. Raises `CommandRejected` if nobody wants the session any more, and
        `StorageError` if that could not be kept."""
        session = self._wanted(session_id)
        wish = self._wishes[session_id]
        found = replace(
            wish,
            workspace=workspace or wish.workspace,
            parallel_mode=parallel_mode or wish.parallel_mode,
            worktree_id=worktree_id or wish.worktree_id,
            env=env or wish.env,
        )
        self._roll.folder(session_id).keep_launch(launch_of(found, self._roll.project))
        session.record = replace(
            session.record,
            workspace=str(found.workspace.absolute()),
            parallel_mode=found.parallel_mode,
            worktree_id=found.worktree_id,
        )
        session.keep(now=True)
        del self._wishes[session_id]
        session.prepared()

    def fail(self, session_id: str, text: str) -> None:
        """It cannot be prepared, for this reason. Nothing happens if nobody wants it any more."""
        session = self._roll.find(session_id)
        self._wishes.pop(session_id, None)
        if session.is_preparing:
            session.cannot_be_prepared(text)

    def _wanted(self, session_id: str) -> SupervisedSession:
        session = self._roll.find(session_id)
        if not session.is_preparing:
            self._wishes.pop(session_id, None)
            raise CommandRejected("The session was cancelled before it began.")
        return session
