"""Changes to a session: its mode, model, intent and approval, and its unsent messages.

A process is told first, because it knows what exists; only then is the change kept for later ones.
"""

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.commands import Command, SelectIntent, SwitchApproval, SwitchMode, SwitchModel
from rookery.manager.sessions.message_queue import number_of
from rookery.manager.sessions.session_events import UserMessage
from rookery.manager.sessions.session_folders import Launch, SessionFolder
from rookery.manager.sessions.session_record import QueuedMessage
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


def _switched(launch: Launch, wanted: Switches) -> Launch:
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
