"""Drives a host by the messages that webviews and managers write, and tells what happens."""

import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

import anyio
from anyio.abc import TaskGroup

from rookery.compat.driver import (
    DONE,
    ENDING,
    LONGEST,
    MENDED,
    REFUSED,
    DriverConversation,
    FollowedTasks,
    LineReader,
    News,
    OutputQueue,
    Telling,
    cause_of,
    left_open,
)
from rookery.compat.json_io.carry_out import EngineRequests
from rookery.compat.json_io.message_reader import BadMessage, read_request
from rookery.compat.json_io.messages import EngineMessages, error, event
from rookery.compat.json_io.request_types import ShutdownRequest
from rookery.compat.json_io.task_rows import PACE, Wire
from rookery.compat.structured_output.writer import ReaderLeft
from rookery.core.asks import AskKind
from rookery.core.blocks import Image
from rookery.core.commands import OpenTask, ReopenTask
from rookery.core.facts import (
    Asked,
    ChildBegan,
    Event,
    PromptRefused,
    RequestFailed,
    RequestStarted,
)
from rookery.core.queries import AskAbout
from rookery.errors import StorageError
from rookery.protocol.attend import Fate, RunEnd
from rookery.protocol.codec import Host
from rookery.protocol.outcomes import code_of_failure

TOO_LONG = f"Line {{number}} of the input is longer than {LONGEST} bytes, so it was not read."
STOPPED = "The run was stopped. The session is kept and can be resumed."

_RESUMING = (AskKind.RESUME_TASK, AskKind.RESUME_COMPLETED_TASK)
_debug = logging.getLogger(__name__)


