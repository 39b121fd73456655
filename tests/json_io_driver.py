"""A webview or a manager that drives the real command with `--json-io` over its two pipes.

    with JsonIo(rookery, *at(server)) as driver:
        driver.send("newTask", text="go")
        driver.wait_row(ask="completion_result")
        assert driver.end() == 0

Nothing here sleeps: every wait is for a line or for the end of the process. Every line is checked
against the published schema.
"""

import json
import os
import select
import signal
import subprocess
import time
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from engine_schema import problem_with
from rookery.dialects.extension_client import ExtensionClient
from terminal_session import COMMAND, Installed

Line = dict[str, Any]
PATIENCE = 20.0


class JsonIo:
    def __init__(self, installed: Installed, *flags: str) -> None:
        self._installed = installed
        self._flags = flags
        self._read = b""
        self._seen = 0
        self.bytes = 0
        self.lines: list[Line] = []
        self.client = ExtensionClient(lambda message: self.send(**message))
        """What a program makes of the lines that are for a webview."""

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            [COMMAND, "--json-io", *self._flags],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self._installed.workspace,
            env=self._installed.environ,
        )
        assert self.process.stdin
        assert self.process.stdout
        self._in, self._out = self.process.stdin, self.process.stdout
        self.wait(event="welcome")
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
            for line in self.lines:
                assert (problem := problem_with(line)) == "", f"{line} is no line: {problem}"

    def send(self, type: str, **fields: Any) -> None:
        self.write(json.dumps({"type": type, **fields}) + "\n")

    def write(self, text: str | bytes) -> None:
        self._in.write(text.encode() if isinstance(text, str) else text)
        self._in.flush()

    def wait(self, **fields: Any) -> Line:
        """The next line with these fields behind the one that was waited for last."""
        deadline = time.monotonic() + PATIENCE
        while True:
            while self._seen < len(self.lines):
                self._seen += 1
                line = self.lines[self._seen - 1]
                if _fits(line, fields):
                    return line
            if not self._read_more(deadline):
                raise AssertionError(f"{fields} never came. What came:\n{self.shown()}")

    def wait_row(self, **fields: Any) -> Line:
        """The next row that is complete and has these fields, in whichever spelling."""
        deadline = time.monotonic() + PATIENCE
        while True:
            while self._seen < len(self.lines):
                self._seen += 1
                for row in rows_in(self.lines[self._seen - 1]):
                    if "partial" not in row and _fits(row, {"isAnswered": None, **fields}):
                        return row
            if not self._read_more(deadline):
                raise AssertionError(f"{fields} never came. What came:\n{self.shown()}")

    def wait_state(self, name: str) -> Any:
        """What the next `state` that has such a part says of it."""
        while name not in (state := self.wait(type="state")["state"]):
            pass
        return state[name]

    def end(self) -> int:
        """Close the input, read everything, and give the exit code."""
        self._in.close()
        return self.exit_code()

    def exit_code(self) -> int:
        deadline = time.monotonic() + PATIENCE
        while self._read_more(deadline):
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
        """All lines so far that have these fields."""
        return [line for line in self.lines if _fits(line, fields)]

    def rows(self, **fields: Any) -> list[Line]:
        """The rows as they stand for whoever has read every line, those with these fields."""
        rows: dict[float, Line] = {}
        for line in self.lines:
            if "clineMessages" in line.get("state", {}):
                rows.clear()
            for gone in line["ts"] if line.get("event") == "messages_removed" else ():
                rows.pop(gone, None)
            rows.update({row["ts"]: row for row in rows_in(line)})
        return [row for row in rows.values() if _fits(row, fields)]

    def shown(self) -> str:
        return "\n".join(json.dumps(line, ensure_ascii=False)[:300] for line in self.lines)

    def _read_more(self, deadline: float) -> bool:
        """Wait for more lines. False once there are no more, or there is no more time."""
        ready, _, _ = select.select([self._out], [], [], max(0.0, deadline - time.monotonic()))
        data = os.read(self._out.fileno(), 1 << 20) if ready else b""
        self.bytes += len(data)
        *lines, self._read = (self._read + data).split(b"\n")
        for line in map(json.loads, lines):
            self.lines.append(line)
            self.client.handle_message(line)
        return bool(data)


def rows_in(line: Line) -> list[Line]:
    if "clineMessage" in line:
        return [line["clineMessage"]]
    if "state" in line:
        return list(line["state"].get("clineMessages", ()))
    return [line] if line.get("type") in ("ask", "say") else []


def _fits(line: Line, fields: Line) -> bool:
    return all(line.get(name) == value for name, value in fields.items())
