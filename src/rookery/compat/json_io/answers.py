"""Says what the driver of `--json-io` says to whichever task is to hear it."""

import uuid
from collections.abc import Callable

from rookery.compat.json_io import request_types as wants
from rookery.compat.json_io.lookups import NO_TASK
from rookery.compat.json_io.messages import EngineMessages, Question
from rookery.core import commands
from rookery.core.asks import Choice, Reply, takes
from rookery.core.blocks import Image
from rookery.core.commands import Speak
from rookery.errors import CommandRejected, SettingsError
from rookery.protocol.host_interface import Host

TAKES_WORDS = "This question takes words. Send them as a messageResponse."


class EngineAnswers:
    """Answers go to the question they name, words to whoever is at work."""

    def __init__(self, host: Host, told: EngineMessages, note: Callable[[str], None]) -> None:
        self._host = host
        self._told = told
        self._note = note
        self._wish: bool | None = None
        """What is to become of the command that runs, once that can be said: whether it ends."""

    async def answer(self, request: wants.Answer, images: tuple[Image, ...]) -> None:
        question = self._told.question
        if question is None or not _is_about(request, question):
            await self._answer_nothing(request, images)
            return
        reply = request.reply
        if reply not in takes(question.ask):
            if not (request.text.strip() or images):
                raise SettingsError(TAKES_WORDS)
            reply = "message"
        await self.send(
            question, reply, request.text, images, always=request.always, choice=request.choice
        )

    async def send(
        self,
        question: Question,
        reply: Reply,
        text: str = "",
        images: tuple[Image, ...] = (),
        *,
        by_driver: bool = True,
        always: bool = False,
        choice: Choice | None = None,
    ) -> None:
        answer = commands.Answer(
            task_id=question.task_id,
            ask_id=question.row.ask_id,
            reply=reply,
            text=text,
            images=images,
            digest=question.row.digest,
            by="user" if by_driver else "policy",
            always=always,
            choice=choice,
        )
        self._told.answer(question)
        try:
            await self._host.send(answer)
        except CommandRejected:
            self._told.unanswer(question)
            self._note("An answer came too late, so it was ignored.")

    async def hear_out(self, question: Question) -> None:
        """Go on with what was said too late to be heard before the task was offered as done."""
        await self.send(question, "message", by_driver=False)

    async def speak(self, text: str, images: tuple[Image, ...]) -> None:
        if not (text.strip() or images):
            self._note("A message without words was not queued.")
            return
        words = Speak(
            task_id=self._listener(), message_id=uuid.uuid4().hex, text=text, images=images
        )
        await self._host.send(words)

    async def edit_queue(self, message_id: str, text: str | None) -> None:
        edit = commands.EditQueue(task_id=self._listener(), message_id=message_id, text=text)
        await self._host.send(edit)

    async def handle_command(self, *, ends: bool) -> None:
        offer = self._told.offer
        self._wish = None
        if offer:
            await self.send(offer, "no" if ends else "yes")
        elif self._told.command:
            self._wish = ends  # it can be said in a moment, if the command still runs then
        elif ends and (behind := self._told.command_behind):
            await self._host.send(commands.StopCommand(task_id=behind[0], call_id=behind[1]))

    async def handle_offer(self) -> None:
        """The command that runs can be handled now: do what was wanted of it."""
        if self._wish is not None:
            await self.handle_command(ends=self._wish)

    async def _answer_nothing(self, request: wants.Answer, images: tuple[Image, ...]) -> None:
        """No such question is open. Words that were for none in particular are heard later."""
        offer = self._told.offer
        if offer and request.row == offer.row.ts and request.reply != "message":
            await self.send(offer, request.reply, request.text, images)
        elif request.reply == "message" and request.row is None and not self._told.over:
            await self.speak(request.text, images)
        else:
            self._note("An answer came to a question that is not open, so it was ignored.")

    def _listener(self) -> str:
        at_work = self._told.at_work
        if at_work is None or self._told.over:
            raise SettingsError(NO_TASK)
        return at_work.task_id


def _is_about(request: wants.Answer, question: Question) -> bool:
    right_row = request.row in (None, question.row.ts)
    return right_row and request.task_id in ("", question.task_id)
