"""Lines typed at a terminal, read without ever blocking the program."""

import os
from collections.abc import Awaitable, Callable

import anyio


class Keyboard:
    """Whoever waits for a line gets the next one. A line nobody waited for was said unasked:
    it must never answer the question that happens to come up next.
    """

    def __init__(self, descriptor: int, unasked: Callable[[str], Awaitable[None]]) -> None:
        self._descriptor = descriptor
        self._unasked = unasked
        self._typed = ""
        self._wanted: _Wish | None = None

    async def run(self) -> None:
        """Read until the terminal is gone."""
        while True:
            await anyio.wait_readable(self._descriptor)
            try:
                data = os.read(self._descriptor, 4096)
            except OSError:
                return self._grant(None)
            if not data:
                self._grant(None)
                continue
            *lines, self._typed = (self._typed + data.decode("utf-8", "replace")).split("\n")
            for line in lines:
                if self._wanted:
                    self._grant(line)
                elif line.strip():
                    await self._unasked(line.strip())

    async def line(self) -> str | None:
        """The next line that is typed from now on, or None at the end of input."""
        self._wanted = wish = _Wish()
        try:
            await wish.granted.wait()
        finally:
            self._wanted = None
        return wish.line

    def _grant(self, line: str | None) -> None:
        if self._wanted:
            self._wanted.line = line
            self._wanted.granted.set()
            self._wanted = None


class _Wish:
    def __init__(self) -> None:
        self.granted = anyio.Event()
        self.line: str | None = None
