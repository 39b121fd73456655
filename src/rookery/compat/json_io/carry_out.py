"""Carries out the requests of the `--json-io` driver."""

import uuid
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from rookery.compat.driver import (
    StartSettings,
    approval_problem,
    check_mode,
    close_task,
    start_settings,
)
from rookery.compat.json_io.lookups import (
    LOOKUPS,
    EngineAnswers,
    before_message,
    checkpoint,
    look_up,
    unloaded_pictures,
)
from rookery.compat.json_io.message_reader import DriverMessage
from rookery.compat.json_io.messages import EngineMessages, error, event
from rookery.compat.json_io.row_messages import Wire
from rookery.compat.structured_output.writer import Line
from rookery.core import commands
from rookery.core.asks import CATEGORY, AskCategory
from rookery.core.blocks import Image
from rookery.core.commands import Command, OpenTask, ReopenTask
from rookery.core.queries import AskTasks
from rookery.errors import CommandRejected, RookeryError, SettingsError
from rookery.protocol.codec import Host
from rookery.protocol.picture_files import load_pictures

ALL = 1_000_000
"""More tasks than any user has."""
NOTHING_SAID = "Give a task: the message has neither text nor an image."
NOTHING_DONE = "Nothing is running."
NOT_HERE = "Task {id} does not belong to this workspace."


