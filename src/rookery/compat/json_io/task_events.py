"""What happens to a task, by the names that programs around Roo Code know.

Each line is `{"event": name, "payload": [...]}` with the task's id first. A state that waits for
somebody is told at once, not after a delay.
"""

from collections import Counter
from collections.abc import Iterator

from rookery.compat.json_io.message_rows import Wire
from rookery.compat.json_io.task_rows import ShownTask
from rookery.compat.structured_output.output_rows import output
from rookery.core.asks import CATEGORY, AskCategory, AskKind
from rookery.core.facts import (
    Answered,
    Asked,
    AssistantSpoke,
    ChildBegan,
    CompletionOffered,
    Ending,
    Event,
    ModeSwitched,
    QueueEdited,
    StepCancelled,
    TaskOpened,
    ToolFinished,
    ToolStarted,
    UserSpoke,
)

WAITING = {
    AskCategory.INTERACTIVE: "taskInteractive",
    AskCategory.RESUMABLE: "taskResumable",
    AskCategory.IDLE: "taskIdle",
}
NAMES = (
    *("taskCreated", "taskStarted", "taskCompleted", "taskAborted", "taskActive"),
    *WAITING.values(),
    *("taskDelegated", "taskDelegationCompleted", "taskModeSwitched", "taskAskResponded"),
    *("taskUserMessage", "queuedMessagesUpdated", "taskToolFailed", "taskTokenUsageUpdated"),
)
_FAILED = (Ending.FAILED, Ending.MISTAKEN)
_RESUMING = (AskKind.RESUME_TASK, AskKind.RESUME_COMPLETED_TASK)


class TaskEvents:
    """The events of one task, fact by fact."""

    def __init__(self) -> None:
        self._tools: dict[str, str] = {}
        self._children: dict[str, str] = {}
        self._attempts: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()

    def see(self, task: ShownTask, event: Event) -> Iterator[Wire]:
        """What the task has just learnt from `event`."""

        def said(name: str, *payload: object) -> Wire:
            return {"event": name, "payload": [task.task_id, *payload]}

        match event.fact:
            case TaskOpened():
                yield said("taskCreated")
                yield said("taskStarted")
            case Asked(ask=ask) if name := WAITING.get(CATEGORY[ask]):
                yield said(name)
            case Answered(ask=ask):
                yield said("taskAskResponded")
                if CATEGORY[ask] in WAITING:
                    yield said("taskStarted" if ask in _RESUMING else "taskActive")
            case UserSpoke():
                yield said("taskUserMessage")
                yield said("queuedMessagesUpdated", task.queue())
            case QueueEdited():
                yield said("queuedMessagesUpdated", task.queue())
            case ModeSwitched(mode=mode):
                yield said("taskModeSwitched", mode)
            case ToolStarted(call_id=call_id, tool=tool):
                self._tools[call_id] = tool
                self._attempts[tool] += 1
            case ToolFinished() as end:
                yield from self._finish(task.task_id, end)
            case ChildBegan(call_id=call_id, task_id=child):
                self._children[call_id] = child
                yield said("taskDelegated", child)
            case AssistantSpoke():
                yield said("taskTokenUsageUpdated", _usage(task), self._tool_usage())
            case CompletionOffered():
                about = {"isSubtask": task.parent is not None}
                yield said("taskCompleted", _usage(task), self._tool_usage(), about)
            case StepCancelled():
                yield said("taskAborted")
            case _:
                pass

    def _finish(self, task_id: str, end: ToolFinished) -> Iterator[Wire]:
        tool = self._tools.pop(end.call_id, "")
        if end.ending in _FAILED and tool:
            self._failures[tool] += 1
            yield {"event": "taskToolFailed", "payload": [task_id, tool, end.text]}
        if child := self._children.pop(end.call_id, ""):
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
