"""Drives a host by the messages of webviews and managers, and writes theirs."""

import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

import anyio
from anyio.abc import TaskGroup

from rookery.compat.driver import (
    DONE,
    LONGEST,
    REFUSED,
    SELF_HANDLED,
    STOP_SECONDS,
    DriverConversation,
    EventSender,
    FollowedTasks,
    OutputQueue,
    Wakeup,
    parsed_lines,
    unanswered,
)
from rookery.compat.json_io.carry_out import EngineRequests
from rookery.compat.json_io.message_reader import BadMessage, read_request
from rookery.compat.json_io.messages import EngineMessages, error, event
from rookery.compat.json_io.task_rows import PACE, ShownTask
from rookery.compat.structured_output.writer import Line, ReaderLeft
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
    Rewound,
)
from rookery.core.queries import AskAbout
from rookery.errors import StorageError, first_error
from rookery.protocol.attend import Fate, RunEnd, Say
from rookery.protocol.codec import Host
from rookery.protocol.late_view import goes_before, view_at
from rookery.protocol.outcomes import code_of_request

TOO_LONG = f"Line {{number}} of the input is longer than {LONGEST} bytes, so it was not read."
STOPPED = "The run was stopped. The session is kept and can be resumed."

_RESUMING = (AskKind.RESUME_TASK, AskKind.RESUME_COMPLETED_TASK)
_debug = logging.getLogger(__name__)


