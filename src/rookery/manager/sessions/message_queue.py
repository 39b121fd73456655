"""Messages and answers of the user on their way to a session's process.

A message has a number by which the engine recognises it, so a message that is sent twice counts
once. A refused message is sent again only if the user asks for that.

An approval is void when the process that asked for it ends. Its answer is held, in memory only,
until the identical question is asked again. If another question or a request comes first, the
answer is dropped and the user decides again.
"""

import re
from collections.abc import Sequence
from typing import TypeGuard

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.asks import Choice
from rookery.core.blocks import Image
from rookery.core.message import Message
from rookery.errors import CommandRejected
from rookery.manager.sessions.session_events import (
    AgentAsked,
    ApiReqStarted,
    ApproveEvent,
    RejectEvent,
    SendEvent,
    SessionEvent,
    UserMessage,
)
from rookery.manager.sessions.session_record import QueuedMessage, SessionRecord
from rookery.manager.sessions.session_states import Signal, ask_signal

_DATA_URI = re.compile(r"data:(image/[a-z0-9.+-]+);base64,([A-Za-z0-9+/]+={0,2})", re.IGNORECASE)
MAX_IMAGES = 4
"""Images in one message."""
_PREFIX = "manager-"
MAX_RETRIES = 3
NOT_AS_SHOWN = "The question changed since you saw it. Nothing was sent; read it again."
_NO_QUESTIONS = (Signal.ACTIVITY, Signal.ASK_RESUME_TASK, Signal.ASK_RESUME_COMPLETED_TASK)
AnswerEvent = ApproveEvent | RejectEvent | SendEvent


class Terms(Struct, frozen=True, kw_only=True):
    """Options of an answer. `digest` must match that of the question, unless it is None."""

    digest: str | None = None
    always: bool = False
    choice: Choice | None = None


class HeldAnswer(Struct, frozen=True):
    event: AnswerEvent
    terms: Terms
    question: Message

    def for_question(self, row: Message | None) -> tuple[AnswerEvent, Terms] | None:
        """The answer for the question asked now; None if that is a different one."""
        if row is None or not _is_same(self.question, row):
            return None
        return replace(self.event, ask_ts=row.ts), replace(self.terms, digest=row.digest)

    def answers(self, row: Message | None) -> bool:
        """Whether the row is the question that was answered. Its `ts` may differ when it is
        repeated, because a streamed row exists before its question."""
        return row is not None and row.ask_id == self.question.ask_id

    def is_settled_by(self, event: SessionEvent) -> TypeGuard[AgentAsked | ApiReqStarted]:
        """Whether to give or drop the answer now. Repeated history does not count."""
        if not isinstance(event, AgentAsked | ApiReqStarted) or event.ts <= self.question.ts:
            return False
        return isinstance(event, ApiReqStarted) or ask_signal(event.ask) not in _NO_QUESTIONS


def images_of(message: UserMessage) -> tuple[Image, ...]:
    return tuple(_image(uri) for uri in message.images)


def check(message: UserMessage) -> UserMessage:
    """Return the message if its images are valid; raises `CommandRejected` if not."""
    if len(message.images) > MAX_IMAGES:
        raise CommandRejected(f"A message can have at most {MAX_IMAGES} images. Remove some.")
    images_of(message)
    return message


def _image(uri: str) -> Image:
    if not (found := _DATA_URI.fullmatch(uri)):
        raise CommandRejected("Give images as data URIs: data:image/...;base64,...")
    return Image(media_type=found[1].lower(), data=found[2])


def message_id_of(number: int) -> str:
    return f"{_PREFIX}{number}"


def number_of(message_id: str) -> int | None:
    """The number in one of our message ids; None for an id of another client."""
    digits = message_id.removeprefix(_PREFIX)
    ours = message_id.startswith(_PREFIX) and digits.isascii() and digits.isdecimal()
    return int(digits) if ours and len(digits) < 10 else None


def requeued(record: SessionRecord) -> SessionRecord:
    """Queue the message again that was being sent when the manager died."""
    undelivered = (
        replace(each, state="queued") if each.state == "sending" else each
        for each in record.undelivered
    )
    return replace(record, undelivered=tuple(undelivered))


def queued(record: SessionRecord, messages: Sequence[UserMessage]) -> SessionRecord:
    """Queue messages that leave the machine's outbox."""
    new = [
        QueuedMessage(number=number, message=each)
        for number, each in enumerate(messages, record.taken)
    ]
    return replace(record, taken=record.taken + len(new), undelivered=(*record.undelivered, *new))


def next_message(record: SessionRecord) -> QueuedMessage | None:
    return next((each for each in record.undelivered if each.state != "failed"), None)


def with_message(record: SessionRecord, message: QueuedMessage) -> SessionRecord:
    """Replace the message of the same number."""
    undelivered = (
        message if each.number == message.number else each for each in record.undelivered
    )
    return replace(record, undelivered=tuple(undelivered))


def without_message(record: SessionRecord, number: int) -> SessionRecord:
    return replace(
        record, undelivered=tuple(each for each in record.undelivered if each.number != number)
    )


def retried(record: SessionRecord, number: int) -> SessionRecord:
    """Raises `CommandRejected` if the message has not failed, or failed too often."""
    message = _failed(record, number)
    if message.retries >= MAX_RETRIES:
        raise CommandRejected(f"It was refused {MAX_RETRIES + 1} times. Discard it.")
    again = replace(message, state="queued", retries=message.retries + 1, problem="")
    return with_message(record, again)


def discarded(record: SessionRecord, number: int) -> SessionRecord:
    """Raises `CommandRejected` if the message has not failed."""
    return without_message(record, _failed(record, number).number)


def edited(record: SessionRecord, number: int, message: UserMessage | None) -> SessionRecord | None:
    """Replace or (None) delete a message that no process has yet; None if it is too late. Messages
    that a process is being started with cannot be changed."""
    for each in record.undelivered:
        if each.number == number and each.state != "sending":
            changed = replace(each, message=message) if message else None
            return with_message(record, changed) if changed else without_message(record, number)
    outbox, place = record.outbox, number - record.taken
    if not record.handed <= place < len(outbox):
        return None
    new = (message,) if message else ()
    return replace(record, outbox=(*outbox[:place], *new, *outbox[place + 1 :]))


def all_messages(record: SessionRecord) -> tuple[QueuedMessage, ...]:
    """Messages that no process has yet, without the prompt."""
    waiting = queued(replace(record, undelivered=()), record.outbox).undelivered
    return (*record.undelivered, *(waiting if record.announced else waiting[1:]))


def _failed(record: SessionRecord, number: int) -> QueuedMessage:
    for each in record.undelivered:
        if each.number == number:
            if each.state != "failed":
                raise CommandRejected("That message has not failed.")
            return each
    raise CommandRejected("No such message.")


def held_answer(event: SessionEvent, terms: Terms, question: Message | None) -> HeldAnswer:
    """Raises `CommandRejected` if the question changed since it was shown."""
    if question is None or terms.digest not in (None, question.digest):
        raise CommandRejected(NOT_AS_SHOWN)
    assert isinstance(event, AnswerEvent)
    return HeldAnswer(event, terms, question)


def _is_same(before: Message, now: Message) -> bool:
    """A digest covers all that an approval would allow; without one, texts are compared."""
    if before.ask != now.ask or before.digest != now.digest:
        return False
    return bool(before.digest) or before.text == now.text
