"""What a webview is shown around the rows: the parts of a `state`, each by its name there."""

from collections.abc import Collection

from rookery.compat.driver import StartSettings
from rookery.compat.json_io.message_rows import Wire
from rookery.compat.json_io.task_rows import ShownTask
from rookery.compat.structured_output.output_rows import output
from rookery.core.folds.run_tallies import Totals
from rookery.core.queries import About, KnownTask


def grants(automatic: bool, allows: Collection[str] = ()) -> dict[str, bool]:
    """What is done without a question, setting by setting as webviews know them."""
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
"""What of a state tells each part of a view."""


def surroundings(about: About, wanted: StartSettings, task: ShownTask | None) -> Wire:
    """Everything but the rows and the history; what is not there is null, or empty."""
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
    """The stored tasks, newest first."""
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
