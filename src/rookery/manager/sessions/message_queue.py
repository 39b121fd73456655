"""Messages and answers of the user on their way to a session's process.

A message has a number, by which the engine knows it: however often it is sent, it is taken once.
One that was refused is not sent again unless the user wants that.

An approval dies with the process that asked for it. Its answer is held, in memory only, until the
very same question is asked again. If something else is asked, or the model is called first, the
answer is dropped and the user decides anew.
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
MOST = 4
"""In one letter."""
_BEGINNING = "manager-"
MOST_RETRIES = 3
SHOWN = 20
"""How many are remembered after they were sent."""
NOT_AS_SHOWN = "The question changed since you saw it. Nothing was sent; read it again."
_NO_QUESTIONS = (Signal.ACTIVITY, Signal.ASK_RESUME_TASK, Signal.ASK_RESUME_COMPLETED_TASK)
AnswerEvent = ApproveEvent | RejectEvent | SendEvent


class Terms(Struct, frozen=True, kw_only=True):
    """What an answer means beside yes, no or words. The `digest` of what was shown to whoever
    answers must be that of what is asked, unless it is None."""

    digest: str | None = None
    always: bool = False
    choice: Choice | None = None


class HeldAnswer(Struct, frozen=True):
    event: AnswerEvent
    terms: Terms
    question: Message

    def again(self, row: Message | None) -> tuple[AnswerEvent, Terms] | None:
        """The answer as it is given to the question that is asked now; None if it is another."""
        if row is None or not _is_same(self.question, row):
            return None
        return replace(self.event, ask_ts=row.ts), replace(self.terms, digest=row.digest)

    def answers(self, row: Message | None) -> bool:
        """Whether this is the very question that was answered. Its row may have another time when
        it is told again: while it was streamed, the row was there before the question."""
        return row is not None and row.ask_id == self.question.ask_id

    def ends_with(self, said: Event) -> TypeGuard[AgentAsked | ApiReqStarted]:
        """Whether the answer is given now or never. A process also tells what was before."""
        if not isinstance(said, AgentAsked | ApiReqStarted) or said.ts <= self.question.ts:
            return False
        return isinstance(said, ApiReqStarted) or ask_signal(said.ask) not in _NO_QUESTIONS


def images_of(letter: UserMessage) -> tuple[Image, ...]:
    return tuple(_image(uri) for uri in letter.images)


def check(letter: UserMessage) -> UserMessage:
    """The letter, if its pictures are some. Raises `CommandRejected` with what is wrong."""
    if len(letter.images) > MOST:
        raise CommandRejected(f"A message can have at most {MOST} images. Remove some.")
    images_of(letter)
    return letter


def _image(uri: str) -> Image:
    if not (found := _DATA_URI.fullmatch(uri)):
        raise CommandRejected("Give images as data URIs: data:image/...;base64,...")
    return Image(media_type=found[1].lower(), data=found[2])


def message_id_of(number: int) -> str:
    return f"{_BEGINNING}{number}"


def number_of(message_id: str) -> int | None:
    """None if the words came from elsewhere."""
    digits = message_id.removeprefix(_BEGINNING)
    ours = message_id.startswith(_BEGINNING) and digits.isascii() and digits.isdecimal()
    return int(digits) if ours and len(digits) < 10 else None


class MessageQueue:
    def __init__(self, taken: int, mail: Sequence[QueuedMessage]) -> None:
        self.taken = taken
        """The number of the next letter that leaves the outbox of the machine."""
        # what was under way when its manager died is sent again
        self.mail = tuple(_back_in_line(each) for each in mail)

    def copy(self) -> "MessageQueue":
        return MessageQueue(self.taken, self.mail)

    @property
    def unsent(self) -> tuple[QueuedMessage, ...]:
        return tuple(each for each in self.mail if each.state != "sent")

    def post(self, letters: Sequence[UserMessage]) -> None:
        new = [
            QueuedMessage(number=self.taken + place, letter=each)
            for place, each in enumerate(letters)
        ]
        self.taken += len(letters)
        sent = [each for each in self.mail if each.state == "sent"][-SHOWN:]
        self.mail = (*sent, *self.unsent, *new)

    def next(self) -> QueuedMessage | None:
        """The one to be sent now, which from now on is being sent."""
        for each in self.mail:
            if each.state in ("queued", "sending"):
                sending = replace(each, state="sending")
                self._put(sending)
                return sending
        return None

    def sent(self, number: int) -> None:
        self._put(replace(self._find(number), state="sent", problem=""))

    def refused(self, number: int, problem: str) -> None:
        self._put(replace(self._find(number), state="failed", problem=problem))

    def retry(self, number: int) -> None:
        """Raises `CommandRejected` if it cannot be sent again."""
        mail = self._failed(number)
        if mail.retries >= MOST_RETRIES:
            raise CommandRejected(f"It was refused {MOST_RETRIES + 1} times. Discard it.")
        self._put(replace(mail, state="queued", retries=mail.retries + 1, problem=""))

    def edit(self, number: int, letter: UserMessage | None) -> bool:
        """Other words in place of what was not sent yet, or none. Whether it was in time."""
        mail = next((each for each in self.mail if each.number == number), None)
        if mail is None or mail.state not in ("queued", "failed"):
            return False
        if letter:
            self._put(replace(mail, letter=letter))
        else:
            self.mail = tuple(each for each in self.mail if each is not mail)
        return True

    def discard(self, number: int) -> None:
        gone = self._failed(number)
        self.mail = tuple(each for each in self.mail if each is not gone)

    def _failed(self, number: int) -> QueuedMessage:
        mail = self._find(number)
        if mail.state != "failed":
            raise CommandRejected("That message has not failed.")
        return mail

    def _find(self, number: int) -> QueuedMessage:
        for each in self.mail:
            if each.number == number:
                return each
        raise CommandRejected("No such message.")

    def _put(self, mail: QueuedMessage) -> None:
        self.mail = tuple(mail if each.number == mail.number else each for each in self.mail)


def _back_in_line(mail: QueuedMessage) -> QueuedMessage:
    return replace(mail, state="queued") if mail.state == "sending" else mail


def held_answer(event: Event, terms: Terms, question: Message | None) -> HeldAnswer:
    """Raises `CommandRejected` if what was shown is not what was asked."""
    if question is None or terms.digest not in (None, question.digest):
        raise CommandRejected(NOT_AS_SHOWN)
    assert isinstance(event, AnswerEvent)
    return HeldAnswer(event, terms, question)


def _is_same(before: Message, now: Message) -> bool:
    """With a digest that alone counts: it names all that a yes would allow."""
    if before.ask != now.ask or before.digest != now.digest:
        return False
    return bool(before.digest) or before.text == now.text
