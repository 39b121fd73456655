"""A client of the real command over its two pipes, with a JSON object on each line.

Nothing here sleeps: every wait is for a line or for the end of the process.
"""

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from support.terminal_session import Installed

Line = dict[str, Any]
PATIENCE = 60.0


class PipedCommand:
    def __init__(self, installed: Installed, *arguments: str, greeting: Line) -> None:
        """Waits for a line with the fields of `greeting`, if it has any."""
        self._installed = installed
        self._arguments = arguments
        self._greeting = greeting
        self._read = b""
        self._seen = 0
        self.lines: list[Line] = []

    def __enter__(self) -> Self:
        self.process = self._installed.piped(*self._arguments)
        assert self.process.stdin
        assert self.process.stdout
        self._in, self._out = self.process.stdin, self.process.stdout
        if self._greeting:
            self.wait(**self._greeting)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            with suppress(BrokenPipeError):
                if pipe:
                    pipe.close()
        if error is None:
            self.check()

    def check(self) -> None:
        """Check what must be true of all lines of any run."""

    def write(self, text: str | bytes) -> None:
        self._in.write(text.encode() if isinstance(text, str) else text)
        self._in.flush()

    def wait(self, **fields: Any) -> Line:
        """The next line with these fields, after the last one that was waited for."""
        return self.wait_for(lambda line: line if fits(line, fields) else None, fields)

    def wait_for(self, find: Callable[[Line], Line | None], wanted: Line) -> Line:
        """The next result of `find` that is not None, after the last line that was waited for."""
        deadline = time.monotonic() + PATIENCE
        while True:
            while self._seen < len(self.lines):
                self._seen += 1
                if (found := find(self.lines[self._seen - 1])) is not None:
                    return found
            if not self.read_more(deadline):
                ended = self.process.poll()
                raise AssertionError(
                    f"{wanted} never came; the exit code is {ended}. What came:\n{self.shown()}"
                )

    def end(self) -> int:
        """Close the input, read everything, and return the exit code."""
        self._in.close()
        return self.exit_code()

    def exit_code(self) -> int:
        deadline = time.monotonic() + PATIENCE
        while self.read_more(deadline):
            pass
        try:
            code = self.process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise AssertionError(f"It did not end. What came:\n{self.shown()}") from None
        assert self.process.stderr
        self.complaints = self.process.stderr.read().decode()
        assert "Traceback" not in self.complaints, self.complaints
        return code

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop_reading(self) -> None:
        self._out.close()

    def of(self, **fields: Any) -> list[Line]:
        """All lines so far with these fields."""
        return [line for line in self.lines if fits(line, fields)]

    def shown(self) -> str:
        return "\n".join(json.dumps(line, ensure_ascii=False)[:300] for line in self.lines)

    def read_more(self, deadline: float) -> bool:
        """Wait for more lines. False at the end of the output, or on a timeout."""
        ready, _, _ = select.select([self._out], [], [], max(0.0, deadline - time.monotonic()))
        data = os.read(self._out.fileno(), 1 << 20) if ready else b""
        *lines, self._read = (self._read + data).split(b"\n")
        for line in map(json.loads, lines):
            self.lines.append(line)
            self.came(line)
        return bool(data)

    def came(self, line: Line) -> None:
        """Called for every line."""


def fits(line: Line, fields: Line) -> bool:
    return all(line.get(name) == value for name, value in fields.items())
