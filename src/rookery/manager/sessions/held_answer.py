"""An answer to a question whose process is gone, for the next process that asks the same.

An approval dies with the process that asked for it. So the answer is held, in memory only, until
the very same question is asked again. If something else is asked, or the model is called first,
the answer is dropped and the user decides anew.
"""

from typing import TypeGuard

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.message import Message
from rookery.errors import CommandRejected
from rookery.manager.sessions.conversation import NOT_AS_SHOWN, Terms
from rookery.manager.sessions.session_events import (
    AgentAsked,
    ApiReqStarted,
    ApproveAction,
    Event,
    RejectAction,
    SendMessage,
)
from rookery.manager.sessions.transitions import Signal, ask_signal

_NO_QUESTIONS = (Signal.ACTIVITY, Signal.ASK_RESUME_TASK, Signal.ASK_RESUME_COMPLETED_TASK)
AnswerEvent = ApproveAction | RejectAction | SendMessage


class HeldAnswer(Struct, frozen=True):
    event: AnswerEvent
    terms: Terms
    question: Message

    def again(self, row: Message | None) -> tuple[AnswerEvent, Terms] | None:
        """The answer as it is given to the question that is asked now; None if it is another."""
        if row is None or not _is_same(self.question, row):
            return None
        return replace(self.event, ask_ts=row.ts), replace(self.terms, digest=row.digest)

    def ends_with(self, said: Event) -> TypeGuard[AgentAsked | ApiReqStarted]:
        """Whether the answer is given now or never. A process also tells what was before."""
        if not isinstance(said, AgentAsked | ApiReqStarted) or said.ts <= self.question.ts:
            return False
        return isinstance(said, ApiReqStarted) or ask_signal(said.ask) not in _NO_QUESTIONS


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
