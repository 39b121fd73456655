"""Carries out the commands of the control stream, and replies to them."""

import uuid
from collections.abc import Awaitable, Callable, Sequence

import anyio

from rookery.compat.control_stream.event_stream import ControlStream
from rookery.compat.control_stream.followed_task import (
    ANSWERED_BY_MESSAGES,
    StreamQuestion,
    continues,
)
from rookery.compat.control_stream.stream_commands import StreamCommand
from rookery.compat.driver import (
    StartSettings,
    approval_problem,
    check_mode,
    close_task,
    start_settings,
)
from rookery.compat.structured_output.call_rows import Output
from rookery.core.asks import CHOICES, Choice, Reply, reply_of, takes
from rookery.core.commands import Cancel, OpenTask
from rookery.core.queries import AskAbout
from rookery.errors import CommandRejected, RookeryError, SettingsError
from rookery.protocol.attend import Say, answer_to, new_message
from rookery.protocol.codec import Host

IGNORED = "These settings are ignored: {names}."
SHUT_DOWN = "The run was shut down first."
TAKES_WORDS = "This question needs text. Send it with answer or message."


class _RequestRefused(Exception):
    """A command that cannot be carried out now; `code` is the reply code."""

    def __init__(self, code: str, content: str = "") -> None:
        super().__init__(content)
        self.code = code


