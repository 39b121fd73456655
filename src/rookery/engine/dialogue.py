"""Asking the user, and waiting for the answer to exactly that question."""

from collections.abc import Callable

import anyio

from rookery.core.asks import AskKind, takes
from rookery.core.commands import Answer
from rookery.core.facts import Answered, Asked
from rookery.engine.event_log import EventLog
from rookery.errors import CommandRejected


class Dialogue:
    """At most one question is open. It is answered once, by its id and by the digest of what
    a yes would allow; any other answer is refused and changes nothing.
    """

    def __init__(self, log: EventLog, new_id: Callable[[], str]) -> None:
        self._log = log
        self._new_id = new_id
        self._open: Asked | None = None
        self._answer: Answered | None = None
        self._answered = anyio.Event()

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
    ) -> Answered:
        """Put a question in the log and wait until a client answers it."""
        question = Asked(
            ask_id=self._new_id(),
            ask=ask,
            text=text,
            title=title,
            diff=diff,
            cwd=cwd,
            call_id=call_id,
            digest=digest,
        )
        self._open, self._answered = question, anyio.Event()
        try:
            self._log.append(question)
            await self._answered.wait()
        finally:
            self._open = None
        assert self._answer
        return self._answer

    def answer(self, answer: Answer) -> None:
        """Take a client's answer to the question that is open."""
        question = self._open
        if question is None:
            raise CommandRejected("Nothing is being asked right now.")
        if answer.ask_id != question.ask_id:
            raise CommandRejected(
                f"Question {answer.ask_id} is closed; {question.ask_id} is open now."
            )
        if answer.digest != question.digest:
            raise CommandRejected("The answer is to another version of the question. Look again.")
        if answer.reply not in takes(question.ask):
            raise CommandRejected(f"A question of kind {question.ask} takes words, not yes or no.")
        self._answer = Answered(
            ask_id=question.ask_id,
            ask=question.ask,
            reply=answer.reply,
            text=answer.text,
            images=answer.images,
            by=answer.by,
        )
        self._log.append(self._answer)
        self._open = None
        self._answered.set()