class EngineRequests:
    """`send` writes lines, `follow` reports a task from now on, `beside` runs slow work while
    further requests are read, and `ended` waits for the end of a task."""

    def __init__(
        self,
        host: Host,
        messages: EngineMessages,
        *,
        send: Callable[[Sequence[Line]], None],
        follow: Callable[[str], None],
        beside: Callable[[Callable[[], Coroutine[Any, Any, None]]], None],
        ended: Callable[[str], Awaitable[None]],
        note: Callable[[str], None],
        say_next: Callable[[str, tuple[Image, ...]], None],
        now: Callable[[], int],
        next_id: str = "",
    ) -> None:
        """`say_next` stores the message to answer the next resume question with; `now` returns
        milliseconds since the epoch; `next_id` is the default id of the first new task."""
        self._host = host
        self._messages = messages
        self._send = send
        self._follow = follow
        self._beside = beside
        self._ended = ended
        self._note = note
        self._say_next = say_next
        self._now = now
        self._next_id = next_id
        self._known: set[str] = set()
        self._deleting: set[str] = set()
        self.answers = EngineAnswers(host, messages, note)

    async def carry_out(self, message: DriverMessage) -> None:
        """Carry out a request. Errors are reported, and change nothing else."""
        try:
            await self._carry_out(message)
        except RookeryError as refusal:
            self._send([error(str(refusal))])

    async def _carry_out(self, message: DriverMessage) -> None:
        given = message.fields
        match message.type:
            case "newTask":
                await self._new_task(given)
            case "askResponse":
                await self.answers.answer(given, await self._pictures(given))
            case "queueMessage":
                await self.answers.speak(given.get("text", ""), await self._pictures(given))
            case "editQueuedMessage":
                await self.answers.edit_queue(given["payload"]["id"], given["payload"]["text"])
            case "removeQueuedMessage":
                await self.answers.edit_queue(given["text"], None)
            case "clearTask":
                await self._clear()
            case "cancelTask":
                await self.interrupt()
            case "terminalOperation":
                await self.answers.handle_command(ends=given["terminalOperation"] == "abort")
            case "showTaskWithId":
                await self._show(given["text"].strip())
            case "deleteTaskWithId":
                task_id = given["text"].strip()
                self._deleting.add(task_id)
                self._beside(lambda: self._delete(task_id))
            case "mode" | "switchMode":
                await self._choose(StartSettings(mode=given["text"].strip()))
            case "autoApprovalEnabled":
                await self._choose(StartSettings(automatic=given["bool"]))
            case "updateSettings":
                await self._choose(start_settings(given["updatedSettings"]))
            case "condenseTaskContextRequest":
                await self._condense(given.get("text") or self._messages.root)
            case "checkpointRestore":
                with_words = given["payload"].get("mode") == "restore"
                await self._restore(given["payload"]["ts"], with_words=with_words)
            case "deleteMessageConfirm" | "editMessageConfirm":
                await self._rewrite(given)
            case "ping":
                self._send([event("pong")])
            case type if type in LOOKUPS:
                if type == "webviewDidLaunch":
                    self._send(self._messages.launch(await self._host.query(AskTasks())))
                self._beside(lambda: self._look_up(message))
            case type:
                self._note(f"A message of type {type[:40]!r} is ignored.")

    async def open(self, first: OpenTask, settings: StartSettings | None = None) -> None:
        """Open a task and close the previous one."""
        if first.task_id in self._known:
            raise SettingsError(
                f"Task {first.task_id} already exists. Omit taskId, or use another."
            )
        opening = self._with_settings(first, settings or self._messages.wanted)
        await self._drive(opening, first.text)
        self._beside(self.send_history)

    def _with_settings(self, first: OpenTask, wanted: StartSettings) -> OpenTask:
        """Apply the settings to the command, so that they hold from the first request on."""
        about = self._messages.about
        if wanted.provider or wanted.model:
            provider, model = wanted.provider or about.provider, wanted.model or about.model
            first = replace(first, provider=provider, model=model)
        return replace(first, automatic=wanted.automatic)

    async def reopen(self, task_id: str) -> None:
        """Resume a stored task."""
        await self._drive(ReopenTask(task_id=task_id))

    async def _drive(self, first: OpenTask | ReopenTask, text: str = "") -> None:
        """Drive a task from its first command on, and close the previous one."""
        task_id, now = first.task_id, self._now()
        before = "" if self._messages.over else self._messages.root
        await self._ended(task_id)  # a task that is still closing cannot be opened
        await self._host.send(first)
        self._known.add(task_id)
        self._messages.drive(task_id)
        self._send(self._messages.created(now, text))
        self._follow(task_id)
        if before:
            await close_task(self._host, before)

    async def interrupt(self) -> None:
        messages = self._messages
        if messages.over or messages.cancelling:
            return
        question = messages.question
        if question and CATEGORY[question.ask] is not AskCategory.INTERACTIVE:
            self._send([event("status", message=NOTHING_DONE)])
            return
        messages.cancelling = True
        with suppress(CommandRejected):  # it has just ended by itself
            await self._host.send(commands.Cancel(task_id=messages.root))

    async def send_history(self) -> None:
        with suppress(RookeryError):  # reported when it is requested
            self._send(self._messages.history(await self._host.query(AskTasks())))

    async def _new_task(self, given: Wire) -> None:
        text, images = given.get("text", ""), await self._pictures(given)
        if not (text.strip() or images):
            raise SettingsError(NOTHING_SAID)
        settings = start_settings(given.get("taskConfiguration", {}))
        wanted = settings.with_defaults(self._messages.wanted)
        await check_mode(self._host, wanted.mode)
        self._check_settings(settings)
        task_id = given.get("taskId", "").strip().lower() or self._next_id or str(uuid.uuid4())
        mode = wanted.mode or self._messages.about.mode
        await self.open(OpenTask(task_id=task_id, text=text, images=images, mode=mode), wanted)
        self._next_id = ""

    async def _clear(self) -> None:
        before, over = self._messages.root, self._messages.over
        self._send(self._messages.leave())
        if before and not over:
            await close_task(self._host, before)

    async def _show(self, task_id: str) -> None:
        if task_id in self._deleting:
            raise SettingsError(NOT_HERE.format(id=task_id))
        if task_id == self._messages.root and not self._messages.over:
            self._send(self._messages.show_again())
            return
        await self._check_here(task_id)
        await self.reopen(task_id)

    async def _delete(self, task_id: str) -> None:
        try:
            await self._check_here(task_id)
            if task_id == self._messages.root:
                await self._clear()
                await self._ended(task_id)
            await self._host.send(commands.DeleteTask(task_id=task_id))
        except RookeryError as refusal:
            self._send([error(str(refusal))])
        self._deleting.discard(task_id)
        await self.send_history()

    async def _choose(self, settings: StartSettings) -> None:
        await check_mode(self._host, settings.mode)
        self._check_settings(settings)
        if not self._messages.over:
            task_id = self._messages.root
            if settings.mode:
                await self._host.send(commands.SwitchMode(task_id=task_id, mode=settings.mode))
            for change in self._changes(task_id, settings):
                await self._host.send(change)
        self._send(self._messages.choose(settings))

    def _changes(self, task_id: str, wanted: StartSettings) -> Sequence[Command]:
        about, changes = self._messages.about, list[Command]()
        if wanted.provider or wanted.model:
            provider, model = wanted.provider or about.provider, wanted.model or about.model
            switch = commands.SwitchModel(task_id=task_id, provider=provider, model=model)
            changes.append(switch)
        if wanted.automatic is not None:
            changes.append(commands.SwitchApproval(task_id=task_id, automatic=wanted.automatic))
        return changes

    async def _condense(self, task_id: str) -> None:
        self._send(self._messages.condense(task_id))
        try:
            await self._host.send(commands.Condense(task_id=task_id))
        except CommandRejected:
            self._send(self._messages.condensed())
            raise

    async def _restore(self, row: float, *, with_words: bool) -> None:
        to = checkpoint(self._messages, row)
        task_id = self._messages.root
        # includes the changes of the call that made the checkpoint
        await self._host.send(commands.RestoreFiles(task_id=task_id, to=to - 1))
        if with_words:
            await self._host.send(commands.Rewind(task_id=task_id, to=to))

    async def _rewrite(self, given: Wire) -> None:
        """Rewind to before a message, and send another one instead if there is a text."""
        task_id, to = self._messages.root, before_message(self._messages, given["messageTs"])
        images = await self._pictures(given)
        if given.get("restoreCheckpoint"):
            await self._host.send(commands.RestoreFiles(task_id=task_id, to=to))
        if "text" in given:
            self._say_next(given["text"], images)
        await self._host.send(commands.Rewind(task_id=task_id, to=to))

    async def _look_up(self, message: DriverMessage) -> None:
        self._send(await look_up(self._host, self._messages, message))

    async def _check_here(self, task_id: str) -> None:
        known = await self._host.query(AskTasks(most=ALL))
        if all(each.task_id != task_id for each in known):
            raise SettingsError(NOT_HERE.format(id=task_id))

    async def _pictures(self, given: Wire) -> tuple[Image, ...]:
        names = given.get("images", ())
        images, problems = await load_pictures(names, self._messages.about.workspace)
        if problems:
            self._send([unloaded_pictures(problems)])
        return images

    def _check_settings(self, settings: StartSettings) -> None:
        if problem := approval_problem(settings):
            raise SettingsError(problem)
        if settings.ignored:
            self._note(f"These settings are ignored: {', '.join(settings.ignored)}.")
