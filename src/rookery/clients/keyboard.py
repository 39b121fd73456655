"""Lines typed at a terminal, read without ever blocking the program."""

import os
import select
import termios
from codecs import getincrementaldecoder
from collections.abc import Awaitable, Callable

import anyio

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

    async def _take(self, data: bytes) -> None:
        *lines, self._typed = (self._typed + self._decoder.decode(data)).split("\n")
        for line in lines:
            if self._wanted and not self._begun_unasked:
                self._grant(line)
            elif line.strip():
                await self._unasked(line.strip())
            self._begun_unasked = False

    def _grant(self, line: str | None) -> None:
        if self._wanted:
            self._wanted.line = line
            self._wanted.granted.set()
            self._wanted = None


class _Wish:
    def __init__(self) -> None:
        self.granted = anyio.Event()
        self.line: str | None = None


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
