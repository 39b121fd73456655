"""Task state and events under the names that programs around Roo Code know.

Each line is `{"event": name, "payload": [...]}` with the task's id first. A waiting state is
reported at once, not after a delay. Running commands are reported by `commandExecutionStatus`.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterator
from itertools import islice

from rookery.compat.driver import StartSettings
from rookery.compat.json_io.row_messages import Wire
from rookery.compat.json_io.task_rows import ShownTask
from rookery.compat.structured_output.call_rows import output
from rookery.core.asks import CATEGORY, AskCategory, AskKind
from rookery.core.facts import (
    Answered,
    Asked,
    AssistantSpoke,
    ChildBegan,
    CommandDetached,
    CommandEnded,
    CompletionOffered,
    Ending,
    Event,
    ModeSwitched,
    QueueEdited,
    StepCancelled,
    TaskClosed,
    TaskOpened,
    ToolFinished,
    ToolStarted,
    UserSpoke,
)
from rookery.core.folds.run_tallies import Totals
from rookery.core.message import Message, newest_first
from rookery.core.queries import About, KnownTask


def grants(automatic: bool, allows: Collection[str] = ()) -> dict[str, bool]:
    """Return which actions are auto-approved, under the names of the webview's settings."""
    outside, protected = "outside" in allows, "protected" in allows
    writes = automatic or "edits" in allows
    return {
        "alwaysAllowReadOnly": True,
        "alwaysAllowReadOnlyOutsideWorkspace": outside,
        "alwaysAllowWrite": writes,
        "alwaysAllowWriteOutsideWorkspace": writes and outside,
        "alwaysAllowWriteProtected": writes and protected,
        "alwaysAllowBrowser": automatic,
        "alwaysAllowMcp": automatic,
        "alwaysAllowModeSwitch": automatic or "modes" in allows,
        "alwaysAllowSubtasks": automatic or "subtasks" in allows,
        "alwaysAllowExecute": automatic,
        "alwaysAllowFollowupQuestions": False,
    }


PARTS = {
    "mode": ("mode",),
    "model": ("apiConfiguration",),
    "automatic": ("autoApprovalEnabled", *grants(False)),
    "usage": ("currentTaskItem",),
    "todos": ("currentTaskTodos",),
    "queue": ("messageQueue",),
}
"""The fields of the state that belong to each part of a view."""


def state_fields(about: About, wanted: StartSettings, task: ShownTask | None) -> Wire:
    """Return the whole state except rows and history; missing values are null or empty."""
    view = task.view if task else None
    automatic = wanted.automatic if wanted.automatic is not None else about.automatic
    if view and view.automatic is not None:
        automatic = view.automatic
    provider = (task.provider if task else "") or wanted.provider or about.provider
    model = (view.model if view else "") or wanted.model or about.model
    return {
        "version": about.version,
        "cwd": about.workspace,
        "mode": (view.mode if view else "") or wanted.mode or about.mode,
        "apiConfiguration": {"apiProvider": provider, "apiModelId": model},
        "autoApprovalEnabled": automatic,
        **grants(automatic, about.allows),
        "currentTaskId": task.task_id if task else None,
        "currentTaskItem": _item(task, about) if task else None,
        "currentTaskTodos": [_todo(each) for each in view.todos] if view else [],
        "messageQueue": task.queue() if task else [],
    }


def history(tasks: tuple[KnownTask, ...]) -> list[Wire]:
    return [_known(number, task) for number, task in enumerate(tasks, 1)]


def _todo(todo: object) -> Wire:
    return {name: getattr(todo, name) for name in ("id", "content", "status")}


def _item(task: ShownTask, about: About) -> Wire:
    used: Totals = task.view.usage
    return output(
        id=task.task_id,
        number=1,
        ts=task.began,
        task=task.text,
        tokensIn=used.tokens_in,
        tokensOut=used.tokens_out,
        cacheWrites=used.cache_writes,
        cacheReads=used.cache_reads,
        totalCost=round(used.cost, 8),
        workspace=about.workspace,
        mode=task.view.mode,
        parentTaskId=task.parent,
    )


def _known(number: int, task: KnownTask) -> Wire:
    return output(
        id=task.task_id,
        number=number,
        ts=task.updated or task.created,
        task=task.title,
        tokensIn=task.tokens_in,
        tokensOut=task.tokens_out,
        totalCost=task.cost or 0.0,
        workspace=task.workspace,
        mode=task.mode or None,
        status="completed" if task.status == "completed" else "active",
        parentTaskId=task.parent,
    )


WAITING = {
    AskCategory.INTERACTIVE: "taskInteractive",
    AskCategory.RESUMABLE: "taskResumable",
    AskCategory.IDLE: "taskIdle",
}
_FAILED = (Ending.FAILED, Ending.MISTAKEN)
_RESUMING = (AskKind.RESUME_TASK, AskKind.RESUME_COMPLETED_TASK)

COUNTED = (ToolStarted, ToolFinished, ChildBegan)
"""Facts that later events depend on."""
_NEAR = 8
"""Number of newest rows to search for the row of a command that just started."""


