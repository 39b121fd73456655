"""What clients have in common that a program drives with lines.

How lines are read, what of a start's `configuration` has a meaning here, how tasks are followed,
how the driver is told what happens, and how all of it ends. The words are each client's own, and
so is what it does with them.
"""

import errno
import os
import select
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Generic, TypeVar

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup
from msgspec import Struct

from rookery.compat.structured_output.writer import JsonWriter, ReaderLeft
from rookery.core.commands import misspelled_field
from rookery.core.facts import Event
from rookery.core.limits import FailureKind
from rookery.errors import CommandRejected, SettingsError, StorageError
from rookery.protocol.attend import Fate, RunEnd
from rookery.protocol.codec import Host
from rookery.protocol.outcomes import SETTLED_BY_THE_ENGINE

MIB = 1024 * 1024
LONGEST = 64 * MIB
"""Bytes of a line. Of a longer one only the beginning is kept."""
_AT_ONCE = 65536
_LINES_PER_TURN = 50

PIECE = 4096
"""Bytes. A pipe that takes any takes as many at once, so writing them never waits."""


class InputLost(SettingsError):
    """There is an input, but it cannot be read."""


async def input_lines(descriptor: int, longest: int = LONGEST) -> AsyncIterator[bytes]:
    """Each line without its end, which is LF or CRLF; what follows the last end is one too."""
    line = bytearray()
    while data := await _read(descriptor):
        *ended, rest = data.split(b"\n")
        for number, piece in enumerate(ended, 1):
            _add(line, piece, longest)
            yield bytes(line).removesuffix(b"\r")
            line.clear()
            if number % _LINES_PER_TURN == 0:  # so that whoever sends many holds up nothing else
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
            continue  # somebody else has read it
        except OSError as error:
            raise InputLost(
                f"Cannot read the input ({error.strerror}). Give a readable pipe or file."
            ) from error


async def _until_readable(descriptor: int) -> None:
    try:
        await anyio.wait_readable(descriptor)
    except PermissionError:
        # what epoll does not watch is a file or /dev/null, of which reading never waits
        await anyio.lowlevel.checkpoint()


