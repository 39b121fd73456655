"""Drives a host by JSON commands, one on each line, and writes events.

Commands are carried out in order. A message for a task that is being interrupted has to wait, and
so do the commands after it; ping, cancel and shutdown never wait.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import suppress

import anyio
from anyio.abc import TaskGroup

from rookery.compat.control_stream.event_stream import ControlStream
from rookery.compat.control_stream.stream_commands import (
    CAPABILITIES,
    BadCommand,
    StreamCommand,
    error_reply,
    read_command,
)
from rookery.compat.control_stream.stream_requests import SHUT_DOWN, Requests
from rookery.compat.driver import (
    DONE,
    LONGEST,
    REFUSED,
    SELF_HANDLED,
    STOP_SECONDS,
    DriverConversation,
    EventSender,
    FollowedTasks,
    InputLost,
    OutputQueue,
    Wakeup,
    parsed_lines,
    unanswered,
)
from rookery.compat.structured_output.output_events import init
from rookery.compat.structured_output.writer import ReaderLeft
from rookery.core.commands import ReopenTask
from rookery.core.facts import ChildBegan, Event, RequestFailed
from rookery.errors import CommandRejected, RookeryError, StorageError, first_error
from rookery.protocol.attend import Fate, RunEnd
from rookery.protocol.codec import Host
from rookery.protocol.outcomes import code_of_request

RECOVERY = 8.0
"""Seconds to wait until an interrupted task asks whether to resume."""
RESUMING = 2.0
"""The same for a stored task that was opened."""

NO_COMMAND = (
    "No command was sent. Write one JSON object per line; the first must be a start command."
)
TOO_LONG = f"stdin command line {{number}}: it is longer than {LONGEST} bytes"


class StreamClient:
    """The client of the control stream. It ends with its input, a shutdown, or when its output
    is closed; with `stays` only by a signal."""

    def __init__(
        self,
        lines: AsyncIterator[bytes],
        queue: OutputQueue,
        *,
        first: ReopenTask | None = None,
        stored: Sequence[Event] = (),
        child_events: Iterable[Event] = (),
        stays: bool = False,
        strict: bool = False,
        watch: Callable[[Event], None] = lambda event: None,
        report: Callable[[str], None] = lambda sentence: None,
        error_code: Callable[[RookeryError], str] = lambda refusal: "task_failed",
    ) -> None:
        """`stored` are the events of a resumed task, `child_events` those of its sub-tasks.
        `strict` ends the run at the first failed request; `watch` gets the events of the driven
        task, `report` tells the user why the run ended, and `error_code` returns the code for a
        rejected start."""
        self._commands = parsed_lines(
            lines, read_command, bad=BadCommand, too_long=TOO_LONG, refuse=self._refuse_line
        )
        self._sender = EventSender(queue)
        self._first = first
        self._stored = stored
        self._child_events = child_events
        self._stays = stays
        self._strict = strict
        self._watch = watch
        self._report = report
        self._error_code = error_code
        self._stream = ControlStream()
        self._delayed: deque[StreamCommand] = deque()
        self._wakeup = Wakeup()
        self._got_command = False
        self._leaving = False

    async def run(self, host: Host) -> RunEnd:
        try:
            end = await self._drive(host)
        except* ReaderLeft:
            raise
        except* Exception as errors:
            end = self._report_error(errors)
            if not self._stays:
                raise
        if self._stays:
            self.report_end(end)
            await anyio.sleep_forever()
        return end

    async def on_interrupt(self, host: Host) -> bool:
        return False

    def report_end(self, end: RunEnd) -> None:
        code = "" if end.fate is Fate.COMPLETED else end.code
        with suppress(ReaderLeft):  # the exit code tells it too
            self._sender.send_last(self._stream.finish(code, end.reason))
        if code and end.reason:
            self._report(end.reason)

    def _report_error(self, errors: BaseExceptionGroup[Exception]) -> RunEnd:
        """Report an error and return how the run ends. `report_end` reports storage errors."""
        error = first_error(errors)
        if isinstance(error, StorageError):
            return RunEnd(Fate.FAILED, str(error), "storage_failed")
        reason = f"{type(error).__name__}: {error}"
        self._sender.send_last(self._stream.finish("task_failed", reason))
        return RunEnd(Fate.FAILED, "", "task_failed")

    async def _drive(self, host: Host) -> RunEnd:
        async with anyio.create_task_group() as group:
            self._group: TaskGroup = group
            self._conversation = DriverConversation()
            self._followed = FollowedTasks(
                host, group, self._wakeup, see=self._on_event, ended=self._on_end
            )
            group.start_soon(self._sender.run)
            self._sender.send([init(self._first.task_id if self._first else "", CAPABILITIES)])
            if self._first:
                await self._resume(self._first, host)
            self._requests = Requests(
                host,
                self._stream,
                send=self._sender.send,
                follow=self._followed.follow,
                recovered=self._recovered,
                error_code=self._error_code,
            )
            end = await self._conversation.run(self._exchange)
            await self._leave()
            await self._wakeup.wait_for(self._all_reported, STOP_SECONDS)
            group.cancel_scope.cancel()
        return end

    def _all_reported(self) -> bool:
        return all(map(self._stream.drives, self._followed.ids))

    async def _resume(self, first: ReopenTask, host: Host) -> None:
        self._sender.send(self._stream.resume_task(first.task_id, self._stored, self._child_events))
        await host.send(first)
        self._followed.follow(first.task_id, self._stored[-1].seq if self._stored else 0)
        await self._wakeup.wait_for(lambda: self._stream.question is not None, RESUMING)

    async def _exchange(self) -> RunEnd:
        try:
            async for command in self._commands:
                self._got_command = True
                await self._dispatch(command)
                if command.name == "shutdown":
                    return await self._shut_down(command)
        except InputLost as lost:
            return RunEnd(Fate.LEFT, str(lost), "usage")
        return await self._finish_input()

    def _refuse_line(self, bad: BadCommand, number: int) -> None:
        self._sender.send([error_reply(bad.request_id, bad.command, "invalid_command", str(bad))])

    async def _dispatch(self, command: StreamCommand) -> None:
        urgent = command.name in ("ping", "cancel", "shutdown")
        waits = command.name == "message" and self._stream.cancelling
        if urgent or not (self._delayed or waits):
            await self._requests.carry_out(command)
            return
        self._delayed.append(command)
        if len(self._delayed) == 1:
            self._group.start_soon(self._run_delayed)

    async def _run_delayed(self) -> None:
        while self._delayed:
            command = self._delayed[0]
            if self._leaving:
                self._requests.refuse(command, "client_error", SHUT_DOWN)
            else:
                await self._requests.carry_out(command)
            self._delayed.popleft()
            self._wakeup.notify()

    async def _recovered(self) -> bool:
        await self._wakeup.wait_for(lambda: self._leaving or not self._stream.cancelling, RECOVERY)
        return not self._leaving

    async def _leave(self) -> None:
        """Start nothing more, not even delayed commands."""
        self._leaving = True
        self._wakeup.notify()
        await self._wakeup.wait_for(lambda: not self._delayed)

    async def _shut_down(self, command: StreamCommand) -> RunEnd:
        await self._leave()
        if self._stream.under_way:
            with suppress(CommandRejected):
                await self._requests.interrupt(command.request_id)
            await self._wakeup.wait_for(lambda: not self._stream.busy, STOP_SECONDS)
        return DONE

    async def _finish_input(self) -> RunEnd:
        """Finish after the end of input: questions can no longer be answered."""
        stream = self._stream
        if not self._got_command:
            return RunEnd(Fate.LEFT, NO_COMMAND, "usage")
        await self._wakeup.wait_for(self._is_idle)
        question = stream.question
        if question is None:
            failure = stream.failure
            return RunEnd(Fate.FAILED, failure, stream.failure_code) if failure else DONE
        if stream.refused:
            return RunEnd(Fate.LEFT, f"{REFUSED} {stream.refused}", "governance_refused")
        if stream.complete:
            return DONE
        return unanswered(question.ask, stream.task_id)

    def _is_idle(self) -> bool:
        stream = self._stream
        if self._delayed:
            return False
        return not stream.task_id or (stream.question is not None and stream.early_finish is None)

    async def _on_event(self, task_id: str, event: Event) -> None:
        if task_id == self._stream.task_id:
            self._watch(event)
        self._sender.send(self._stream.see(task_id, event))
        match event.fact:
            case ChildBegan(task_id=child, after=known):
                self._followed.follow(child, known)
            case RequestFailed() as failure if self._strict and failure.error not in SELF_HANDLED:
                self._fail(failure)
            case _:
                pass
        if question := self._stream.early_finish:
            await self._requests.resume_queued(question)

    def _on_end(self, task_id: str) -> None:
        self._sender.send(self._stream.end_task(task_id))

    def _fail(self, failure: RequestFailed) -> None:
        self._sender.send(self._stream.give_up_start(failure.message))
        end = RunEnd(Fate.FAILED, failure.message, code_of_request(failure))
        self._conversation.abort(end)
