"""What the user says: answers to exactly the question that was asked, and messages, heard by hooks
first.

Every message is checked by the hooks once: what opened the task, what was queued or edited, and
answers. One that is refused counts as not said; what to do then is asked anew.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import anyio
from msgspec.structs import replace

from rookery.core.asks import ASKED_AGAIN, CATEGORY, AskCategory, AskKind, IntentQuestion, takes
from rookery.core.commands import Answer
from rookery.core.facts import (
    Answered,
    Asked,
    Event,
    Fact,
    Noted,
    OfferWithdrawn,
    PromptRefused,
    QueueEdited,
    RequestStarted,
    TaskOpened,
    UserSpoke,
)
from rookery.core.text.output_preview import Hiding
from rookery.engine.event_log import EventLog
from rookery.engine.ports.hooks import UserHooks
from rookery.errors import CommandRejected


class Prompts:
    def __init__(self, log: EventLog, hooks: UserHooks, new_id: Callable[[], str]) -> None:
        self._log = log
        self._new_id = new_id
        self._hooks = hooks
        facts = (event.fact for event in log.events)
        self._checked = {fact.of for fact in facts if isinstance(fact, PromptRefused)}
        self._seen = _last_request(log)
        """How many events need not be looked at again."""

    @property
    def waiting(self) -> list[Event]:
        """Messages that nobody has checked yet."""
        if not self._hooks.hears_prompts:
            return []
        found = [event for event in self._log.events[self._seen :] if self._is_new(event)]
        if not found:
            self._seen = len(self._log.events)
        return found

    async def check_all(self) -> None:
        for event in self.waiting:
            await self.check(event)

    async def check(self, event: Event) -> bool:
        """Whether the model may hear the words of an event, if it has any."""
        if not self._hooks.hears_prompts or not self._is_new(event):
            return True
        text = _words(event.fact)
        reason = await self._hooks.prompted(text)
        self._checked.add(event.seq)
        if not reason:
            return True
        if isinstance(event.fact, UserSpoke | QueueEdited):
            self._log.append(QueueEdited(message_id=event.fact.message_id, text=None))
        self._log.append(PromptRefused(of=event.seq, text=text, reason=reason))
        self._log.append(Noted(text=f"A hook refused your message, so it was not sent: {reason}"))
        return False

    def queue_words(self, event: Event) -> bool:
        """Queue the words of an answer that nothing waits for, so that they are checked first."""
        fact = event.fact
        if not isinstance(fact, Answered) or not fact.text.strip():
            return False
        if not self._hooks.hears_prompts:
            return False
        self._checked.add(event.seq)
        self._log.append(UserSpoke(message_id=self._new_id(), text=fact.text, images=fact.images))
        return True

    def _is_new(self, event: Event) -> bool:
        return event.seq not in self._checked and _says_something(event.fact)


def _last_request(log: EventLog) -> int:
    """What was said before it has been heard, and was checked in its time."""
    events = log.events
    places = range(len(events), 0, -1)
    return next((at for at in places if isinstance(events[at - 1].fact, RequestStarted)), 0)


def _says_something(fact: Fact) -> bool:
    match fact:
        case TaskOpened(parent=parent):
            return not parent
        case UserSpoke():
            return True
        case QueueEdited(text=text):
            return text is not None
        case Answered(by="user", text=text):
            return bool(text.strip())
        case _:
            return False


def _words(fact: Fact) -> str:
    match fact:
        case TaskOpened(text=text) | UserSpoke(text=text) | Answered(text=text):
            return text
        case QueueEdited(text=str() as text):
            return text
        case _:
            return ""


class _Open(NamedTuple):
    question: Asked
    hear: Callable[[Answered, Event], None]


class Dialogue:
    """At most one question that stops the task is open; beside it there may be offers, which
    stop nothing. Each is answered once, by its id and by the digest of what a yes would allow;
    any other answer is refused and changes nothing.
    """

    def __init__(
        self,
        log: EventLog,
        new_id: Callable[[], str],
        hide: Hiding | None = None,
        *,
        pause: Callable[[], AbstractContextManager[None]] = nullcontext,
        prompts: Prompts | None = None,
    ) -> None:
        """`hide` takes secrets out of what is asked; `pause` is entered while an answer is waited
        for. `prompts` says whether the model may hear words; if not, the question is asked
        again."""
        self._prompts = prompts
        self._log = log
        self._pause = pause
        self._new_id = new_id
        self._hide = hide or Hiding()
        self._open: dict[str, _Open] = {}
        self._withdrawn: set[str] = set()

    @property
    def governed(self) -> bool:
        return self._log.state.governed is not None

    @property
    def waiting(self) -> bool:
        """Whether a question is open that stops the task."""
        return any(
            CATEGORY[question.ask] is not AskCategory.NON_BLOCKING
            for question, _ in self._open.values()
        )

    @property
    def only_awaits_words(self) -> bool:
        """Whether all that is asked is what to do next, which is asked again whenever the task is
        opened."""
        return bool(self._open) and all(q.ask in ASKED_AGAIN for q, _ in self._open.values())

    async def ask(
        self,
        ask: AskKind,
        text: str = "",
        *,
        title: str = "",
        diff: str = "",
        cwd: str = "",
        call_id: str = "",
        digest: str = "",
        where: str = "",
        notes: tuple[str, ...] = (),
        rule: str = "",
        governance: IntentQuestion | None = None,
    ) -> Answered:
        """Put a question in the log and wait until a client answers it."""
        question = Asked(
            ask_id=self._new_id(),
            ask=ask,
            text=self._hide(text),
            title=self._hide(title),
            diff=self._hide(diff),
            cwd=cwd,
            call_id=call_id,
            digest=digest,
            where=where,
            notes=tuple(map(self._hide, notes)),
            rule=self._hide(rule),
            governance=governance,
        )
        while True:
            answer, event = await self._answered(question)
            if self._prompts is None or await self._prompts.check(event):
                return answer
            question = replace(question, ask_id=self._new_id())

    async def _answered(self, question: Asked) -> tuple[Answered, Event]:
        answers: list[tuple[Answered, Event]] = []
        answered = anyio.Event()

        def hear(answer: Answered, event: Event) -> None:
            answers.append((answer, event))
            answered.set()

        self._open[question.ask_id] = _Open(question, hear)
        try:
            self._log.append(question)
            with self._pause():
                await answered.wait()
        finally:
            self._open.pop(question.ask_id, None)
        return answers[0]

    def offer(
        self, ask: AskKind, text: str, *, call_id: str, hear: Callable[[], None]
    ) -> "OpenOffer":
        """Put a question in the log that nobody waits for; `hear` is called once it is answered."""
        question = Asked(ask_id=self._new_id(), ask=ask, text=text, call_id=call_id)
        offer = OpenOffer(withdraw=lambda: self._withdraw(question.ask_id))

        def take(answer: Answered, event: Event) -> None:
            if self._prompts and self._prompts.queue_words(event):
                answer = replace(answer, text="", images=())
            offer.answer = answer
            hear()

        self._open[question.ask_id] = _Open(question, take)
        self._log.append(question)
        return offer

    def note(self, text: str) -> None:
        """Tell the user something that needs no answer."""
        self._log.append(Noted(text=text))

    def answer(self, answer: Answer) -> None:
        """Take a client's answer to a question that is open."""
        question, hear = self._find(answer.ask_id)
        if answer.digest != question.digest:
            raise CommandRejected("The question has changed. Read it again.")
        if answer.reply not in takes(question.ask):
            raise CommandRejected(f"A question of kind {question.ask} takes words, not yes or no.")
        if answer.always and not question.rule:
            raise CommandRejected("This can only be approved once, not always.")
        _check_choice(answer, question)
        answered = Answered(
            ask_id=question.ask_id,
            ask=question.ask,
            reply=answer.reply,
            text=answer.text,
            images=answer.images,
            by=answer.by,
            always=answer.always,
            choice=answer.choice,
            message_id=answer.message_id,
        )
        event = self._log.append(answered)
        del self._open[question.ask_id]
        hear(answered, event)

    def _find(self, ask_id: str) -> _Open:
        if found := self._open.get(ask_id):
            return found
        if ask_id in self._withdrawn:
            raise CommandRejected(f"Question {ask_id} was withdrawn.")
        for question, _ in self._open.values():
            if CATEGORY[question.ask] is not AskCategory.NON_BLOCKING:
                raise CommandRejected(
                    f"Question {ask_id} is closed; {question.ask_id} is open now."
                )
        raise CommandRejected("No question is open.")

    def _withdraw(self, ask_id: str) -> None:
        if self._open.pop(ask_id, None):
            self._withdrawn.add(ask_id)
            self._log.append(OfferWithdrawn(ask_id=ask_id))


def _check_choice(answer: Answer, question: Asked) -> None:
    """What a question does not offer is no answer to it, and what allows more is no no."""
    if answer.choice is None:
        return
    offered = question.governance.choices if question.governance else ()
    if answer.choice not in offered:
        raise CommandRejected(f"This question does not offer {answer.choice!r}.")
    if (answer.reply == "yes") == (answer.choice == "halt"):
        raise CommandRejected(f"{answer.choice!r} cannot be combined with {answer.reply!r}.")
    if answer.choice != "halt" and answer.by != "user":
        raise CommandRejected("Only a person can approve actions outside the scope.")


class OpenOffer:
    """A question that stops nothing: open until it has an `answer` or is withdrawn."""

    def __init__(self, *, withdraw: Callable[[], None]) -> None:
        self.answer: Answered | None = None
        self.withdraw = withdraw