class OutputQueue:
    """What is written goes out as far as the reader takes it; the rest does while `run` runs."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._kept = bytearray()
        self._lost = False
        """Nothing can be written any more, which was said once."""
        self._more = anyio.Event()
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    def fileno(self) -> int:
        return self._descriptor

    def write(self, text: str) -> None:
        if not self._lost:
            self._kept += text.encode()

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
        """Wait for the reader, but not for ever."""
        deadline = time.monotonic() + seconds
        while self._kept and (left := deadline - time.monotonic()) > 0:
            self._push(left)

    def _push(self, seconds: float = 0.0) -> None:
        while self._kept and self._poll.poll(seconds * 1000):
            try:
                sent = os.write(self._descriptor, self._kept[:PIECE])
            except BlockingIOError:  # whoever started us did not want us to wait
                return
            except ConnectionError:
                raise
            except OSError as error:
                raise self._given_up(error) from error
            del self._kept[:sent]

    def _given_up(self, error: OSError) -> Exception:
        self._lost = True
        self._kept.clear()
        if error.errno == errno.EIO:
            return BrokenPipeError(errno.EPIPE, "the terminal was closed")
        return StorageError(
            f"Cannot write the output ({error.strerror}). The session is kept and can be resumed."
        )


APPROVAL = "autoApprovalEnabled"
MODELS = ("model", "apiModelId")
"""The first that is given counts."""

Wanted = TypeVar("Wanted")
Bad = TypeVar("Bad", bound=Exception)
ENDING = 3.0
"""Seconds that a task is given to come to rest when the run ends."""
PATIENCE = 5.0
"""What a reader is given to take the last of what is told."""
LEFT_OPEN = (
    "The input ended while the task waits for an answer ({ask}). Continue with --session-id {id}."
)
MENDED = (*SETTLED_BY_THE_ENGINE, FailureKind.EMPTY)
"""What the engine sees to by itself, however strict the driver is."""
DONE = RunEnd(Fate.COMPLETED)
REFUSED = "A hook refused the message:"


class StartSettings(Struct, frozen=True, kw_only=True):
    """Nothing, or None, leaves a thing as the run was started."""

    mode: str = ""
    provider: str = ""
    model: str = ""
    automatic: bool | None = None
    ignored: tuple[str, ...] = ()
    """What was given and has no meaning here, or not with such a value."""


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
    """Why a start is refused: what it says of approval cannot be understood. Other settings that
    have no meaning here are let through, because other programs send many."""
    if APPROVAL in settings.ignored:
        return f"{APPROVAL} must be true or false. Nothing was done."
    if clause := misspelled_field(settings.ignored, [APPROVAL]):
        return f"The configuration {clause} Nothing was done."
    return ""


class LineReader(Generic[Wanted, Bad]):
    """Reads what each line of the input wants, and counts the lines."""

    def __init__(
        self,
        read: Callable[[bytes, int], Wanted],
        *,
        bad: type[Bad],
        too_long: str,
        refuse: Callable[[Bad, int], None],
    ) -> None:
        """`read` raises `bad` for a line that it cannot read; one that is `too_long` it does not
        get to see. `refuse` tells the driver, with the number of the line."""
        self._read = read
        self._bad = bad
        self._too_long = too_long
        self._refuse = refuse
        self._number = 0

    def wanted(self, line: bytes) -> Wanted | None:
        """None for a blank line, and for one that was refused."""
        self._number += 1
        if not line.strip():
            return None
        try:
            if len(line) > LONGEST:
                raise self._bad(self._too_long.format(number=self._number))
            return self._read(line, self._number)
        except self._bad as bad:
            self._refuse(bad, self._number)
            return None


class News:
    """Has whoever waits for something look again each time that anything has happened."""

    def __init__(self) -> None:
        self._next = anyio.Event()

    def spread(self) -> None:
        self._next.set()
        self._next = anyio.Event()

    async def until(self, holds: Callable[[], bool], seconds: float | None = None) -> None:
        with anyio.move_on_after(seconds):
            while not holds():
                await self._next.wait()


class Telling:
    """Tells the driver, who may read slowly, or not any more."""

    def __init__(self, outbox: OutputQueue) -> None:
        self._outbox = outbox
        self._writer = JsonWriter(outbox)

    def tell(self, told: Iterable[dict[str, Any]]) -> None:
        self._writer.tell(told)

    def tell_last(self, told: Iterable[dict[str, Any]]) -> None:
        self.tell(told)
        self._outbox.empty(PATIENCE)

    async def run(self) -> None:
        try:
            await self._outbox.run()
        except ConnectionError as gone:
            self._writer.give_up()
            raise ReaderLeft from gone


class FollowedTasks:
    """The tasks that the driver is told of, each until it ends."""

    def __init__(
        self,
        host: Host,
        group: TaskGroup,
        news: News,
        *,
        see: Callable[[str, Event], Awaitable[None]],
        ended: Callable[[str], None],
        begun: Callable[[str], None] = lambda task_id: None,
    ) -> None:
        """`begun` is told of a task before the first of its events is asked for."""
        self._host = host
        self._group = group
        self._news = news
        self._see = see
        self._ended = ended
        self._begun = begun
        self.ids: set[str] = set()

    def follow(self, task_id: str, after: int = 0) -> None:
        self.ids.add(task_id)
        self._group.start_soon(self._follow, task_id, after)

    async def _follow(self, task_id: str, after: int) -> None:
        self._begun(task_id)
        # refused means that a child ended before we came: its parent tells the rest
        with suppress(CommandRejected):
            async for event in self._host.follow(task_id, after):
                await self._see(task_id, event)
                self._news.spread()
        self._ended(task_id)
        self.ids.discard(task_id)
        self._news.spread()


class DriverConversation:
    """With the driver, until it is over or something breaks it off."""

    def __init__(self) -> None:
        self._scope = anyio.CancelScope()
        self._broken_off: RunEnd | None = None

    async def hold(self, converse: Callable[[], Awaitable[RunEnd]]) -> RunEnd:
        end = DONE
        with self._scope:
            end = await converse()
        return self._broken_off or end

    def break_off(self, end: RunEnd) -> None:
        self._broken_off = end
        self._scope.cancel()


def left_open(ask: str, task_id: str) -> RunEnd:
    """Nobody can say any more, so what the task asks stays unanswered."""
    return RunEnd(Fate.LEFT, LEFT_OPEN.format(ask=ask, id=task_id), "needs_human")


def cause_of(errors: BaseExceptionGroup[Exception]) -> BaseException:
    """The first of what went wrong."""
    cause: BaseException = errors
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    return cause
