"""The commands that a task runs, as `commandExecutionStatus` tells of them."""

import json
from itertools import islice

from rookery.compat.json_io.message_rows import Wire
from rookery.compat.json_io.task_rows import ShownTask
from rookery.compat.structured_output.output_rows import output
from rookery.core.facts import (
    CommandDetached,
    CommandEnded,
    Event,
    StepCancelled,
    TaskClosed,
    ToolFinished,
    ToolStarted,
)
from rookery.core.folds.agent_state import newest_first
from rookery.core.message import Message

_NEAR = 8
"""Rows among which that of a command is which has just been started."""


class RunningCommands:
    """A command is known by the `ts` of the row that asked about it."""

    def __init__(self) -> None:
        self.foreground = ""
        """The call that waits for its command."""
        self._names: dict[str, str] = {}
        self._behind: list[tuple[str, str]] = []
        self._news: list[Wire] = []

    @property
    def behind(self) -> tuple[str, str] | None:
        """The task and the call of the newest command that runs on behind its call."""
        return self._behind[-1] if self._behind else None

    def see(self, task: ShownTask, event: Event) -> None:
        match event.fact:
            case ToolStarted(call_id=call_id, command=command) if command:
                self.foreground = call_id
                self._names[call_id] = _name(task, call_id)
                self._tell(call_id, "started", command=command)
            case CommandDetached(call_id=call_id):
                self._behind.append((task.task_id, call_id))
            case ToolFinished(call_id=call_id, exit_code=code) if call_id == self.foreground:
                self._leave(code)
            case CommandEnded(call_id=call_id, exit_code=code):
                self._behind = [each for each in self._behind if each[1] != call_id]
                self._end(call_id, code)
            case StepCancelled() | TaskClosed():
                self._leave()
            case _:
                pass

    def output(self, row: Message) -> list[Wire]:
        """The output so far, if the row is that of a command's output."""
        if row.say != "command_output" or row.call_id not in self._names:
            return []
        return [_status(self._names[row.call_id], "output", output=row.text or "")]

    def news(self) -> list[Wire]:
        """What is to be told, once."""
        news, self._news = self._news, []
        return news

    def _leave(self, code: int | None = None) -> None:
        call_id, self.foreground = self.foreground, ""
        if all(call_id != each for _, each in self._behind):
            self._end(call_id, code)

    def _end(self, call_id: str, code: int | None) -> None:
        if call_id in self._names:
            self._tell(call_id, "exited", exitCode=code)
            del self._names[call_id]

    def _tell(self, call_id: str, status: str, **more: object) -> None:
        self._news.append(_status(self._names[call_id], status, **more))


def _name(task: ShownTask, call_id: str) -> str:
    near = islice(newest_first(task.view.messages), _NEAR)
    rows = (row for row in near if row.type == "ask" and row.call_id == call_id)
    row = next(rows, None)
    return str(row.ts) if row else call_id


def _status(name: str, status: str, **more: object) -> Wire:
    told = output(executionId=name, status=status, **more)
    return {"type": "commandExecutionStatus", "text": json.dumps(told, ensure_ascii=False)}
