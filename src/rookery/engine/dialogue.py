"""Questions to the user, their answers, and messages from the user.

An answer must name the question and its digest. Hooks check every message once before the model
sees it: the opening, queued and edited messages, and answers. A refused message counts as not sent,
and the question is asked again.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import anyio
from msgspec.structs import replace

from rookery.core.asks import (
    ASKED_AGAIN,
    CATEGORY,
    AskCategory,
    AskKind,
    IntentQuestion,
    Reply,
    takes,
)
from rookery.core.commands import Answer
from rookery.core.event_list import newest, of_kind
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
from rookery.core.modes import Level
from rookery.core.text.terminal_text import Hiding
from rookery.engine.event_log import EventLog
from rookery.engine.ports.hooks import SessionHook
from rookery.errors import CommandRejected


class Prompts:
    def __init__(
        self, log: EventLog, hooks: Sequence[SessionHook], new_id: Callable[[], str]
    ) -> None:
        self._log = log
        self._new_id = new_id
        self._hooks = hooks
        facts = (event.fact for event in of_kind(log.events, PromptRefused))
        self._checked = {fact.of for fact in facts if isinstance(fact, PromptRefused)}
        self._seen = _last_request(log)
        """Number of events that are already checked."""

    @property
    def waiting(self) -> list[Event]:
        """Messages that hooks have not checked yet."""
        if not self._are_checked:
            return []
        found = [event for event in self._log.events[self._seen :] if self._is_new(event)]
        if not found:
            self._seen = len(self._log.events)
        return found

    async def check_all(self) -> None:
        for event in self.waiting:
            await self.check(event)

    async def check(self, event: Event) -> bool:
        """Let the hooks check the message in an event. Returns whether the model may see it."""
        if not self._are_checked or not self._is_new(event):
            return True
        text = _text_of(event.fact)
        reason = await self._reason_against(text)
        self._checked.add(event.seq)
        if not reason:
            return True
        if isinstance(event.fact, UserSpoke | QueueEdited):
            self._log.append(QueueEdited(message_id=event.fact.message_id, text=None))
        self._log.append(PromptRefused(of=event.seq, text=text, reason=reason))
        self._log.append(Noted(text=f"A hook refused your message, so it was not sent: {reason}"))
        return False

    def queue_answer_text(self, event: Event) -> bool:
        """Queue the text of an answer to an offer as a message, so that hooks check it first."""
        fact = event.fact
        if not isinstance(fact, Answered) or not fact.text.strip():
            return False
        if not self._are_checked:
            return False
        self._checked.add(event.seq)
        self._log.append(UserSpoke(message_id=self._new_id(), text=fact.text, images=fact.images))
        return True

    @property
    def _are_checked(self) -> bool:
        return any(hook.checks_messages for hook in self._hooks)

    async def _reason_against(self, text: str) -> str:
        for hook in self._hooks:
            if reason := await hook.check_message(text):
                return reason
        return ""

    def _is_new(self, event: Event) -> bool:
        return event.seq not in self._checked and _is_message(event.fact)


def _last_request(log: EventLog) -> int:
    """The position of the last request. Messages before it have been checked and sent."""
    request = next(newest(log.events, RequestStarted), None)
    return request.seq if request else 0


def _is_message(fact: Fact) -> bool:
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


def _text_of(fact: Fact) -> str:
    match fact:
        case TaskOpened(text=text) | UserSpoke(text=text) | Answered(text=text):
            return text
        case QueueEdited(text=str() as text):
            return text
        case _:
            return ""


class _Open(NamedTuple):
    question: Asked
    on_answer: Callable[[Answered, Event], None]


class Dialogue:
    """The open questions of a task: at most one that blocks it, and any number of offers.

    Each is answered once, by its id and the digest of what a yes would allow. Any other answer is
    rejected and changes nothing.
    """

    def __init__(
        self,
        log: EventLog,
        new_id: Callable[[], str],
        hide: Hiding | None = None,
        *,
        pause: Callable[[], AbstractContextManager[None]] = nullcontext,
        prompts: Prompts | None = None,
        asking: anyio.Lock | None = None,
        agent: str = "",
    ) -> None:
        """`hide` removes secrets from questions. `pause` is entered while waiting for an answer.
        If `prompts` refuses the text of an answer, the question is asked again. `asking` is held
        while a question is open; it belongs to all agents that run beside this one."""
        self._asking = asking or anyio.Lock(fast_acquire=True)
        self._agent = agent
        self._label = (f"Agent {agent} asks.",) if agent else ()
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
        """Whether a blocking question is open."""
        return any(
            CATEGORY[question.ask] is not AskCategory.NON_BLOCKING
            for question, _ in self._open.values()
        )

    @property
    def only_awaits_message(self) -> bool:
        """Whether the only open question is what to do next, which is asked again when the task
        is reopened. A plan waits for an approval."""
        waiting = [question for question, _ in self._open.values()]
        return bool(waiting) and all(q.ask in ASKED_AGAIN and not q.plan for q in waiting)

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
        prefix: str = "",
        harmless: bool = False,
        plan: str = "",
        withdraws: bool = False,
    ) -> Answered:
        """Ask a question and wait for a client's answer. If the caller stops waiting, a question
        that `withdraws` counts as answered with no."""
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
            notes=tuple(map(self._hide, (*self._label, *notes))),
            rule=self._hide(rule),
            governance=governance,
            prefix=self._hide(prefix),
            harmless=harmless,
            agent=self._agent,
            plan=self._hide(plan),
        )
        while True:
            with self._pause():
                async with self._asking:
                    answer, event = await self._answered(question, withdraws)
            if self._prompts is None or await self._prompts.check(event):
                return answer
            question = replace(question, ask_id=self._new_id())

    async def _answered(self, question: Asked, withdraws: bool) -> tuple[Answered, Event]:
        answers: list[tuple[Answered, Event]] = []
        answered = anyio.Event()

        def on_answer(answer: Answered, event: Event) -> None:
            answers.append((answer, event))
            answered.set()

        self._open[question.ask_id] = _Open(question, on_answer)
        try:
            self._log.append(question)
            await answered.wait()
        finally:
            left = self._open.pop(question.ask_id, None)
            if left and withdraws:
                reply: Reply = "no" if "no" in takes(question.ask) else "message"
                self._log.append(
                    Answered(ask_id=question.ask_id, ask=question.ask, reply=reply, by="policy")
                )
        return answers[0]

    def offer(
        self, ask: AskKind, text: str, *, call_id: str, on_answer: Callable[[], None]
    ) -> "OpenOffer":
        """Ask a question without waiting; `on_answer` is called when it is answered."""
        question = Asked(ask_id=self._new_id(), ask=ask, text=text, call_id=call_id)
        offer = OpenOffer(withdraw=lambda: self._withdraw(question.ask_id))

        def take(answer: Answered, event: Event) -> None:
            if self._prompts and self._prompts.queue_answer_text(event):
                answer = replace(answer, text="", images=())
            offer.answer = answer
            on_answer()

        self._open[question.ask_id] = _Open(question, take)
        self._log.append(question)
        return offer

    def note(self, text: str) -> None:
        """Show the user a notice."""
        self._log.append(Noted(text=text))

    def answer(self, answer: Answer) -> None:
        """Accept a client's answer to an open question. Raises `CommandRejected`."""
        question, on_answer = self._find(answer.ask_id)
        if answer.digest != question.digest:
            raise CommandRejected("The question has changed. Read it again.")
        if answer.reply not in takes(question.ask):
            raise CommandRejected(f"A question of kind {question.ask} takes a text, not yes or no.")
        if (answer.always and not question.rule) or (answer.prefix and not question.prefix):
            raise CommandRejected("This can only be approved once, not always.")
        _check_choice(answer, question)
        answer = _with_plan(answer, question)
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
            prefix=answer.prefix,
            level=answer.level,
        )
        event = self._log.append(answered)
        del self._open[question.ask_id]
        on_answer(answered, event)

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
    """Reject a choice that the question does not offer or that contradicts the reply."""
    if answer.choice is None:
        return
    offered = question.governance.choices if question.governance else ()
    if answer.choice not in offered:
        raise CommandRejected(f"This question does not offer {answer.choice!r}.")
    if (answer.reply == "yes") == (answer.choice == "halt"):
        raise CommandRejected(f"{answer.choice!r} cannot be combined with {answer.reply!r}.")
    if answer.choice != "halt" and answer.by != "user":
        raise CommandRejected("Only a person can approve actions outside the scope.")


def _with_plan(answer: Answer, question: Asked) -> Answer:
    """The answer with the whole plan that it approves, if it approves one."""
    if answer.level is None:
        return answer
    if not question.plan:
        raise CommandRejected("There is no plan to approve.")
    if answer.level is Level.PLAN or answer.reply == "no":
        raise CommandRejected("A plan is approved with the level ask, edits, sandboxed or auto.")
    if answer.by != "user":
        raise CommandRejected("Only a person can approve a plan.")
    text = answer.text if answer.text.strip() else question.plan
    return replace(answer, reply="message", text=text)


class OpenOffer:
    """A question that blocks nothing: open until it has an `answer` or is withdrawn."""

    def __init__(self, *, withdraw: Callable[[], None]) -> None:
        self.answer: Answered | None = None
        self.withdraw = withdraw
