"""Sessions as a page or a command shows them, changes to them, and the feed of those that changed.

A process is told of a change first, because it knows what exists; only then is it kept.

The feed coalesces changes for slow followers.
"""

from collections.abc import AsyncIterator, Iterable, Iterator

import anyio
from msgspec import Struct
from msgspec.structs import replace

from rookery.core.commands import Command, SelectIntent, SwitchApproval, SwitchMode, SwitchModel
from rookery.core.folds.view import View
from rookery.core.message import Message
from rookery.manager.sessions.message_queue import number_of
from rookery.manager.sessions.session_events import Session, UserMessage
from rookery.manager.sessions.session_folders import SessionFolder, SessionLaunch
from rookery.manager.sessions.session_record import QueuedMessage, SessionRecord, flags, same_fields
from rookery.manager.sessions.session_states import Flags, SessionState
from rookery.manager.sessions.supervised_session import SupervisedSession


class Switches(Struct, frozen=True, kw_only=True):
    """What is None stays. The model of the usual provider is one without a `provider`."""

    mode: str | None = None
    provider: str | None = None
    model: str | None = None
    intent: str | None = None
    auto_approve: bool | None = None


async def switch(session: SupervisedSession, folder: SessionFolder, wanted: Switches) -> None:
    """The process is told first, because it knows what there is; then later ones are started so.
    One that rests is told by a process that is started for it, unless later ones need only be
    started otherwise."""
    commands = tuple(_commands(session.id, wanted))
    lives = session.session.process_open
    if session.is_stored() and (lives or any(not _is_a_flag(each) for each in commands)):
        host = await session.host(reopen=True)
        for command in commands:
            await host.send(command)
    if launch := folder.launch():
        folder.keep_launch(_switched(launch, wanted))
    if wanted.auto_approve is not None:
        session.record = replace(session.record, auto_approve=wanted.auto_approve)
    if not session.root.view.seq:
        session.record = replace(
            session.record,
            mode=wanted.mode or session.record.mode,
            model=wanted.model or session.record.model,
        )
    session.keep(now=True)


def _commands(task_id: str, wanted: Switches) -> Iterator[Command]:
    if wanted.mode is not None:
        yield SwitchMode(task_id=task_id, mode=wanted.mode)
    if wanted.model is not None:
        yield SwitchModel(task_id=task_id, provider=wanted.provider or "", model=wanted.model)
    if wanted.intent is not None:
        yield SelectIntent(task_id=task_id, intent_id=wanted.intent)
    if wanted.auto_approve is not None:
        yield SwitchApproval(task_id=task_id, automatic=wanted.auto_approve)


def _is_a_flag(command: Command) -> bool:
    """Whether a process that is started later does so without being told."""
    return isinstance(command, SwitchApproval)


def _switched(launch: SessionLaunch, wanted: Switches) -> SessionLaunch:
    if wanted.model is not None:
        provider = wanted.provider or launch.provider
        launch = replace(launch, model=wanted.model, provider=provider)
    if wanted.mode is not None:
        launch = replace(launch, mode=wanted.mode)
    if wanted.intent is not None:
        launch = replace(launch, intent=wanted.intent)
    if wanted.auto_approve is not None:
        launch = replace(launch, auto_approve=wanted.auto_approve)
    return launch


def letters_in_line(session: SupervisedSession) -> tuple[QueuedMessage, ...]:
    """Those that wait for a process, beside the prompt."""
    first = session.mailbox.taken
    letters = tuple(
        QueuedMessage(number=first + place, letter=letter)
        for place, letter in enumerate(session.session.outbox)
    )
    return letters if session.announced else letters[1:]


def edit_unsent(session: SupervisedSession, message_id: str, text: str | None) -> bool:
    """Other words in place of some that no process has, or none. Whether it was in time."""
    number = number_of(message_id)
    letter = UserMessage(text=text) if text else None
    if number is None or not (
        session.mailbox.edit(number, letter) or _edit_in_line(session, number, letter)
    ):
        return False
    session.keep(now=True)
    return True


