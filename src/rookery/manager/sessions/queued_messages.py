"""What the user said and no process is known to have: shown, changed and taken back."""

from msgspec.structs import replace

from rookery.manager.sessions.message_ids import number_of
from rookery.manager.sessions.orders import Letter
from rookery.manager.sessions.session_json import Mail
from rookery.manager.sessions.supervised_session import SupervisedSession


def letters_in_line(session: SupervisedSession) -> tuple[Mail, ...]:
    """Those that wait for a process, beside the prompt."""
    first = session.mailbox.taken
    letters = tuple(
        Mail(number=first + place, letter=letter)
        for place, letter in enumerate(session.session.outbox)
    )
    return letters if session.announced else letters[1:]


def edit_unsent(session: SupervisedSession, message_id: str, text: str | None) -> bool:
    """Other words in place of some that no process has, or none. Whether it was in time."""
    number = number_of(message_id)
    letter = Letter(text=text) if text else None
    if number is None or not (
        session.mailbox.edit(number, letter) or _edit_in_line(session, number, letter)
    ):
        return False
    session.keep(now=True)
    return True


def _edit_in_line(session: SupervisedSession, number: int, letter: Letter | None) -> bool:
    """What a process is being started with cannot be changed any more."""
    outbox, place = session.session.outbox, number - session.mailbox.taken
    if not session.session.handed <= place < len(outbox):
        return False
    changed = (*outbox[:place], *([letter] if letter else []), *outbox[place + 1 :])
    session.session = replace(session.session, outbox=changed)
    return True
