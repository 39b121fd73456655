"""How sessions come to run: prepared, loaded after a restart, queued, admitted.

A session is on the list before its worktree exists. It can be cancelled then like any other, which
whoever prepares it learns at the next step. So many sessions run at once, and so many processes
are kept.
"""

import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rookery.errors import CommandRejected, StorageError
from rookery.manager.sessions.message_queue import check
from rookery.manager.sessions.session_events import ProcessError, StartEvent, UserMessage
from rookery.manager.sessions.session_folders import SessionOptions, launch_of, record_of
from rookery.manager.sessions.session_process import lives
from rookery.manager.sessions.session_record import ParallelMode
from rookery.manager.sessions.session_states import SessionStatus
from rookery.manager.sessions.stored_session import rebuilt
from rookery.manager.sessions.supervised_session import SupervisedSession

if TYPE_CHECKING:
    from rookery.manager.sessions.supervisor import Supervisor


USUAL_LIMIT, HIGHEST_LIMIT = 5, 32
"""Of sessions that run at once."""


class Admission:
    def __init__(self, sessions: Mapping[str, SupervisedSession], limit: int) -> None:
        self._sessions = sessions
        self.limit = min(max(1, limit), HIGHEST_LIMIT)
        self._queue: deque[SupervisedSession] = deque()

    def queue(self, session: SupervisedSession) -> None:
        self._queue.append(session)

    @property
    def has_queue(self) -> bool:
        return any(each.is_queued for each in self._queue)

    def admit(self) -> None:
        """Whoever waits longest, while there is room. Processes that rest make room for others.

        A session that waits for a person leaves its turn to others, but keeps its process: of
        processes there are never more than the highest limit."""
        self._queue = deque(each for each in self._queue if each.is_queued)
        sessions = self._sessions.values()
        room = self.limit - sum(each.is_running for each in sessions)
        room = min(room, HIGHEST_LIMIT - sum(each.keeper.has_process for each in sessions))
        while self._queue and room > 0:
            room -= 1
            self._queue.popleft().launch()
        self._retire_the_idle()

    def _retire_the_idle(self) -> None:
        """As many processes are kept as may run, the longest at rest go first."""
        sessions = [each for each in self._sessions.values() if each.keeper.has_process]
        idle = sorted(
            (each for each in sessions if each.is_idle), key=lambda each: each.record.end_time or 0
        )
        for session in idle[: max(0, len(sessions) - self.limit)]:
            session.keeper.retire()


async def load(session: SupervisedSession) -> None:
    """Takes up what an earlier manager has left of it: its process, or its place in the queue."""
    mark = session.folder.mark()
    current = mark if mark and mark.generation == session.record.generation else None
    alive = current is not None and lives(current)
    was_prepared = session.folder.launch() is not None
    waits_for_its_turn = session.record.process_open and not current and was_prepared
    begins = current is not None and current.new_task and not session.announced
    if (alive and not begins) or session.record.status is SessionStatus.RUNNING:
        await session.recall()
    _note_what_its_log_tells(session)
    at_hand = current is not None and current.at_rest and not session.record.saw_session_created
    goes_on = (alive or waits_for_its_turn) and not at_hand
    ask = session.root.ask if goes_on else session.stored_ask
    session.session = rebuilt(session.record, ask, alive=goes_on)
    if at_hand and alive:
        session.session = replace(session.session, process_open=True)
    if mark and lives(mark):
        session.keeper.adopt(mark, heard=alive and session.session.process_open)
    if waits_for_its_turn and session.session.process_open:
        session.wait_for_its_turn()


def _note_what_its_log_tells(session: SupervisedSession) -> None:
    record, root = session.record, session.root
    requested = root.has_made_a_request and record.saw_session_created
    session.record = replace(
        record,
        saw_api_req_started=record.saw_api_req_started or requested,
        completion_text=root.result or record.completion_text,
    )


class Preparations:
    def __init__(self, supervisor: "Supervisor") -> None:
        self._supervisor = supervisor
        self._wishes: dict[str, SessionOptions] = {}

    async def reserve(self, wish: SessionOptions, step: str = "") -> str:
        """The id of a session that will be started. Its workspace counts for nothing before it is
        launched. Raises `CommandRejected` or `StorageError`, and then there is none."""
        if not (wish.prompt.strip() or wish.images):
            raise CommandRejected("Give a task.")
        check(UserMessage(text=wish.prompt, images=wish.images))
        session_id = str(uuid.uuid4())
        session = self._supervisor.add(record_of(wish, session_id))
        session.is_preparing, session.step = True, step
        try:
            await session.act(StartEvent(text=wish.prompt, images=wish.images))
        except StorageError:
            self._supervisor.forget(session_id)
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
        session = self._supervisor.find(session_id)
        session.note(lines)
        session.keep()

    async def unwanted(self, session_id: str) -> None:
        """Waits until the session is neither being prepared nor wanted any more."""
        session = self._supervisor.find(session_id)
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
        self._supervisor.folder(session_id).keep_launch(launch_of(found, self._supervisor.project))
        session.record = replace(
            session.record,
            workspace=str(found.workspace.absolute()),
            parallel_mode=found.parallel_mode,
            worktree_id=found.worktree_id,
        )
        session.keep(now=True)
        del self._wishes[session_id]
        session.is_preparing, session.step = False, ""
        session.wait_for_its_turn()
        self._supervisor.changed(session_id)
        self._supervisor.moved()

    def fail(self, session_id: str, text: str) -> None:
        """It cannot be prepared, for this reason. Nothing happens if nobody wants it any more."""
        session = self._supervisor.find(session_id)
        self._wishes.pop(session_id, None)
        if session.is_preparing:
            session.is_preparing, session.step = False, ""
            session.take(ProcessError(generation=session.session.generation, text=text))

    def _wanted(self, session_id: str) -> SupervisedSession:
        session = self._supervisor.find(session_id)
        if not session.is_preparing:
            self._wishes.pop(session_id, None)
            raise CommandRejected("The session was cancelled before it started.")
        return session