class EngineMessagesClient:
    """The client for webviews and managers. It ends with its input, a shutdown, or when its
    output is closed."""

    def __init__(
        self,
        lines: AsyncIterator[bytes],
        queue: OutputQueue,
        *,
        exit_code: Callable[[RunEnd], int],
        first: OpenTask | ReopenTask | None = None,
        opening: str = "",
        next_id: str = "",
        strict: bool = False,
        watch: Callable[[Event], None] = lambda event: None,
        report: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        """`exit_code` maps the end of the run to an exit code. `opening` is the first message to
        a resumed task, `next_id` the default id of the first new task. `strict` ends the run at
        the first failed request; `watch` gets the events of the driven task, and `report`
        reports to the user why the run ended."""
        self._driver_messages = parsed_lines(
            lines, read_request, bad=BadMessage, too_long=TOO_LONG, refuse=self._refuse_line
        )
        self._sender = EventSender(queue)
        self._exit_code = exit_code
        self._first = first
        self._opening: tuple[str, tuple[Image, ...]] | None = (opening, ()) if opening else None
        self._next_id = next_id
        self._strict = strict
        self._watch = watch
        self._refused = ""
        """Why a hook refused the last message, if no request was sent since."""
        self._report = report
        self._wakeup = Wakeup()
        self._pacing = False
        self._jobs = 0
        """Number of background jobs, such as lookups."""

    async def run(self, host: Host) -> RunEnd:
        try:
            return await self._drive(host)
        except* ReaderLeft:
            raise
        except* Exception as errors:
            self._report_error(errors)
            raise

    async def on_interrupt(self, host: Host) -> bool:
        return False

    def report_end(self, end: RunEnd) -> None:
        """Write the last line: the exit code, or that the run was interrupted."""
        interrupted = end.code in ("task_aborted", "timeout")
        messages = [error(end.reason, {"code": end.code})] if end.reason and not interrupted else []
        if interrupted:
            messages.append(event("interrupted", reason=end.reason or STOPPED))
        else:
            messages.append(event("complete", exitCode=self._exit_code(end)))
        with suppress(ReaderLeft):  # the exit code tells it too
            self._sender.send_last(messages)
        if end.reason:
            self._report(end.reason)

    def _report_error(self, errors: BaseExceptionGroup[Exception]) -> None:
        """Report an error. Storage errors are reported in `report_end`."""
        cause = first_error(errors)
        if not isinstance(cause, StorageError):
            self._sender.send_last([error(f"{type(cause).__name__}: {cause}")])

    async def _drive(self, host: Host) -> RunEnd:
        self._host = host
        self._messages = EngineMessages(await host.query(AskAbout()))
        async with anyio.create_task_group() as group:
            self._group: TaskGroup = group
            self._conversation = DriverConversation()
            self._followed = FollowedTasks(
                host,
                group,
                self._wakeup,
                see=self._on_event,
                ended=self._on_end,
                starting=self._catch_up_soon,
            )
            group.start_soon(self._sender.run)
            self._requests = EngineRequests(
                host,
                self._messages,
                send=self._send,
                follow=self._followed.follow,
                beside=self._beside,
                ended=self._task_ended,
                note=_debug.debug,
                say_next=self._say_next,
                now=lambda: time.time_ns() // 1_000_000,
                next_id=self._next_id,
            )
            self._send(self._messages.begin())
            end = await self._conversation.run(self._exchange)
            await self._wakeup.wait_for(lambda: not self._jobs, STOP_SECONDS)
            self._send(self._messages.news(anyio.current_time() + 3600.0))
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

    async def _exchange(self) -> RunEnd:
        await self._begin()
        async for request in self._driver_messages:
            if request.type == "shutdown":
                return await self._shut_down()
            await self._requests.carry_out(request)
        return await self._finish_input()

    def _refuse_line(self, bad: BadMessage, number: int) -> None:
        self._send([error(str(bad), {"line": number})])

    async def _shut_down(self) -> RunEnd:
        if self._messages.busy:
            await self._requests.interrupt()
            await self._wakeup.wait_for(lambda: not self._messages.busy, STOP_SECONDS)
        return DONE

    async def _finish_input(self) -> RunEnd:
        """Finish after the end of input: questions can no longer be answered."""
        state = self._messages
        await self._wakeup.wait_for(lambda: not state.busy and state.early_finish is None)
        question = state.question
        if question is None:
            return RunEnd(Fate.FAILED, state.failure, "task_failed") if state.failure else DONE
        if self._refused:
            return RunEnd(Fate.LEFT, f"{REFUSED} {self._refused}", "governance_refused")
        if state.complete:
            return DONE
        return unanswered(question.ask, state.root)

    def _send(self, messages: Sequence[Line]) -> None:
        self._sender.send(messages)
        if self._messages.waits and not self._pacing:
            self._pacing = True
            self._group.start_soon(self._pace)

    async def _pace(self) -> None:
        """Write rows that were held back, once their time has come."""
        while self._messages.waits:
            await anyio.sleep(PACE)
            self._sender.send(self._messages.news(anyio.current_time()))
        self._pacing = False

    def _beside(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def do() -> None:
            await work()
            self._jobs -= 1
            self._wakeup.notify()

        self._jobs += 1
        self._group.start_soon(do)

    async def _on_event(self, task_id: str, happened: Event) -> None:
        task = self._messages.tasks.get(task_id)
        if task_id == self._messages.root:
            self._watch(happened)
        if task and goes_before(happened, task.view):
            await self._go_back(task, happened)
        replaying = self._messages.replaying
        now = 0.0 if replaying else anyio.current_time()
        lines = self._messages.see(task_id, happened, now)
        if not replaying:
            self._send(lines)
        match happened.fact:
            case ChildBegan(task_id=child) if child in self._messages.tasks:
                self._followed.follow(child)
            case RequestFailed() as failure if self._strict and failure.error not in SELF_HANDLED:
                self._fail(failure)
            case PromptRefused(reason=reason):
                self._refused = reason
            case RequestStarted():
                self._refused = ""
            case Asked(ask=AskKind.COMMAND_OUTPUT):
                await self._requests.answers.handle_offer()
            case _:
                pass
        if not replaying:
            await self._answer_known()

    async def _go_back(self, task: ShownTask, event: Event) -> None:
        assert isinstance(event.fact, Rewound)
        start, removed = task.sealed.cut(event.fact.to)
        view = await view_at(self._host, task.task_id, start, event.seq - 1)
        task.go_back(view, removed)

    def _on_end(self, task_id: str) -> None:
        if task_id in self._messages.tasks:
            self._send(self._messages.end_task(task_id, anyio.current_time()))

    def _catch_up_soon(self, task_id: str) -> None:
        if task_id == self._messages.root:
            # runs as soon as all stored events have been seen
            self._group.start_soon(self._catch_up, task_id)

    async def _catch_up(self, task_id: str) -> None:
        if task_id == self._messages.root:
            self._send(self._messages.catch_up(anyio.current_time()))
            await self._answer_known()
            self._wakeup.notify()

    def _say_next(self, words: str, images: tuple[Image, ...]) -> None:
        self._opening = (words, images)

    async def _answer_known(self) -> None:
        """Answer the open question with a message that was given before it was asked."""
        question = self._messages.question
        if question and question.ask in _RESUMING and self._opening:
            (words, images), self._opening = self._opening, None
            await self._requests.answers.send(question, Say("message", words, images))
        elif early_finish := self._messages.early_finish:
            await self._requests.answers.resume_queued(early_finish)

    def _fail(self, failure: RequestFailed) -> None:
        if self._messages.replaying:
            return
        end = RunEnd(Fate.FAILED, failure.message, code_of_request(failure))
        self._conversation.abort(end)

    async def _task_ended(self, task_id: str) -> None:
        await self._wakeup.wait_for(lambda: task_id not in self._followed.ids, STOP_SECONDS)
