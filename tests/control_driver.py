"""A program that drives the real command over its two pipes.

    with Driver(rookery, *at(server)) as driver:
        driver.send("start", "s1", prompt="go")
        driver.wait(type="control", subtype="done", requestId="s1")
        assert driver.end() == 0

Nothing here sleeps: every wait is for an event or for the end of the process.
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

from stream_schemas import problem_with
from terminal_session import COMMAND, Installed

Told = dict[str, Any]
PATIENCE = 20.0
FLAGS = ("--print", "--stdin-prompt-stream", "--output-format", "stream-json")


class Driver:
    def __init__(self, installed: Installed, *flags: str, ready: bool = True) -> None:
        """Waits for the first event unless it need not be `ready`."""
        self._installed = installed
        self._flags = flags
        self._ready = ready
        self._read = b""
        self._seen = 0
        self.events: list[Told] = []

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            [COMMAND, *FLAGS, *self._flags],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self._installed.workspace,
            env=self._installed.environ,
        )
        assert self.process.stdin
        assert self.process.stdout
        self._in, self._out = self.process.stdin, self.process.stdout
        if self._ready:
            self.wait(type="system", subtype="init")
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
            self._check()

    def send(self, command: str, request_id: str, **fields: Any) -> None:
        self.write(json.dumps({"command": command, "requestId": request_id, **fields}) + "\n")

    def write(self, text: str | bytes) -> None:
        self._in.write(text.encode() if isinstance(text, str) else text)
        self._in.flush()

    def wait(self, **fields: Any) -> Told:
        """The next event with these fields behind the one that was waited for last."""
        deadline = time.monotonic() + PATIENCE
        while True:
            while self._seen < len(self.events):
                self._seen += 1
                event = self.events[self._seen - 1]
                if all(event.get(name) == value for name, value in fields.items()):
                    return event
            if not self._read_more(deadline):
                raise AssertionError(f"{fields} never came. What came:\n{self.shown()}")

    def done(self, request_id: str) -> Told:
        """The `done` of a request, wherever it is or will be."""
        return self._anywhere(request_id, "done")

    def error(self, request_id: str) -> Told:
        return self._anywhere(request_id, "error")

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

    def of(self, **fields: Any) -> list[Told]:
        """All events so far that have these fields."""
        return [
            event
            for event in self.events
            if all(event.get(name) == value for name, value in fields.items())
        ]

    def replies(self, request_id: str) -> list[tuple[str, str]]:
        """What was answered to a request: the kinds of reply and their codes."""
        control = self.of(type="control", requestId=request_id)
        return [(event["subtype"], event["code"]) for event in control]

    def shown(self) -> str:
        return "\n".join(json.dumps(event, ensure_ascii=False)[:300] for event in self.events)

    def _check(self) -> None:
        """Whatever was done, every event is one that the schema knows, and every request that
        was accepted is settled no more than once, and after its ack."""
        for event in self.events:
            assert (problem := problem_with(event)) == "", f"{event} is no event: {problem}"
        settled: dict[str, list[tuple[str, str]]] = {}
        for event in self.of(type="control"):
            replies = settled.setdefault(event.get("requestId", ""), [])
            replies.append((event["subtype"], event["code"]))
        settled.pop("", None)
        for request_id, replies in settled.items():
            kinds = [subtype for subtype, _ in replies]
            broken = replies[1:] == [("error", "task_error")]
            assert broken or kinds in (["ack"], ["ack", "done"], ["error"]), (request_id, replies)

    def _anywhere(self, request_id: str, subtype: str) -> Told:
        deadline = time.monotonic() + PATIENCE
        while not (found := self.of(type="control", subtype=subtype, requestId=request_id)):
            if not self._read_more(deadline):
                raise AssertionError(f"No {subtype} of {request_id}. What came:\n{self.shown()}")
        return found[0]

    def _read_more(self, deadline: float) -> bool:
        """Wait for more events. False once there are no more, or there is no more time."""
        ready, _, _ = select.select([self._out], [], [], max(0.0, deadline - time.monotonic()))
        data = os.read(self._out.fileno(), 1 << 20) if ready else b""
        *lines, self._read = (self._read + data).split(b"\n")
        self.events += [json.loads(line) for line in lines]
        return bool(data)