class Requests:
    """`send` writes events, `follow` reports a task from now on, and `recovered` waits until an
    interrupted task accepts messages again (False if the run ends first). `error_code` returns the
    error code of a rejected start."""

    def __init__(
        self,
        host: Host,
        stream: ControlStream,
        *,
        send: Callable[[Sequence[Output]], None],
        follow: Callable[[str], None],
        recovered: Callable[[], Awaitable[bool]],
        error_code: Callable[[RookeryError], str] = lambda refusal: "task_failed",
    ) -> None:
        self._host = host
        self._stream = stream
        self._send = send
        self._follow = follow
        self._recovered = recovered
        self._error_code = error_code
        self._opening = anyio.Lock()
        """Makes an interrupt wait until a task that is being opened is open."""
        self._known = {stream.task_id} - {""}

    async def carry_out(self, command: StreamCommand) -> None:
        try:
            await self._carry_out(command)
        except _RequestRefused as refusal:
            self.refuse(command, refusal.code, str(refusal))

    def refuse(self, command: StreamCommand, code: str, content: str = "") -> None:
        self._send([self._stream.refuse(command, code, content)])

    async def _carry_out(self, command: StreamCommand) -> None:
        match command.name:
            case "start":
                await self._start(command)
            case "message":
                await self._message(command)
            case "approve" | "reject" | "answer":
                await self._answer_ask(command)
            case "cancel":
                await self._cancel(command)
            case "clear":
                await self._clear(command)
            case "ping":
                self._accept(command, "pong")
            case _:
                self._accept(command, "shutdown_requested")

    async def interrupt(self, request_id: str) -> None:
        """Interrupt the task. Raises `CommandRejected` if it has just ended by itself."""
        async with self._opening:
            if not self._stream.under_way:
                raise CommandRejected("Nothing is running.")
            again = self._stream.cancelling
            self._stream.cancel(request_id)
            if not again:
                await self._host.send(Cancel(task_id=self._stream.task_id))

    async def resume_queued(self, question: StreamQuestion) -> None:
        """Continue with messages that arrived just before the completion question."""
        self._stream.resume_queued(question)
        await self._send_answer(question, Say("message", by="policy"))

    def _accept(self, command: StreamCommand, code: str) -> None:
        self._send(self._stream.accept(command, code))

    async def _start(self, command: StreamCommand) -> None:
        stream = self._stream
        if stream.busy:
            raise _RequestRefused("task_busy")
        before = stream.task_id
        wanted = start_settings(command.fields.get("configuration", {}))
        if problem := approval_problem(wanted):
            raise _RequestRefused("client_error", problem)
        task_id = command.fields.get("taskId", "").strip().lower() or str(uuid.uuid4())
        self._send([stream.accept_start(command, task_id)])
        if wanted.ignored:
            self._send([stream.note(IGNORED.format(names=", ".join(wanted.ignored)))])
        async with self._opening:
            try:
                await self._open(command, task_id, wanted)
            except RookeryError as refusal:
                self._send(stream.refuse_start(str(refusal), self._error_code(refusal)))
                return
            self._send(stream.begin_task(task_id, command.request_id))
        self._follow(task_id)
        if before:
            await close_task(self._host, before)

    async def _open(self, command: StreamCommand, task_id: str, wanted: StartSettings) -> None:
        if task_id in self._known:
            raise SettingsError(f"Task {task_id} already exists. Omit taskId, or use another.")
        about = await self._host.query(AskAbout())
        await check_mode(self._host, wanted.mode)
        mode = wanted.mode or about.mode
        model = wanted.model or (about.model if wanted.provider else "")
        await self._host.send(
            OpenTask(
                task_id=task_id,
                text=command.fields["prompt"],
                images=command.images,
                mode=mode,
                provider=(wanted.provider or about.provider) if model else "",
                model=model,
                automatic=wanted.automatic,
            )
        )
        self._known.add(task_id)

    async def _message(self, command: StreamCommand) -> None:
        stream = self._stream
        if stream.cancelling and not await self._recovered():
            raise _RequestRefused("client_error", SHUT_DOWN)
        if not stream.task_id:
            raise _RequestRefused("no_active_task")
        question = stream.question
        if question and stream.has_unread:
            await self._queue_behind(command, question)
            return
        if question and question.ask in ANSWERED_BY_MESSAGES:
            stream.deliver(question, "message", command.request_id, words=True)
            said = Say("message", command.fields["prompt"], command.images)
            if await self._send_answer(question, said):
                self._accept(command, "responded")
                return
        await self._queue(command)

    async def _queue_behind(self, command: StreamCommand, question: StreamQuestion) -> None:
        """Queue the message and resume the task, so that earlier messages come first."""
        await self._speak(command)
        self._stream.deliver(question, "message", command.request_id, words=True)
        await self._send_answer(question, Say("message"))
        self._accept(command, "resumed")

    async def _queue(self, command: StreamCommand) -> None:
        await self._speak(command)
        self._accept(command, "resumed" if self._stream.cancelling else "queued")

    async def _speak(self, command: StreamCommand) -> None:
        stream = self._stream
        message = new_message(stream.receiver, command.fields["prompt"], command.images)
        stream.attribution.queue(message.message_id, command.request_id)
        try:
            await self._host.send(message)
        except CommandRejected as error:
            stream.attribution.forget(message.message_id)
            raise _RequestRefused("no_active_task") from error

    async def _answer_ask(self, command: StreamCommand) -> None:
        stream, text = self._stream, command.fields.get("text", "")
        reply, choice = _reply(command)
        question = stream.question
        if question is None or command.fields.get("id", question.row) != question.row:
            raise _RequestRefused("no_pending_ask")
        if reply not in takes(question.ask):
            if not text.strip():
                raise _RequestRefused("client_error", TAKES_WORDS)
            reply = "message"
        stream.deliver(question, reply, command.request_id, words=reply == "message")
        if not await self._send_answer(question, Say(reply, text, command.images, choice=choice)):
            raise _RequestRefused("no_pending_ask")
        self._accept(command, "responded")
        if question.task_id == stream.task_id and not continues(question.ask, reply):
            # the task is about to close and takes no more messages
            self._send(stream.end_task(question.task_id))

    async def _send_answer(self, question: StreamQuestion, said: Say) -> bool:
        """Send an answer; False if the question is no longer open."""
        try:
            await self._host.send(answer_to(question.task_id, question, said))
        except CommandRejected:
            return False
        return True

    async def _cancel(self, command: StreamCommand) -> None:
        code = "no_active_task"
        if self._stream.under_way:
            try:
                await self.interrupt(command.request_id)
                code = "cancel_requested"
            except CommandRejected:
                pass  # it has just ended by itself
            except RookeryError as error:
                raise _RequestRefused("cancel_error", str(error)) from error
        self._accept(command, code)

    async def _clear(self, command: StreamCommand) -> None:
        if self._stream.busy:
            raise _RequestRefused("task_busy")
        if before := self._stream.task_id:
            self._send(self._stream.leave_task())
            await close_task(self._host, before)
        self._accept(command, "cleared")


def _reply(command: StreamCommand) -> tuple[Reply, Choice | None]:
    """The reply that a command gives, and the choice beyond yes and no in a governance question."""
    if command.name != "answer":
        return ("yes" if command.name == "approve" else "no"), None
    choice = command.fields.get("choice", "message")
    return (reply_of(choice), choice) if choice in CHOICES else (choice, None)
