"""Carries out what the driver of `--json-io` requests."""

import uuid
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from rookery.compat.driver import StartSettings, approval_problem
from rookery.compat.json_io import request_types as wants
from rookery.compat.json_io.lookups import (
    EngineAnswers,
    before_message,
    checkpoint,
    look_up,
    unloaded_pictures,
)
from rookery.compat.json_io.messages import EngineMessages, error, event
from rookery.compat.json_io.task_rows import Wire
from rookery.core import commands
from rookery.core.asks import CATEGORY, AskCategory
from rookery.core.blocks import Image
from rookery.core.commands import CloseTask, Command, OpenTask, ReopenTask
from rookery.core.queries import AskModes, AskTasks
from rookery.errors import CommandRejected, RookeryError, SettingsError
from rookery.protocol.codec import Host
from rookery.protocol.picture_files import load_pictures

ALL = 1_000_000
"""More tasks than anybody has."""
NOTHING_SAID = "Give a task: the message has neither text nor an image."
NOTHING_DONE = "Nothing is running."
NOT_HERE = "Task {id} does not belong to this workspace."


class EngineRequests:
    """`tell` writes lines, `follow` has a task told from now on, `beside` does what takes a moment
    while the next request is heard, and `ended` waits for the end of a task."""

    def __init__(
        self,
        host: Host,
        told: EngineMessages,
        *,
        tell: Callable[[Sequence[Wire]], None],
        follow: Callable[[str], None],
        beside: Callable[[Callable[[], Coroutine[Any, Any, None]]], None],
        ended: Callable[[str], Awaitable[None]],
        note: Callable[[str], None],
        say_next: Callable[[str, tuple[Image, ...]], None],
        now: Callable[[], int],
        next_id: str = "",
    ) -> None:
        """`say_next` keeps words with which the task goes on when it asks whether to; `now` is
        milliseconds since the epoch, `next_id` what the first new task is called if
        the driver does not say."""
        self._host = host
        self._told = told
        self._tell = tell
        self._follow = follow
        self._beside = beside
        self._ended = ended
        self._note = note
        self._say_next = say_next
        self._now = now
        self._next_id = next_id
        self._known: set[str] = set()
        self._deleting: set[str] = set()
        self.answers = EngineAnswers(host, told, note)

    async def carry_out(self, request: wants.Request) -> None:
        """Do what is requested. What cannot be done is told, and nothing else changes."""
        try:
            await self._carry_out(request)
        except RookeryError as refusal:
            self._tell([error(str(refusal))])

    async def _carry_out(self, request: wants.Request) -> None:
        match request:
            case wants.NewTaskRequest():
                await self._new_task(request)
            case wants.AnswerRequest():
                await self.answers.answer(request, await self._pictures(request.images))
            case wants.Queue(text=text, images=images):
                await self.answers.speak(text, await self._pictures(images))
            case wants.EditRequest(message_id=message_id, text=text):
                await self.answers.edit_queue(message_id, text)
            case wants.ClearRequest():
                await self._clear()
            case wants.CancelRequest():
                await self.interrupt()
            case wants.HandleCommand(ends=ends):
                await self.answers.handle_command(ends=ends)
            case wants.ShowTask(task_id=task_id):
                await self._show(task_id)
            case wants.DeleteRequest(task_id=task_id):
                self._deleting.add(task_id)
                self._beside(lambda: self._delete(task_id))
            case wants.Choose(settings=settings):
                await self._choose(settings)
            case wants.LaunchRequest():
                self._tell(self._told.launch(await self._host.query(AskTasks())))
                self._beside(lambda: self._look_up(request))
            case wants.CondenseTask(task_id=task_id):
                await self._condense(task_id or self._told.root)
            case wants.RestoreFilesRequest(row=row, with_words=with_words):
                await self._restore(row, with_words=with_words)
            case wants.RewriteMessage():
                await self._rewrite(request)
            case wants.PingRequest():
                self._tell([event("pong")])
            case wants.ShutdownRequest():
                pass
            case wants.Unheard(type=type):
                self._note(f"A message of type {type[:40]!r} is ignored.")
            case _:
                self._beside(lambda: self._look_up(request))

    async def open(self, first: OpenTask, settings: StartSettings | None = None) -> None:
        """Begin a task; the one before is closed and stays in the history."""
        before = self._told.root if not self._told.over else ""
        if first.task_id in self._known:
            raise SettingsError(
                f"Task {first.task_id} already exists. Omit taskId, or use another."
            )
        now = self._now()
        await self._host.send(self._as_wanted(first, settings or self._told.wanted))
        self._known.add(first.task_id)
        self._told.drive(first.task_id)
        self._tell(self._told.created(now, first.text))
        self._follow(first.task_id)
        if before:
            await self._close(before)
        self._beside(self.tell_history)

    def _as_wanted(self, first: OpenTask, wanted: StartSettings) -> OpenTask:
        """Its first request is already as it is wanted to be."""
        about = self._told.about
        if wanted.provider or wanted.model:
            provider, model = wanted.provider or about.provider, wanted.model or about.model
            first = replace(first, provider=provider, model=model)
        return replace(first, automatic=wanted.automatic)

    async def reopen(self, task_id: str) -> None:
        """Go on with a stored task."""
        before = self._told.root if not self._told.over else ""
        now = self._now()
        await self._ended(task_id)  # if it is being closed, or it would not be opened again
        await self._host.send(ReopenTask(task_id=task_id))
        self._known.add(task_id)
        self._told.drive(task_id)
        self._tell(self._told.created(now))
        self._follow(task_id)
        if before:
            await self._close(before)

    async def interrupt(self) -> None:
        told = self._told
        if told.over or told.cancelling:
            return
        question = told.question
        if question and CATEGORY[question.ask] is not AskCategory.INTERACTIVE:
            self._tell([event("status", message=NOTHING_DONE)])
            return
        told.cancelling = True
        with suppress(CommandRejected):  # it has just ended by itself
            await self._host.send(commands.Cancel(task_id=told.root))

    async def tell_history(self) -> None:
        with suppress(RookeryError):  # a history that cannot be read is told when it is asked for
            self._tell(self._told.history(await self._host.query(AskTasks())))

    async def _new_task(self, request: wants.NewTaskRequest) -> None:
        images = await self._pictures(request.images)
        if not (request.text.strip() or images):
            raise SettingsError(NOTHING_SAID)
        wanted = _over(self._told.wanted, request.settings)
        await self._check_mode(wanted.mode)
        self._check_settings(request.settings)
        task_id = request.task_id or self._next_id or str(uuid.uuid4())
        first = OpenTask(
            task_id=task_id,
            text=request.text,
            images=images,
            mode=wanted.mode or self._told.about.mode,
        )
        await self.open(first, wanted)
        self._next_id = ""

    async def _clear(self) -> None:
        before, over = self._told.root, self._told.over
        self._tell(self._told.leave())
        if before and not over:
            await self._close(before)

    async def _show(self, task_id: str) -> None:
        if task_id in self._deleting:
            raise SettingsError(NOT_HERE.format(id=task_id))
        if task_id == self._told.root and not self._told.over:
            self._tell(self._told.show_again())
            return
        await self._check_here(task_id)
        await self.reopen(task_id)

    async def _delete(self, task_id: str) -> None:
        try:
            await self._check_here(task_id)
            if task_id == self._told.root:
                await self._clear()
                await self._ended(task_id)
            await self._host.send(commands.DeleteTask(task_id=task_id))
        except RookeryError as refusal:
            self._tell([error(str(refusal))])
        self._deleting.discard(task_id)
        await self.tell_history()

    async def _choose(self, settings: StartSettings) -> None:
        await self._check_mode(settings.mode)
        self._check_settings(settings)
        if not self._told.over:
            task_id = self._told.root
            if settings.mode:
                await self._host.send(commands.SwitchMode(task_id=task_id, mode=settings.mode))
            for change in self._changes(task_id, settings):
                await self._host.send(change)
        self._tell(self._told.choose(settings))

    def _changes(self, task_id: str, wanted: StartSettings) -> Sequence[Command]:
        about, changes = self._told.about, list[Command]()
        if wanted.provider or wanted.model:
            provider, model = wanted.provider or about.provider, wanted.model or about.model
            switch = commands.SwitchModel(task_id=task_id, provider=provider, model=model)
            changes.append(switch)
        if wanted.automatic is not None:
            changes.append(commands.SwitchApproval(task_id=task_id, automatic=wanted.automatic))
        return changes

    async def _condense(self, task_id: str) -> None:
        self._tell(self._told.condense(task_id))
        try:
            await self._host.send(commands.Condense(task_id=task_id))
        except CommandRejected:
            self._tell(self._told.condensed())
            raise

    async def _restore(self, row: float, *, with_words: bool) -> None:
        to = checkpoint(self._told, row)
        task_id = self._told.root
        # what a call changes counts from its checkpoint on, so that is to be undone too
        await self._host.send(commands.RestoreFiles(task_id=task_id, to=to - 1))
        if with_words:
            await self._host.send(commands.Rewind(task_id=task_id, to=to))

    async def _rewrite(self, request: wants.RewriteMessage) -> None:
        task_id, to = self._told.root, before_message(self._told, request.row)
        images = await self._pictures(request.images)
        if request.with_files:
            await self._host.send(commands.RestoreFiles(task_id=task_id, to=to))
        if request.text is not None:
            self._say_next(request.text, images)
        await self._host.send(commands.Rewind(task_id=task_id, to=to))

    async def _look_up(self, request: wants.Request) -> None:
        self._tell(await look_up(self._host, self._told, request))

    async def _check_mode(self, mode: str) -> None:
        known = [each.slug for each in await self._host.query(AskModes())] if mode else []
        if mode and mode not in known:
            raise SettingsError(f"No such mode: {mode!r}. Available: {', '.join(known)}.")

    async def _check_here(self, task_id: str) -> None:
        known = await self._host.query(AskTasks(most=ALL))
        if all(each.task_id != task_id for each in known):
            raise SettingsError(NOT_HERE.format(id=task_id))

    async def _pictures(self, given: Sequence[str]) -> tuple[Image, ...]:
        images, problems = await load_pictures(given, self._told.about.workspace)
        if problems:
            self._tell([unloaded_pictures(problems)])
        return images

    def _check_settings(self, settings: StartSettings) -> None:
        if problem := approval_problem(settings):
            raise SettingsError(problem)
        if settings.ignored:
            self._note(f"These settings are ignored: {', '.join(settings.ignored)}.")

    async def _close(self, task_id: str) -> None:
        with suppress(CommandRejected):  # it has closed itself meanwhile
            await self._host.send(CloseTask(task_id=task_id))


def _over(usual: StartSettings, given: StartSettings) -> StartSettings:
    """What is given, and what is usual where nothing is."""
    return StartSettings(
        mode=given.mode or usual.mode,
        provider=given.provider or usual.provider,
        model=given.model or usual.model,
        automatic=usual.automatic if given.automatic is None else given.automatic,
    )
