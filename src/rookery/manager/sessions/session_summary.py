"""Sessions as a page or a command shows them, changes to them, and the feed of changed sessions.

A switch is sent to the process first, because only the process can reject it; then it is saved. The
feed coalesces changes for slow followers.
"""

from collections.abc import AsyncGenerator, Iterable, Iterator

import anyio
from msgspec import Struct
from msgspec.structs import asdict, replace

from rookery.core.asks import is_interactive_ask
from rookery.core.commands import Command, SelectIntent, SwitchApproval, SwitchMode, SwitchModel
from rookery.core.folds.view import View
from rookery.core.message import Message
from rookery.manager.sessions.message_queue import all_messages
from rookery.manager.sessions.session_folders import SessionFolder
from rookery.manager.sessions.session_record import ChangeCount, QueuedMessage, SessionRecord, flags
from rookery.manager.sessions.session_states import WAITING, Flags, SessionState
from rookery.manager.sessions.supervised_session import SupervisedSession
from rookery.manager.shown_rows import PullRequestRow


class Switches(Struct, frozen=True, kw_only=True):
    """Settings to change; None keeps one. `model` may lack a `provider`: the default one."""

    mode: str | None = None
    provider: str | None = None
    model: str | None = None
    intent: str | None = None
    auto_approve: bool | None = None


async def switch(session: SupervisedSession, folder: SessionFolder, wanted: Switches) -> None:
    """Apply switches to the running process and to those started later. The process gets them
    first, because it can reject them. If none runs, start one, unless only the approval changes:
    the next process gets that from its flags."""
    commands = tuple(_commands(session.id, wanted))
    is_alive = session.record.process_open
    if session.is_stored() and (
        is_alive or any(not isinstance(each, SwitchApproval) for each in commands)
    ):
        host = await session.host(reopen=True)
        for command in commands:
            await host.send(command)
    if launch := folder.launch():
        changed = {name: value for name, value in asdict(wanted).items() if value is not None}
        folder.keep_launch(replace(launch, **changed))
    if wanted.auto_approve is not None:
        session.record = replace(session.record, auto_approve=wanted.auto_approve)
    if not session.root.view.seq:
        session.record = replace(
            session.record,
            mode=wanted.mode or session.record.mode,
            model=wanted.model or session.record.model,
        )
    session.save(now=True)


def _commands(task_id: str, wanted: Switches) -> Iterator[Command]:
    if wanted.mode is not None:
        yield SwitchMode(task_id=task_id, mode=wanted.mode)
    if wanted.model is not None:
        yield SwitchModel(task_id=task_id, provider=wanted.provider or "", model=wanted.model)
    if wanted.intent is not None:
        yield SelectIntent(task_id=task_id, intent_id=wanted.intent)
    if wanted.auto_approve is not None:
        yield SwitchApproval(task_id=task_id, automatic=wanted.auto_approve)


_URGENCY = {**dict.fromkeys(WAITING, 0), SessionState.ERROR: 1}


class SessionSummary(Struct, frozen=True, kw_only=True):
    """The current state of a session, for display."""

    record: SessionRecord
    view: View
    queued: bool = False
    """It waits for room to start its process."""
    unresponsive: bool = False
    step: str = ""
    """The current step of its preparation, if any."""
    tools_finished: int = 0
    changes: ChangeCount = ChangeCount()
    pull_request: PullRequestRow | None = None

    @property
    def flags(self) -> Flags:
        return flags(self.record)

    @property
    def undelivered(self) -> tuple[QueuedMessage, ...]:
        return all_messages(self.record)


class SessionQuestion(Struct, frozen=True, kw_only=True):
    """Why a session needs attention: an open question of its own or of a sub-task, its failure
    or its result. `row` has no ask unless something is asked."""

    session_id: str
    task_id: str
    row: Message
    name: str = ""
    """The session's name."""
    state: SessionState = SessionState.WAITING_APPROVAL


def sort_questions(questions: Iterable[SessionQuestion]) -> list[SessionQuestion]:
    """Sort questions first, then failures, then results, each by age."""
    return sorted(
        questions, key=lambda each: (_URGENCY.get(each.state, 2), each.row.ts, each.session_id)
    )


def question_of(session: SupervisedSession) -> SessionQuestion | None:
    """Why the session needs attention, or None."""
    return question_in(summary_of(session), session.question)


def question_in(
    summary: SessionSummary, asked: tuple[str, Message] | None = None
) -> SessionQuestion | None:
    """Like `question_of`; `asked` is the task and row that ask."""
    if not summary.flags.needs_attention:
        return None
    record, state = summary.record, summary.record.state
    if asked and state is SessionState.ERROR and is_interactive_ask(asked[1].ask):
        asked = None  # the process that asked was killed; a retry asks again
    task_id, row = asked or (record.session_id, _status_row(record))
    if state is SessionState.COMPLETED and not row.text:
        row = replace(row, content=record.completion_text)
    return SessionQuestion(
        session_id=record.session_id, task_id=task_id, row=row, name=record.name, state=state
    )


def _status_row(record: SessionRecord) -> Message:
    """A row for a session for which no asking row is known."""
    if (pending := record.pending_ask) and record.state in WAITING:
        return Message(ts=pending.ts, type="ask", ask=pending.ask, content=pending.text)
    why = record.failure.text if record.failure else ""
    return Message(ts=record.end_time or record.start_time, type="ask", content=why)


def summary_of(session: SupervisedSession, *, elsewhere: bool = False) -> SessionSummary:
    """Summarise a session; one that another process works on (`elsewhere`) is shown as working."""
    record = session.record
    if elsewhere:
        record = replace(record, state=SessionState.STREAMING)
    return SessionSummary(
        record=record,
        view=session.root.view,
        queued=session.is_queued,
        unresponsive=session.unresponsive,
        step=session.step,
        tools_finished=session.tools_finished,
        changes=session.changes,
        pull_request=session.pull_request,
    )


def summary_of_record(record: SessionRecord) -> SessionSummary:
    """Summarise a session from the record that another manager saved."""
    return SessionSummary(record=replace(record, process_open=False), view=View())


class ChangeFeed:
    def __init__(self) -> None:
        self._followers: list[_Follower] = []

    def note(self, session_id: str) -> None:
        for follower in self._followers:
            follower.note(session_id)

    async def follow(self, ids: Iterable[str]) -> AsyncGenerator[frozenset[str], None]:
        """Yield all ids first, then sets of ids that changed since the last one."""
        follower = _Follower()
        self._followers.append(follower)
        try:
            yield frozenset(ids)
            while True:
                yield await follower.take()
        finally:
            self._followers.remove(follower)


class _Follower:
    def __init__(self) -> None:
        self._changed: set[str] = set()
        self._news = anyio.Event()

    def note(self, session_id: str) -> None:
        self._changed.add(session_id)
        self._news.set()

    async def take(self) -> frozenset[str]:
        await self._news.wait()
        self._news = anyio.Event()
        changed, self._changed = frozenset(self._changed), set()
        return changed
