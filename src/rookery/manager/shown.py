"""What a page or a command draws of sessions."""

from rookery.core.message import Message
from rookery.core.sessions.record import SessionRecord, flags
from rookery.core.sessions.session import Session
from rookery.core.sessions.states import Flags, SessionState, needs_attention
from rookery.core.values import value
from rookery.core.view import View
from rookery.manager.session_json import KeptSession, Mail
from rookery.manager.supervised_session import SupervisedSession


@value
class Shown:
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
    mail: tuple[Mail, ...] = ()


@value
class Question:
    """What a session waits for, asked by its task or by one that works for it."""

    session_id: str
    task_id: str
    row: Message
    name: str = ""
    """Of the session."""
    state: SessionState = SessionState.WAITING_APPROVAL


def question_of(session: SupervisedSession) -> Question | None:
    """What it wants to be attended to for, if it does."""
    wanted = needs_attention(session.session.state, unread=session.record.unread)
    if not wanted or not (asked := session.question):
        return None
    task_id, row = asked
    return Question(
        session_id=session.id,
        task_id=task_id,
        row=row,
        name=session.record.name,
        state=session.session.state,
    )


def shown(session: SupervisedSession) -> Shown:
    return Shown(
        record=session.record,
        session=session.session,
        flags=flags(session.session, session.record),
        view=session.root.view,
        queued=session.is_queued,
        unresponsive=session.unresponsive,
        step=session.step,
        mail=(*session.mailbox.mail, *session.letters_in_line()),
    )


def as_recorded(kept: KeptSession) -> Shown:
    """For whoever may only look: what the one who writes has saved last."""
    session = Session(session_id=kept.record.session_id, state=kept.record.state)
    return Shown(
        record=kept.record, session=session, flags=flags(session, kept.record), view=View()
    )
