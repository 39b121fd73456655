"""Shared parts of the clients that another program drives with lines of JSON.

Reading lines, the `configuration` of a start, following tasks, writing events, and ending the run.
The message formats are each client's own.
"""

import errno
import os
import select
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup
from msgspec import Struct

from rookery.compat.structured_output.writer import EncodedLines, JsonWriter, Line, ReaderLeft
from rookery.core.commands import CloseTask, misspelled_field
from rookery.core.facts import Event
from rookery.core.limits import FailureKind
from rookery.core.queries import AskModes
from rookery.errors import CommandRejected, SettingsError, StorageError
from rookery.protocol.attend import Fate, RunEnd
from rookery.protocol.codec import Host
from rookery.protocol.outcomes import SETTLED_BY_THE_ENGINE

MIB = 1024 * 1024
LONGEST = 64 * MIB
"""Bytes of a line. Longer lines are cut."""
_AT_ONCE = 65536
_LINES_PER_TURN = 50

PIECE = 4096
"""Bytes to write at once. A writable pipe has room for this many, so writing never blocks."""


class InputLost(SettingsError):
    """The input cannot be read."""


async def input_lines(descriptor: int, longest: int = LONGEST) -> AsyncIterator[bytes]:
    """Yield lines without LF or CRLF, including a last one without a line end."""
    line = bytearray()
    while data := await _read(descriptor):
        *ended, rest = data.split(b"\n")
        for number, piece in enumerate(ended, 1):
            _add(line, piece, longest)
            yield bytes(line).removesuffix(b"\r")
            line.clear()
            if number % _LINES_PER_TURN == 0:  # many lines must not block the loop
                await anyio.lowlevel.checkpoint()
        _add(line, rest, longest)
    if line:
        yield bytes(line).removesuffix(b"\r")


def _add(line: bytearray, piece: bytes, longest: int) -> None:
    line += piece[: max(0, longest + 1 - len(line))]


async def _read(descriptor: int) -> bytes:
    while True:
        try:
            await _until_readable(descriptor)
            return os.read(descriptor, _AT_ONCE)
        except BlockingIOError:
            continue  # another process has read it
        except OSError as error:
            raise InputLost(
                f"Cannot read the input ({error.strerror}). Give a readable pipe or file."
            ) from error


async def _until_readable(descriptor: int) -> None:
    try:
        await anyio.wait_readable(descriptor)
    except PermissionError:
        # epoll refuses files and /dev/null, but reading them never blocks
        await anyio.lowlevel.checkpoint()