def _edit_in_line(session: SupervisedSession, number: int, letter: UserMessage | None) -> bool:
    """What a process is being started with cannot be changed any more."""
    outbox, place = session.session.outbox, number - session.mailbox.taken
    if not session.session.handed <= place < len(outbox):
        return False
    changed = (*outbox[:place], *([letter] if letter else []), *outbox[place + 1 :])
    session.session = replace(session.session, outbox=changed)
    return True


_WAITING = (SessionState.WAITING_APPROVAL, SessionState.WAITING_INPUT)
_URGENCY = {**dict.fromkeys(_WAITING, 0), SessionState.ERROR: 1}


class ShownSession(Struct, frozen=True, kw_only=True):
    """A session as it stands, to be drawn."""

    record: SessionRecord
    session: Session
    flags: Flags
    view: View
    queued: bool = False
    """Its process waits for its turn."""
    unresponsive: bool = False
    step: str = ""
    """What is being prepared for it, while it is."""
    mail: tuple[QueuedMessage, ...] = ()


class SessionQuestion(Struct, frozen=True, kw_only=True):
    """What a session wants to be attended to for: what it asks, or a task that works for it; why
    it failed; what it came to. If nothing is asked, `row` has no ask."""

    session_id: str
    task_id: str
    row: Message
    name: str = ""
    """Of the session."""
    state: SessionState = SessionState.WAITING_APPROVAL


def in_order(questions: Iterable[SessionQuestion]) -> list[SessionQuestion]:
    """What is asked, then failures, then results; of each whoever has waited longest first."""
    return sorted(
        questions, key=lambda each: (_URGENCY.get(each.state, 2), each.row.ts, each.session_id)
    )


def question_of(session: SupervisedSession) -> SessionQuestion | None:
    """What it wants to be attended to for, if it does."""
    return question_in(shown(session), session.question)


def question_in(
    shown: ShownSession, asked: tuple[str, Message] | None = None
) -> SessionQuestion | None:
    """The same, of a session in which a task has `asked` that."""
    if not shown.flags.needs_attention:
        return None
    record, state = shown.record, shown.session.state
    task_id, row = asked or (record.session_id, _told(shown))
    if state is SessionState.COMPLETED and not row.text:
        row = replace(row, content=shown.session.completion_text or record.completion_text)
    return SessionQuestion(
        session_id=record.session_id, task_id=task_id, row=row, name=record.name, state=state
    )


def _told(shown: ShownSession) -> Message:
    """How a session stands of whose rows none is known to ask."""
    record, session = shown.record, shown.session
    if (pending := session.pending_ask) and session.state in _WAITING:
        return Message(ts=pending.ts, type="ask", ask=pending.ask, content=pending.text)
    why = session.failure.text if session.failure else ""
    return Message(ts=record.end_time or record.start_time, type="ask", content=why)


def shown(session: SupervisedSession) -> ShownSession:
    return ShownSession(
        record=session.record,
        session=session.session,
        flags=flags(session.session, session.record),
        view=session.root.view,
        queued=session.is_queued,
        unresponsive=session.unresponsive,
        step=session.step,
        mail=(*session.mailbox.mail, *letters_in_line(session)),
    )


def as_recorded(record: SessionRecord) -> ShownSession:
    """For whoever may only look: what the one who writes has saved last."""
    session = replace(Session(**same_fields(record, Session)), process_open=False)
    return ShownSession(record=record, session=session, flags=flags(session, record), view=View())


class ChangeFeed:
    def __init__(self) -> None:
        self._followers: list[_Follower] = []

    def note(self, session_id: str) -> None:
        for follower in self._followers:
            follower.note(session_id)

    async def follow(self, there: Iterable[str]) -> AsyncIterator[frozenset[str]]:
        """First all that are there, then those that changed since the last look."""
        follower = _Follower()
        self._followers.append(follower)
        try:
            yield frozenset(there)
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