class EngineMessagesClient:
    """A client for webviews and managers. It ends with its input, with a shutdown, or when nobody
    reads its output any more."""

    def __init__(
        self,
        lines: AsyncIterator[bytes],
        outbox: OutputQueue,
        *,
        exit_code: Callable[[RunEnd], int],
        first: OpenTask | ReopenTask | None = None,
        opening: str = "",
        next_id: str = "",
        strict: bool = False,
        watch: Callable[[Event], None] = lambda event: None,
        complain: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        """`exit_code` is what a run that ends so exits with. `opening` is what a resumed task is
        told first, `next_id` what the first task that the driver begins is called. `strict` ends
        the run with the first request that fails; `watch` sees the events of the task that is
        driven, and `complain` tells a person why the run ended."""
        self._lines = lines
        self._telling = Telling(outbox)
        self._exit_code = exit_code
        self._first = first
        self._opening: tuple[str, tuple[Image, ...]] | None = (opening, ()) if opening else None
        self._next_id = next_id
        self._strict = strict
        self._watch = watch
        self._refused = ""
        """Why a hook refused what was said last, if nothing was sent since."""
        self._complain = complain
        self._reader = LineReader(
            read_request, bad=BadMessage, too_long=TOO_LONG, refuse=self._refuse_line
        )
        self._news = News()
        self._pacing = False
        self._errands = 0
        """What is being looked up, or tidied, beside the conversation."""

    async def run(self, host: Host) -> RunEnd:
        try:
            return await self._drive(host)
        except* ReaderLeft:
            raise
        except* Exception as errors:
            self._broke(errors)
            raise

    async def stopped(self, host: Host) -> bool:
        return False

    def ended(self, end: RunEnd) -> None:
        """The last line: how the process exits, or that it was made to."""
        interrupted = end.code in ("task_aborted", "timeout")
        told = [error(end.reason, {"code": end.code})] if end.reason and not interrupted else []
        if interrupted:
            told.append(event("interrupted", reason=end.reason or STOPPED))
        else:
            told.append(event("complete", exitCode=self._exit_code(end)))
        with suppress(ReaderLeft):  # how it ended is also in the exit code
            self._telling.tell_last(told)
        if end.reason:
            self._complain(end.reason)

    def _broke(self, errors: BaseExceptionGroup[Exception]) -> None:
        """Say what went wrong. What cannot be kept is told when the run ends."""
        cause = cause_of(errors)
        if not isinstance(cause, StorageError):
            self._telling.tell_last([error(f"{type(cause).__name__}: {cause}")])

    async def _drive(self, host: Host) -> RunEnd:
        self._told = EngineMessages(await host.query(AskAbout()))
        async with anyio.create_task_group() as group:
            self._group: TaskGroup = group
            self._conversation = DriverConversation()
            self._followed = FollowedTasks(
                host,
                group,
                self._news,
                see=self._tell_event,
                ended=self._tell_end,
                begun=self._catch_up_soon,
            )
            group.start_soon(self._telling.run)
            self._requests = EngineRequests(
                host,
                self._told,
                tell=self._tell,
                follow=self._followed.follow,
                beside=self._beside,
                ended=self._task_ended,
                note=_debug.debug,
                say_next=self._say_next,
                now=lambda: time.time_ns() // 1_000_000,
                next_id=self._next_id,
            )
            self._tell(self._told.begin())
            end = await self._conversation.hold(self._converse)
            await self._news.until(lambda: not self._errands, ENDING)
            self._tell(self._told.news(anyio.current_time() + 3600.0))
            group.cancel_scope.cancel()
        return end

    async def _begin(self) -> None:
        match self._first:
            case OpenTask() as first:
                await self._requests.open(first)
            case ReopenTask(task_id=task_id):
                await self._requests.reopen(task_id)
            case None:
                pass

    async def _converse(self) -> RunEnd:
        await self._begin()
        async for line in self._lines:
            request = self._reader.wanted(line)
            if isinstance(request, ShutdownRequest):
                return await self._shut_down()
            if request is not None:
                await self._requests.carry_out(request)
        return await self._out_of_input()

    def _refuse_line(self, bad: BadMessage, number: int) -> None:
        self._tell([error(str(bad), {"line": number})])

    async def _shut_down(self) -> RunEnd:
        if self._told.busy:
            await self._requests.interrupt()
            await self._news.until(lambda: not self._told.busy, ENDING)
        return DONE

    async def _out_of_input(self) -> RunEnd:
        """Nobody can say any more, so what the task asks now stays unanswered."""
        told = self._told
        await self._news.until(lambda: not told.busy and told.overheard is None)
        question = told.question
        if question is None:
            return RunEnd(Fate.FAILED, told.failure, "task_failed") if told.failure else DONE
        if self._refused:
            return RunEnd(Fate.LEFT, f"{REFUSED} {self._refused}", "governance_refused")
        if told.complete:
            return DONE
        return left_open(question.ask, told.root)

    def _tell(self, told: Sequence[Wire]) -> None:
        self._telling.tell(told)
        if self._told.waits and not self._pacing:
            self._pacing = True
            self._group.start_soon(self._pace)

    async def _pace(self) -> None:
        """Tell what may not be told yet when it may."""
        while self._told.waits:
            await anyio.sleep(PACE)
            self._telling.tell(self._told.news(anyio.current_time()))
        self._pacing = False

    def _beside(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def do() -> None:
            await work()
            self._errands -= 1
            self._news.spread()

        self._errands += 1
        self._group.start_soon(do)

    async def _tell_event(self, task_id: str, happened: Event) -> None:
        if task_id == self._told.root:
            self._watch(happened)
        self._tell(self._told.see(task_id, happened, anyio.current_time()))
        match happened.fact:
            case ChildBegan(task_id=child) if child in self._told.tasks:
                self._followed.follow(child)
            case RequestFailed() as failure if self._strict and failure.error not in MENDED:
                self._strike(failure)
            case PromptRefused(reason=reason):
                self._refused = reason
            case RequestStarted():
                self._refused = ""
            case Asked(ask=AskKind.COMMAND_OUTPUT):
                await self._requests.answers.handle_offer()
            case _:
                pass
        await self._mind_question()

    def _tell_end(self, task_id: str) -> None:
        if task_id in self._told.tasks:
            self._tell(self._told.end_task(task_id, anyio.current_time()))

    def _catch_up_soon(self, task_id: str) -> None:
        if task_id == self._told.root:
            # this runs as soon as all that is on record has been seen
            self._group.start_soon(self._catch_up, task_id)

    async def _catch_up(self, task_id: str) -> None:
        if task_id == self._told.root:
            self._tell(self._told.catch_up(anyio.current_time()))
            await self._mind_question()
            self._news.spread()

    def _say_next(self, words: str, images: tuple[Image, ...]) -> None:
        self._opening = (words, images)

    async def _mind_question(self) -> None:
        """Answer what can be answered with what was said before it was asked."""
        question = self._told.question
        if question and question.ask in _RESUMING and self._opening:
            (words, images), self._opening = self._opening, None
            await self._requests.answers.send(question, "message", words, images)
        elif overheard := self._told.overheard:
            await self._requests.answers.hear_out(overheard)

    def _strike(self, failure: RequestFailed) -> None:
        if self._told.replaying:
            return
        code = code_of_failure(failure.error)
        self._conversation.break_off(RunEnd(Fate.FAILED, failure.message, code))

    async def _task_ended(self, task_id: str) -> None:
        await self._news.until(lambda: task_id not in self._followed.ids, ENDING)