class OutputQueue:
    """Writes what the reader accepts at once, and the rest while `run` runs."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._kept: deque[bytearray | memoryview] = deque()
        """Output that the reader has not accepted: text, and pieces also kept elsewhere."""
        self._lost = False
        """Output is no longer possible; the error was raised once."""
        self._more = anyio.Event()
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    def fileno(self) -> int:
        return self._descriptor

    def write(self, text: str) -> None:
        if self._lost:
            return
        last = self._kept[-1] if self._kept else None
        if isinstance(last, bytearray):
            last += text.encode()
        else:
            self._kept.append(bytearray(text.encode()))

    def write_piece(self, piece: bytes) -> None:
        """Write a piece without copying it."""
        if piece and not self._lost:
            self._kept.append(memoryview(piece))

    def flush(self) -> None:
        self._push()
        if self._kept:
            self._more.set()

    async def run(self) -> None:
        while True:
            while self._kept:
                await anyio.wait_writable(self._descriptor)
                self._push()
            self._more = anyio.Event()
            await self._more.wait()

    def empty(self, seconds: float) -> None:
        """Write the rest, waiting at most this many seconds for the reader."""
        deadline = time.monotonic() + seconds
        while self._kept and (left := deadline - time.monotonic()) > 0:
            self._push(left)

    def _push(self, seconds: float = 0.0) -> None:
        while self._kept and self._poll.poll(seconds * 1000):
            try:
                sent = os.write(self._descriptor, self._kept[0][:PIECE])
            except BlockingIOError:  # the parent set O_NONBLOCK
                return
            except ConnectionError:
                raise
            except OSError as error:
                raise self._lost_error(error) from error
            self._drop(sent)

    def _drop(self, sent: int) -> None:
        first = self._kept[0]
        if sent == len(first):
            self._kept.popleft()
        elif isinstance(first, bytearray):
            del first[:sent]
        else:
            self._kept[0] = first[sent:]

    def _lost_error(self, error: OSError) -> Exception:
        self._lost = True
        self._kept.clear()
        if error.errno == errno.EIO:
            return BrokenPipeError(errno.EPIPE, "the terminal was closed")
        return StorageError(
            f"Cannot write the output ({error.strerror}). The session is kept and can be resumed."
        )


APPROVAL = "autoApprovalEnabled"
MODELS = ("model", "apiModelId")
"""The first one given counts."""

Parsed = TypeVar("Parsed")
Bad = TypeVar("Bad", bound=Exception)
STOP_SECONDS = 3.0
"""Seconds a task has to stop when the run ends."""
READ_SECONDS = 5.0
"""Seconds a reader has to read the last output."""
LEFT_OPEN = (
    "The input ended while the task waits for an answer ({ask}). Continue with --session-id {id}."
)
SELF_HANDLED = (*SETTLED_BY_THE_ENGINE, FailureKind.EMPTY)
"""Failures that the engine handles itself, even in strict mode."""
DONE = RunEnd(Fate.COMPLETED)
REFUSED = "A hook refused the message:"


class StartSettings(Struct, frozen=True, kw_only=True):
    """The settings of a start. Empty or None keeps the setting of the run."""

    mode: str = ""
    provider: str = ""
    model: str = ""
    automatic: bool | None = None
    ignored: tuple[str, ...] = ()
    """Unknown settings, and known ones with an invalid value."""

    def with_defaults(self, default: "StartSettings") -> "StartSettings":
        return StartSettings(
            mode=self.mode or default.mode,
            provider=self.provider or default.provider,
            model=self.model or default.model,
            automatic=default.automatic if self.automatic is None else self.automatic,
        )


def start_settings(given: Mapping[str, Any]) -> StartSettings:
    words = {name: text for name, text in given.items() if isinstance(text, str) and text.strip()}
    models = [words[name] for name in MODELS if name in words]
    automatic = given.get(APPROVAL)
    known = {name for name in ("mode", "apiProvider", *MODELS) if name in words}
    if isinstance(automatic, bool):
        known.add(APPROVAL)
    return StartSettings(
        mode=words.get("mode", ""),
        provider=words.get("apiProvider", ""),
        model=models[0] if models else "",
        automatic=automatic if isinstance(automatic, bool) else None,
        ignored=tuple(name for name in given if name not in known),
    )


def approval_problem(settings: StartSettings) -> str:
    """Return why a start is rejected: its approval setting is invalid. Other unknown settings
    are ignored, because other programs send many."""
    if APPROVAL in settings.ignored:
        return f"{APPROVAL} must be true or false. Nothing was done."
    if clause := misspelled_field(settings.ignored, [APPROVAL]):
        return f"The configuration {clause} Nothing was done."
    return ""


async def check_mode(host: Host, mode: str) -> None:
    """Raises `SettingsError` if there is no such mode; empty keeps the mode of the run."""
    known = [each.slug for each in await host.query(AskModes())] if mode else []
    if mode and mode not in known:
        raise SettingsError(f"No such mode: {mode!r}. Available: {', '.join(known)}.")


async def close_task(host: Host, task_id: str) -> None:
    with suppress(CommandRejected):  # already closed
        await host.send(CloseTask(task_id=task_id))


async def parsed_lines(
    lines: AsyncIterator[bytes],
    read: Callable[[bytes, int], Parsed],
    *,
    bad: type[Bad],
    too_long: str,
    refuse: Callable[[Bad, int], None],
) -> AsyncIterator[Parsed]:
    """Parse the lines of the input; blank ones are skipped. `read` raises `bad` for an invalid
    line; lines that are too long are rejected with the text `too_long`. `refuse` reports the error
    with the line number."""
    number = 0
    async for line in lines:
        number += 1
        if not line.strip():
            continue
        try:
            if len(line) > LONGEST:
                raise bad(too_long.format(number=number))
            parsed = read(line, number)
        except bad as problem:
            refuse(problem, number)
        else:
            yield parsed


class Wakeup:
    """Wakes waiting tasks whenever something has happened."""

    def __init__(self) -> None:
        self._next: anyio.Event | None = None

    def notify(self) -> None:
        if self._next:
            self._next.set()
            self._next = None

    async def wait_for(self, condition: Callable[[], bool], seconds: float | None = None) -> None:
        with anyio.move_on_after(seconds):
            while not condition():
                self._next = self._next or anyio.Event()
                await self._next.wait()


class EventSender:
    """Writes to the driver, which may read slowly or close the pipe."""

    def __init__(self, queue: OutputQueue) -> None:
        self._queue = queue
        self._writer = JsonWriter(queue)

    def send(self, events: Iterable[Line]) -> None:
        for each in events:
            if isinstance(each, EncodedLines):
                for piece in each.pieces:
                    self._queue.write_piece(piece)
                self._writer.end_line()
            else:
                self._writer.write([each])

    def send_last(self, events: Iterable[Line]) -> None:
        self.send(events)
        self._queue.empty(READ_SECONDS)

    async def run(self) -> None:
        try:
            await self._queue.run()
        except ConnectionError as gone:
            self._writer.discard()
            raise ReaderLeft from gone


class FollowedTasks:
    """The tasks that are reported to the driver, each until it ends."""

    def __init__(
        self,
        host: Host,
        group: TaskGroup,
        wakeup: Wakeup,
        *,
        see: Callable[[str, Event], Awaitable[None]],
        ended: Callable[[str], None],
        starting: Callable[[str], None] = lambda task_id: None,
    ) -> None:
        """`starting` is called before the first event of a task is requested."""
        self._host = host
        self._group = group
        self._wakeup = wakeup
        self._see = see
        self._ended = ended
        self._starting = starting
        self.ids: set[str] = set()

    def follow(self, task_id: str, after: int = 0) -> None:
        self.ids.add(task_id)
        self._group.start_soon(self._follow, task_id, after)

    async def _follow(self, task_id: str, after: int) -> None:
        self._starting(task_id)
        # rejected if a sub-task has already ended; its parent reports the rest
        with suppress(CommandRejected):
            async for event in self._host.follow(task_id, after):
                await self._see(task_id, event)
                self._wakeup.notify()
        self._ended(task_id)
        self.ids.discard(task_id)
        self._wakeup.notify()


class DriverConversation:
    """The exchange with the driver, until it ends or is broken off."""

    def __init__(self) -> None:
        self._scope = anyio.CancelScope()
        self._aborted: RunEnd | None = None

    async def run(self, exchange: Callable[[], Awaitable[RunEnd]]) -> RunEnd:
        end = DONE
        with self._scope:
            end = await exchange()
        return self._aborted or end

    def abort(self, end: RunEnd) -> None:
        self._aborted = end
        self._scope.cancel()


def unanswered(ask: str, task_id: str) -> RunEnd:
    """Return the end of a run whose question can no longer be answered."""
    return RunEnd(Fate.LEFT, LEFT_OPEN.format(ask=ask, id=task_id), "needs_human")
