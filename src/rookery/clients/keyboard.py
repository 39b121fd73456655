"""Lines typed at a terminal, read without ever blocking the program."""

import os
import select
import termios
from codecs import getincrementaldecoder
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress

import anyio

from rookery.clients.typed_line import TimedLine, TypedLine

_LOCAL_FLAGS, _CHARACTERS = 3, 6
_MOST = 65536


class Keyboard:
    """Whoever waits for a line gets the next one. A line that nobody waited for is said unasked,
    and so is one that was begun before the last `hear_out`: it must never answer the question
    that happens to come up next.
    """

    def __init__(self, descriptor: int, unasked: Callable[[str], Awaitable[None]]) -> None:
        self._descriptor = descriptor
        self._unasked = unasked
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._typed = ""
        """The line that Enter has not ended yet."""
        self._begun_unasked = False
        self._wanted: _Wish | None = None
        self._by_keys: TypedLine | None = None
        """A line that is read key by key, so that the first one is noticed."""

    async def run(self) -> None:
        """Read until the terminal is gone."""
        while True:
            await anyio.wait_readable(self._descriptor)
            if not _readable(self._descriptor):
                continue
            try:
                data = os.read(self._descriptor, _MOST)
            except OSError:
                return self._grant(None)
            if data:
                await self._take(data)
            elif _hung_up(self._descriptor):
                return self._grant(None)
            else:
                self._grant(None)

    async def hear_out(self) -> None:
        """Let what has been typed so far be said unasked, also the line that is being typed."""
        await self._take(_typed_so_far(self._descriptor))
        self._begun_unasked = bool(self._typed)

    async def line(self) -> str | None:
        """The next line, or None at the end of input."""
        self._wanted = wish = _Wish()
        try:
            await wish.granted.wait()
        finally:
            self._wanted = None
        return wish.line

    async def line_within(self, seconds: float, show: Callable[[str], None]) -> TimedLine:
        """The next line, unless nobody has begun one in time. A key that was pressed stops the
        clock for good. `show` is given what is to be seen of the typing."""
        self._by_keys = typed = TypedLine(show)
        try:
            with _keys_one_by_one(self._descriptor):
                with anyio.move_on_after(seconds):
                    await typed.begun.wait()
                if not typed.begun.is_set():
                    return TimedLine("", timed_out=True)
                await typed.ended.wait()
                return typed.result
        finally:
            self._by_keys = None

    async def _take(self, data: bytes) -> None:
        text = self._decoder.decode(data)
        if self._by_keys and self._begun_unasked:
            self._by_keys.begun.set()
        elif self._by_keys:
            text = self._by_keys.take(text)
        *lines, self._typed = (self._typed + text).split("\n")
        for line in lines:
            if self._wanted and not self._begun_unasked:
                self._grant(line)
            elif line.strip():
                await self._unasked(line.strip())
            self._begun_unasked = False

    def _grant(self, line: str | None) -> None:
        if line is None and self._by_keys:
            self._by_keys.end_of_input()
        if self._wanted:
            self._wanted.line = line
            self._wanted.granted.set()
            self._wanted = None


class _Wish:
    def __init__(self) -> None:
        self.granted = anyio.Event()
        self.line: str | None = None


@contextmanager
def _keys_one_by_one(descriptor: int) -> Iterator[None]:
    """Every key is handed out at once, also Ctrl-C, and none is shown by the terminal itself,
    which is as before when this is left, however it is left."""
    usual = termios.tcgetattr(descriptor)
    keys = [*usual[:_CHARACTERS], [*usual[_CHARACTERS]]]
    keys[_LOCAL_FLAGS] &= ~(termios.ICANON | termios.ECHO | termios.ISIG)
    keys[_CHARACTERS][termios.VMIN], keys[_CHARACTERS][termios.VTIME] = 1, 0
    termios.tcsetattr(descriptor, termios.TCSADRAIN, keys)
    try:
        yield
    finally:
        with suppress(termios.error):  # the terminal is gone, and so is how it was
            termios.tcsetattr(descriptor, termios.TCSADRAIN, usual)


def _readable(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], 0)[0])


def _hung_up(descriptor: int) -> bool:
    """Whether the end of input is that of the terminal, which is there for ever."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return bool(poll.poll(0))


def _typed_so_far(descriptor: int) -> bytes:
    """All that has been typed, with a line that Enter has not ended, which a terminal hands out
    only while it does not wait for whole lines.
    """
    try:
        usual = termios.tcgetattr(descriptor)
        eager = [*usual[:_CHARACTERS], [*usual[_CHARACTERS]]]
        eager[_LOCAL_FLAGS] &= ~termios.ICANON
        eager[_CHARACTERS][termios.VMIN] = eager[_CHARACTERS][termios.VTIME] = 0
        termios.tcsetattr(descriptor, termios.TCSANOW, eager)
        try:
            return os.read(descriptor, _MOST)
        finally:
            termios.tcsetattr(descriptor, termios.TCSANOW, usual)
    except (termios.error, OSError):
        return b""  # the terminal is gone, and `run` is about to notice
