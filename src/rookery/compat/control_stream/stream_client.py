"""Drives a host by commands from a stream of lines, and tells what happens.

Commands are carried out in their order. Only a message for a task that is being interrupted has
to wait, and what comes after it waits too; ping, cancel and shutdown never do.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import suppress

import anyio
from anyio.abc import TaskGroup

from rookery.compat.control_stream.event_stream import ControlStream
from rookery.compat.control_stream.stream_commands import (
    BadCommand,
    CancelTask,
    Ping,
    SendMessage,
    Shutdown,
    StreamCommand,
    read_command,
)
from rookery.compat.control_stream.stream_requests import NOT_ANY_MORE, Requests
from rookery.compat.driver import (
    DONE,
    ENDING,
    LONGEST,
    MENDED,
    REFUSED,
    DriverConversation,
    FollowedTasks,
    InputLost,
    LineReader,
    News,
    OutputQueue,
    Telling,
    cause_of,
    left_open,
)
from rookery.compat.structured_output.writer import ReaderLeft
from rookery.core.commands import ReopenTask
from rookery.core.facts import ChildBegan, Event, RequestFailed
from rookery.core.limits import FailureKind
from rookery.errors import CommandRejected, RookeryError, StorageError
from rookery.protocol.attend import Fate, RunEnd
from rookery.protocol.codec import Host

RECOVERY = 8.0
"""Seconds until a task that was interrupted asks whether to go on."""
RESUMING = 2.0
"""The same for a stored task that was opened."""

NO_COMMAND = (
    "No command was sent. Write one JSON object per line; the first must be a start command."
)
TOO_LONG = f"stdin command line {{number}}: it is longer than {LONGEST} bytes"

_CODES = {
    FailureKind.BAD_KEY: "auth_failed",
    FailureKind.NO_CREDIT: "no_credit",
    FailureKind.BUSY: "rate_limited",
}


class StreamClient:
    """A client for programs. It ends with its input, with a shutdown, or when nobody reads its
    output any more; one that `stays` ends by a signal only."""

    def __init__(
        self,
        lines: AsyncIterator[bytes],
        outbox: OutputQueue,
        *,
        first: ReopenTask | None = None,
        stored: Sequence[Event] = (),
        worked: Iterable[Event] = (),
        stays: bool = False,
        strict: bool = False,
        watch: Callable[[Event], None] = lambda event: None,
        complain: Callable[[str], None] = lambda sentence: None,
        blame: Callable[[RookeryError], str] = lambda refusal: "task_failed",
    ) -> None:
        """`stored` is what a task to be resumed has on record, and `worked` what those have that
        worked for it. `strict` ends the run with the first request that fails; `watch` sees the
        events of the task that is driven, `complain` tells a person why the run ended, and
        `blame` gives the code of what a start was refused with."""
        self._lines = lines
        self._telling = Telling(outbox)
        self._first = first
        self._stored = stored
        self._worked = worked
        self._stays = stays
        self._strict = strict
        self._watch = watch
        self._complain = complain
        self._blame = blame
        self._stream = ControlStream()
        self._delayed: deque[StreamCommand] = deque()
        self._reader = LineReader(
            read_command, bad=BadCommand, too_long=TOO_LONG, refuse=self._refuse_line
        )
        self._news = News()
        self._heard_any = False
        self._leaving = False

    async def run(self, host: Host) -> RunEnd:
        try:
            end = await self._drive(host)
        except* ReaderLeft:
            raise
        except* Exception as errors:
            end = self._broke(errors)
            if not self._stays:
                raise
        if self._stays:
            self.ended(end)
            await anyio.sleep_forever()
        return end

    async def stopped(self, host: Host) -> bool:
        return False

    def ended(self, end: RunEnd) -> None:
        code = "" if end.fate is Fate.COMPLETED else end.code
        with suppress(ReaderLeft):  # how it ended is also in the exit code
            self._telling.tell_last(self._stream.finish(code, end.reason))
        if code and end.reason:
            self._complain(end.reason)

    def _broke(self, errors: BaseExceptionGroup[Exception]) -> RunEnd:
        """What went wrong, once it was told. What cannot be kept is told when the run ends."""
        error = cause_of(errors)
        if isinstance(error, StorageError):
            return RunEnd(Fate.FAILED, str(error), "storage_failed")
        reason = f"{type(error).__name__}: {error}"
        self._telling.tell_last(self._stream.finish("task_failed", reason))
        return RunEnd(Fate.FAILED, "", "task_failed")

    async def _drive(self, host: Host) -> RunEnd:
        async with anyio.create_task_group() as group:
            self._group: TaskGroup = group
            self._conversation = DriverConversation()
            self._followed = FollowedTasks(
                host, group, self._news, see=self._tell_event, ended=self._tell_end
            )
            group.start_soon(self._telling.run)
            self._telling.tell(self._stream.begin(self._first.task_id if self._first else ""))
            if self._first:
                await self._resume(self._first, host)
            self._requests = Requests(
                host,
                self._stream,
                tell=self._telling.tell,
                follow=self._followed.follow,
                recovered=self._recovered,
                blame=self._blame,
            )
            end = await self._conversation.hold(self._converse)
            await self._leave()
            await self._news.until(self._all_told, ENDING)
            group.cancel_scope.cancel()
        return end

    def _all_told(self) -> bool:
        return all(map(self._stream.drives, self._followed.ids))

    async def _resume(self, first: ReopenTask, host: Host) -> None:
        self._telling.tell(self._stream.resume_task(first.task_id, self._stored, self._worked))
        await host.send(first)
        self._followed.follow(first.task_id, self._stored[-1].seq if self._stored else 0)
        await self._news.until(lambda: self._stream.question is not None, RESUMING)

    async def _converse(self) -> RunEnd:
        try:
            async for line in self._lines:
                command = self._reader.wanted(line)
                if command is None:
                    continue
                self._heard_any = True
                await self._hear(command)
                if isinstance(command, Shutdown):
                    return await self._shut_down(command)
        except InputLost as lost:
            return RunEnd(Fate.LEFT, str(lost), "usage")
        return await self._out_of_input()

    def _refuse_line(self, bad: BadCommand, number: int) -> None:
        self._telling.tell([self._stream.refuse_line(bad)])

    async def _hear(self, command: StreamCommand) -> None:
        hurried = isinstance(command, Ping | CancelTask | Shutdown)
        waits = isinstance(command, SendMessage) and self._stream.cancelling
        if hurried or not (self._delayed or waits):
            await self._requests.carry_out(command)
            return
        self._delayed.append(command)
        if len(self._delayed) == 1:
            self._group.start_soon(self._catch_up)

    async def _catch_up(self) -> None:
        while self._delayed:
            command = self._delayed[0]
            if self._leaving:
                self._requests.refuse(command, "client_error", NOT_ANY_MORE)
            else:
                await self._requests.carry_out(command)
            self._delayed.popleft()
            self._news.spread()

    async def _recovered(self) -> bool:
        await self._news.until(lambda: self._leaving or not self._stream.cancelling, RECOVERY)
        return not self._leaving

    async def _leave(self) -> None:
        """Nothing new is begun, not even what was to wait for its turn."""
        self._leaving = True
        self._news.spread()
        await self._news.until(lambda: not self._delayed)

    async def _shut_down(self, command: Shutdown) -> RunEnd:
        await self._leave()
        if self._stream.under_way:
            with suppress(CommandRejected):
                await self._requests.interrupt(command.request_id)
            await self._news.until(lambda: not self._stream.busy, ENDING)
        return DONE

    async def _out_of_input(self) -> RunEnd:
        """Nobody can say any more, so what the task asks now stays unanswered."""
        stream = self._stream
        if not self._heard_any:
            return RunEnd(Fate.LEFT, NO_COMMAND, "usage")
        await self._news.until(self._at_rest)
        question = stream.question
        if question is None:
            failure = stream.failure
            return RunEnd(Fate.FAILED, failure, stream.failure_code) if failure else DONE
        if stream.refused:
            return RunEnd(Fate.LEFT, f"{REFUSED} {stream.refused}", "governance_refused")
        if stream.complete:
            return DONE
        return left_open(question.ask, stream.task_id)

    def _at_rest(self) -> bool:
        stream = self._stream
        if self._delayed:
            return False
        return not stream.task_id or (stream.question is not None and stream.overheard is None)

    async def _tell_event(self, task_id: str, event: Event) -> None:
        if task_id == self._stream.task_id:
            self._watch(event)
        self._telling.tell(self._stream.see(task_id, event))
        match event.fact:
            case ChildBegan(task_id=child, after=known):
                self._followed.follow(child, known)
            case RequestFailed() as failure if self._strict and failure.error not in MENDED:
                self._strike(failure)
            case _:
                pass
        if question := self._stream.overheard:
            await self._requests.hear_out(question)

    def _tell_end(self, task_id: str) -> None:
        self._telling.tell(self._stream.end_task(task_id))

    def _strike(self, failure: RequestFailed) -> None:
        code = _CODES.get(failure.error, "task_failed")
        self._telling.tell(self._stream.give_up_start(failure.message))
        self._conversation.break_off(RunEnd(Fate.FAILED, failure.message, code))