class TaskEvents:
    """The events of one task."""

    def __init__(self) -> None:
        self._tools: dict[str, str] = {}
        self._children: dict[str, dict[str, None]] = {}
        """Sub-tasks by call id, in order."""
        self._attempts: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()

    def see(self, task: ShownTask, event: Event) -> Iterator[Wire]:
        """Return the events for a fact that the task has just applied."""

        def line(name: str, *payload: object) -> Wire:
            return {"event": name, "payload": [task.task_id, *payload]}

        match event.fact:
            case TaskOpened():
                yield line("taskCreated")
                yield line("taskStarted")
            case Asked(ask=ask) if name := WAITING.get(CATEGORY[ask]):
                yield line(name)
            case Answered(ask=ask):
                yield line("taskAskResponded")
                if CATEGORY[ask] in WAITING:
                    yield line("taskStarted" if ask in _RESUMING else "taskActive")
            case UserSpoke():
                yield line("taskUserMessage")
                yield line("queuedMessagesUpdated", task.queue())
            case QueueEdited():
                yield line("queuedMessagesUpdated", task.queue())
            case ModeSwitched(mode=mode):
                yield line("taskModeSwitched", mode)
            case ToolStarted(call_id=call_id, tool=tool):
                self._tools[call_id] = tool
                self._attempts[tool] += 1
            case ToolFinished() as end:
                yield from self._finish(task.task_id, end)
            case ChildBegan(call_id=call_id, task_id=child):
                self._children.setdefault(call_id, {})[child] = None
                yield line("taskDelegated", child)
            case AssistantSpoke():
                yield line("taskTokenUsageUpdated", _usage(task), self._tool_usage())
            case CompletionOffered():
                about = {"isSubtask": task.parent is not None}
                yield line("taskCompleted", _usage(task), self._tool_usage(), about)
            case StepCancelled():
                yield line("taskAborted")
            case _:
                pass

    def _finish(self, task_id: str, end: ToolFinished) -> Iterator[Wire]:
        tool = self._tools.pop(end.call_id, "")
        if end.ending in _FAILED and tool:
            self._failures[tool] += 1
            yield {"event": "taskToolFailed", "payload": [task_id, tool, end.text]}
        for child in self._children.pop(end.call_id, {}):
            yield {"event": "taskDelegationCompleted", "payload": [task_id, child, end.text]}

    def _tool_usage(self) -> Wire:
        return {
            tool: {"attempts": count, "failures": self._failures[tool]}
            for tool, count in self._attempts.items()
        }


def _usage(task: ShownTask) -> Wire:
    used = task.view.usage
    return output(
        totalTokensIn=used.tokens_in,
        totalTokensOut=used.tokens_out,
        totalCacheWrites=used.cache_writes or None,
        totalCacheReads=used.cache_reads or None,
        totalCost=round(used.cost, 8),
        contextTokens=used.context_tokens,
    )


_OF_COMMANDS = {
    *(ToolStarted, CommandDetached, ToolFinished, CommandEnded),
    *(StepCancelled, TaskClosed),
}


class RunningCommands:
    """The running commands. A command's id is the `ts` of the row that asked about it."""

    def __init__(self) -> None:
        self.foreground = ""
        """The call whose command runs in the foreground."""
        self._names: dict[str, str] = {}
        self._background: list[tuple[str, str]] = []
        self._news: list[tuple[str, str, Wire]] = []

    @property
    def background(self) -> tuple[str, str] | None:
        """Task and call of the newest background command."""
        return self._background[-1] if self._background else None

    def see(self, task: ShownTask, event: Event) -> None:
        if type(event.fact) not in _OF_COMMANDS:
            return
        match event.fact:
            case ToolStarted(call_id=call_id, command=command) if command:
                self.foreground = call_id
                self._names[call_id] = _name(task, call_id)
                self._add(call_id, "started", command=command)
            case CommandDetached(call_id=call_id):
                self._background.append((task.task_id, call_id))
            case ToolFinished(call_id=call_id, exit_code=code) if call_id == self.foreground:
                self._leave(code)
            case CommandEnded(call_id=call_id, exit_code=code):
                self._background = [each for each in self._background if each[1] != call_id]
                self._end(call_id, code)
            case StepCancelled() | TaskClosed():
                self._leave()
            case _:
                pass

    def output(self, row: Message) -> list[Wire]:
        """Return the output so far, if the row is a command's output."""
        if row.say != "command_output" or row.call_id not in self._names:
            return []
        return [_status(self._names[row.call_id], "output", output=row.text or "")]

    def news(self) -> Iterator[Wire]:
        """Return the pending lines, each once. They are built when they are read."""
        news, self._news = self._news, []
        return (_status(name, status, **more) for name, status, more in news)

    def _leave(self, code: int | None = None) -> None:
        call_id, self.foreground = self.foreground, ""
        if all(call_id != each for _, each in self._background):
            self._end(call_id, code)

    def _end(self, call_id: str, code: int | None) -> None:
        if call_id in self._names:
            self._add(call_id, "exited", exitCode=code)
            del self._names[call_id]

    def _add(self, call_id: str, status: str, **more: object) -> None:
        self._news.append((self._names[call_id], status, more))


def _name(task: ShownTask, call_id: str) -> str:
    near = islice(newest_first(task.view.messages), _NEAR)
    rows = (row for row in near if row.type == "ask" and row.call_id == call_id)
    row = next(rows, None)
    return str(row.ts) if row else call_id


def _status(name: str, status: str, **more: object) -> Wire:
    fields = output(executionId=name, status=status, **more)
    return {"type": "commandExecutionStatus", "text": json.dumps(fields, ensure_ascii=False)}
