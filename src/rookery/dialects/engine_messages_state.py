"""What a webview is shown around the rows: the parts of a `state`, each by its name there."""

from rookery.core.queries import About, KnownTask
from rookery.core.usage import Totals
from rookery.dialects.engine_messages_rows import Wire
from rookery.dialects.engine_messages_task import ShownTask
from rookery.dialects.output_rows import output
from rookery.dialects.start_settings import StartSettings

GRANTS = (
    "alwaysAllowReadOnly",
    "alwaysAllowReadOnlyOutsideWorkspace",
    "alwaysAllowWrite",
    "alwaysAllowWriteOutsideWorkspace",
    "alwaysAllowWriteProtected",
    "alwaysAllowMcp",
    "alwaysAllowModeSwitch",
    "alwaysAllowSubtasks",
    "alwaysAllowExecute",
)
"""Settings that say the same as `autoApprovalEnabled` here: there is one switch."""

PARTS = {
    "mode": ("mode",),
    "model": ("apiConfiguration",),
    "automatic": ("autoApprovalEnabled", *GRANTS),
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
        **dict.fromkeys(GRANTS, automatic),
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
