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
    Event,
    RejectEvent,
    SendEvent,
    UserMessage,
)
from rookery.manager.sessions.session_record import QueuedMessage
from rookery.manager.sessions.session_states import Signal, ask_signal

_DATA_URI = re.compile(r"data:(image/[a-z0-9.+-]+);base64,([A-Za-z0-9+/]+={0,2})", re.IGNORECASE)
MAX_IMAGES = 4
"""Images in one message."""
_PREFIX = "manager-"
MAX_RETRIES = 3
SENT_KEPT = 20
"""Sent messages that are kept for display."""
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

    def is_settled_by(self, event: Event) -> TypeGuard[AgentAsked | ApiReqStarted]:
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


class MessageQueue:
    def __init__(self, next_number: int, messages: Sequence[QueuedMessage]) -> None:
        self.next_number = next_number
        """Number of the next message that leaves the machine's outbox."""
        # a message that was being sent when the manager died is sent again
        self.messages = tuple(_requeue(each) for each in messages)

    def copy(self) -> "MessageQueue":
        return MessageQueue(self.next_number, self.messages)

    @property
    def unsent(self) -> tuple[QueuedMessage, ...]:
        return tuple(each for each in self.messages if each.state != "sent")

    def add(self, messages: Sequence[UserMessage]) -> None:
        new = [
            QueuedMessage(number=self.next_number + place, letter=each)
            for place, each in enumerate(messages)
        ]
        self.next_number += len(messages)
        sent = [each for each in self.messages if each.state == "sent"][-SENT_KEPT:]
        self.messages = (*sent, *self.unsent, *new)

    def next(self) -> QueuedMessage | None:
        """Return the next message to send and mark it as being sent."""
        for each in self.messages:
            if each.state in ("queued", "sending"):
                sending = replace(each, state="sending")
                self._replace(sending)
                return sending
        return None

    def sent(self, number: int) -> None:
        self._replace(replace(self._find(number), state="sent", problem=""))

    def refused(self, number: int, problem: str) -> None:
        self._replace(replace(self._find(number), state="failed", problem=problem))

    def retry(self, number: int) -> None:
        """Raises `CommandRejected` if the message has not failed, or failed too often."""
        queued = self._failed(number)
        if queued.retries >= MAX_RETRIES:
            raise CommandRejected(f"It was refused {MAX_RETRIES + 1} times. Discard it.")
        self._replace(replace(queued, state="queued", retries=queued.retries + 1, problem=""))

    def edit(self, number: int, message: UserMessage | None) -> bool:
        """Replace or (None) delete an unsent message; return whether it was in time."""
        queued = next((each for each in self.messages if each.number == number), None)
        if queued is None or queued.state not in ("queued", "failed"):
            return False
        if message:
            self._replace(replace(queued, letter=message))
        else:
            self.messages = tuple(each for each in self.messages if each is not queued)
        return True

    def discard(self, number: int) -> None:
        gone = self._failed(number)
        self.messages = tuple(each for each in self.messages if each is not gone)

    def _failed(self, number: int) -> QueuedMessage:
        queued = self._find(number)
        if queued.state != "failed":
            raise CommandRejected("That message has not failed.")
        return queued

    def _find(self, number: int) -> QueuedMessage:
        for each in self.messages:
            if each.number == number:
                return each
        raise CommandRejected("No such message.")

    def _replace(self, queued: QueuedMessage) -> None:
        self.messages = tuple(
            queued if each.number == queued.number else each for each in self.messages
        )


def _requeue(queued: QueuedMessage) -> QueuedMessage:
    return replace(queued, state="queued") if queued.state == "sending" else queued


def held_answer(event: Event, terms: Terms, question: Message | None) -> HeldAnswer:
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
