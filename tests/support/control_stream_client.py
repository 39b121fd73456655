"""A program that drives the real command over its two pipes.

with Driver(rookery, *at(server)) as driver:
    driver.send("start", "s1", prompt="go")
    driver.wait(type="control", subtype="done", requestId="s1")
    assert driver.end() == 0
"""

import json
import time
from typing import Any

from support.control_stream_schemas import problem_with
from support.piped_client import PATIENCE, Line, PipedCommand
from support.terminal_session import Installed

FLAGS = ("--print", "--stdin-prompt-stream", "--output-format", "stream-json")
INIT = {"type": "system", "subtype": "init"}


class Driver(PipedCommand):
    def __init__(self, installed: Installed, *flags: str, ready: bool = True) -> None:
        """Wait for the first event, unless `ready` is not expected."""
        super().__init__(installed, *FLAGS, *flags, greeting=INIT if ready else {})

    @property
    def events(self) -> list[Line]:
        return self.lines

    def send(self, command: str, request_id: str, **fields: Any) -> None:
        self.write(json.dumps({"command": command, "requestId": request_id, **fields}) + "\n")

    def done(self, request_id: str) -> Line:
        """The `done` of a request; waits for it if needed."""
        return self._anywhere(request_id, "done")

    def error(self, request_id: str) -> Line:
        return self._anywhere(request_id, "error")

    def replies(self, request_id: str) -> list[tuple[str, str]]:
        """The replies to a request, with their codes."""
        control = self.of(type="control", requestId=request_id)
        return [(event["subtype"], event["code"]) for event in control]

    def check(self) -> None:
        """Check that every event matches the schema, and that every accepted request has at most
        one result, after its ack."""
        for event in self.events:
            assert (problem := problem_with(event)) == "", f"{event} is not an event: {problem}"
        settled: dict[str, list[tuple[str, str]]] = {}
        for event in self.of(type="control"):
            replies = settled.setdefault(event.get("requestId", ""), [])
            replies.append((event["subtype"], event["code"]))
        settled.pop("", None)
        for request_id, replies in settled.items():
            kinds = [subtype for subtype, _ in replies]
            broken = replies[1:] == [("error", "task_error")]
            assert broken or kinds in (["ack"], ["ack", "done"], ["error"]), (request_id, replies)

    def _anywhere(self, request_id: str, subtype: str) -> Line:
        deadline = time.monotonic() + PATIENCE
        while not (found := self.of(type="control", subtype=subtype, requestId=request_id)):
            if not self.read_more(deadline):
                raise AssertionError(f"No {subtype} of {request_id}. What came:\n{self.shown()}")
        return found[0]
