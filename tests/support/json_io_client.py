"""A webview or a manager that drives the real command with `--json-io` over its two pipes.

    with JsonIo(rookery, *at(server)) as driver:
        driver.send("newTask", text="go")
        driver.wait_row(ask="completion_result")
        assert driver.end() == 0

Every line is checked against the published schema.
"""

import json
from typing import Any

from rookery.compat.json_io.client import ExtensionClient
from support.json_io_schema import problem_with
from support.piped_client import Line, PipedCommand, fits
from support.terminal_session import Installed


class JsonIo(PipedCommand):
    def __init__(self, installed: Installed, *flags: str) -> None:
        super().__init__(installed, "--json-io", *flags, greeting={"event": "welcome"})
        self.client = ExtensionClient(lambda message: self.send(**message))
        """The state that a client computes from the lines for a webview."""

    def send(self, type: str, **fields: Any) -> None:
        self.write(json.dumps({"type": type, **fields}) + "\n")

    def wait_row(self, **fields: Any) -> Line:
        """The next complete row with these fields, in any spelling."""
        return self.wait_for(lambda line: _complete_row(line, fields), fields)

    def wait_state(self, name: str) -> Any:
        """The part `name` of the next `state` that has it."""
        while name not in (state := self.wait(type="state")["state"]):
            pass
        return state[name]

    def rows(self, **fields: Any) -> list[Line]:
        """The rows with these fields, after all lines so far have been applied."""
        rows: dict[float, Line] = {}
        for line in self.lines:
            if "clineMessages" in line.get("state", {}):
                rows.clear()
            for gone in line["ts"] if line.get("event") == "messages_removed" else ():
                rows.pop(gone, None)
            rows.update({row["ts"]: row for row in rows_in(line)})
        return [row for row in rows.values() if fits(row, fields)]

    def check(self) -> None:
        for line in self.lines:
            assert (problem := problem_with(line)) == "", f"{line} is not a line: {problem}"

    def came(self, line: Line) -> None:
        self.client.handle_message(line)


def rows_in(line: Line) -> list[Line]:
    if "clineMessage" in line:
        return [line["clineMessage"]]
    if "state" in line:
        return list(line["state"].get("clineMessages", ()))
    return [line] if line.get("type") in ("ask", "say") else []


def _complete_row(line: Line, fields: Line) -> Line | None:
    complete = (row for row in rows_in(line) if "partial" not in row)
    return next((row for row in complete if fits(row, {"isAnswered": None, **fields})), None)
