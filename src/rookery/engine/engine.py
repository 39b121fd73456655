"""The tasks of one process: opens, answers, cancels and follows them."""

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import assert_never

from anyio.abc import TaskGroup
from msgspec.structs import replace

from rookery.core.commands import (
    Answer,
    Cancel,
    CloseTask,
    Command,
    Condense,
    DeleteTask,
    EditQueue,
    OpenTask,
    RemoveRule,
    ReopenTask,
    RestoreFiles,
    RetryNow,
    Rewind,
    SelectIntent,
    Speak,
    StopCommand,
    SwitchApproval,
    SwitchMode,
    SwitchModel,
)
from rookery.core.event_list import EventList, of_kind
from rookery.core.facts import (
    Answered,
    ApprovalSwitched,
    Event,
    Fact,
    ModelSwitched,
    ModeSwitched,
    QueueEdited,
    TaskFailed,
    TaskOpened,
    UserSpoke,
    switched_to,
)
from rookery.core.folds.task_record import fold
from rookery.core.modes import Level
from rookery.engine.event_log import EventLog, append_reopened, recover
from rookery.engine.ports.hooks import LogStore, RuleBook, TaskLogs
from rookery.engine.ports.workspace import Restored
from rookery.engine.task import Task
from rookery.engine.task_deps import Family
from rookery.errors import CommandRejected, RookeryError, StorageError, first_error

_debug = logging.getLogger(__name__)

MOST_QUEUED = 1_000
"""Limited because every change of the queue is reported with the whole queue."""


class Engine:
    """Runs tasks in a task group; they end with it."""

    def __init__(
        self,
        group: TaskGroup,
        logs: TaskLogs,
        make_task: Callable[[str, EventLog, Family], Task],
        *,
        now: Callable[[], int],
        workspace: str,
    ) -> None:
        self._group = group
        self.logs = logs
        self._make_task = make_task
        self._now = now
        self._workspace = workspace
        self._tasks: dict[str, Task] = {}

    async def send(self, command: Command) -> None:
        """Carry out a command. Raises `CommandRejected` with the reason if it cannot."""
        match command:
            case OpenTask():
                self._open(command)
            case ReopenTask():
                self._reopen(command)
            case Answer():
                self._answer(command)
            case Speak():
                self._queue_message(command)
            case EditQueue():
                self._edit_queue(command)
            case Cancel(task_id=task_id):
                self._find(task_id).cancel()
            case RetryNow(task_id=task_id):
                self._find(task_id).retry_now()
            case Condense(task_id=task_id):
                self._find(task_id).condense()
            case CloseTask(task_id=task_id):
                self._find(task_id).close()
            case Rewind(task_id=task_id, to=to):
                task = self._find(task_id)
                task.rewind(settled_before(task.log.events, to))
            case RestoreFiles(task_id=task_id, to=to, overwrite=overwrite):
                task = self._find(task_id)
                task.restore_files(settled_before(task.log.events, to), overwrite=overwrite)
            case StopCommand(task_id=task_id, call_id=call_id):
                self._find(task_id).stop_command(call_id)
            case SwitchMode(task_id=task_id, mode=mode):
                self._find(task_id).log.append(ModeSwitched(mode=mode))
            case SwitchModel(task_id=task_id):
                self._append_to_tree(task_id, _chosen_model(command))
            case SwitchApproval():
                self._switch_level(command)
            case RemoveRule(task_id=task_id, rule_id=rule_id):
                task = self._find(task_id)
                task.dialogue.note(f"Removed: {task.rules.remove(rule_id)}")
            case SelectIntent(task_id=task_id):
                self._find(task_id).carry_out(command)
            case DeleteTask(task_id=task_id):
                self._delete(task_id)
            case _:
                assert_never(command)

    def follow(self, task_id: str, after: int = 0) -> AsyncIterator[Event]:
        if task := self._tasks.get(task_id):
            return task.log.follow(after)
        raise CommandRejected(f"Session {task_id} is not open. Open it first.")

    def events(self, task_id: str) -> EventList:
        """The recorded events of an open task."""
        return self._find(task_id).log.events

    def is_running(self, task_id: str) -> bool:
        task = self._tasks.get(task_id)
        return task is not None and not task.log.ended

    def level(self, task_id: str) -> Level | None:
        """The level of an open task; None: as the run was started."""
        return self._find(task_id).log.state.level

    def rules(self, task_id: str) -> RuleBook:
        """The rules of an open task."""
        return self._find(task_id).rules

    @property
    def is_idle(self) -> bool:
        """Whether every task waits for a message from the user."""
        return all(task.log.ended or task.is_idle for task in self._tasks.values())

    async def rehearse(self, task_id: str, to: int, *, overwrite: bool) -> Restored:
        """What restoring the files of a task would do."""
        task = self._find(task_id)
        return await task.rehearse(settled_before(task.log.events, to), overwrite=overwrite)

    def _open(self, command: OpenTask) -> None:
        if task := self._tasks.get(command.task_id):
            if task.log.ended:
                raise CommandRejected(
                    f"Session {command.task_id} was closed. Reopen it, or use another id."
                )
            return
        if not (command.text.strip() or command.images):
            raise CommandRejected("Give a task.")
        store = self.logs.create(command.task_id)
        try:
            task = self._make(command.task_id, store)
        except RookeryError:
            # such as that the workspace is gone: what holds nothing is no task
            store.close()
            self.logs.delete(command.task_id)
            raise
        task.log.append(
            TaskOpened(
                text=command.text,
                images=command.images,
                mode=command.mode,
                workspace=self._workspace,
            )
        )
        if command.model:
            task.log.append(_chosen_model(command))
        if command.level:
            task.log.append(switched_to(command.level))
        elif command.automatic is not None:
            task.log.append(ApprovalSwitched(automatic=command.automatic))
        if command.intent:
            task.carry_out(SelectIntent(task_id=task.id, intent_id=command.intent))
        self._group.start_soon(self.run, task, name=f"task {task.id}")

    def _reopen(self, command: ReopenTask) -> None:
        task_id = command.task_id
        if (task := self._tasks.get(task_id)) and not task.log.ended:
            return
        store = self.logs.open(task_id)
        task = self._make(task_id, store)
        append_reopened(task.log, store, resumed=False)
        if command.level:
            task.log.append(switched_to(command.level))
        self._group.start_soon(self.run, task, name=f"task {task.id}")

    def _make(self, task_id: str, store: LogStore) -> Task:
        """Make a task that is no agent. A sub-task of a worker stays in the worker's folder."""
        log = EventLog(store, self._now)
        opened = next((e.fact for e in log.events if isinstance(e.fact, TaskOpened)), None)
        own = opened.workspace if opened and opened.parent else ""
        return self._enter(task_id, log, Family(runner=self, workspace=own or self._workspace))

    def log_of(self, task_id: str) -> EventLog:
        return EventLog(self.logs.open(task_id), self._now)

    def make(self, task_id: str, store: LogStore, family: Family) -> Task:
        return self._enter(task_id, EventLog(store, self._now), family)

    def _enter(self, task_id: str, log: EventLog, family: Family) -> Task:
        task = self._make_task(task_id, log, family)
        self._tasks[task_id] = task
        return task

    def _stored(self, task_id: str) -> Task | None:
        exists = self.logs.exists(task_id)
        return self._make(task_id, self.logs.open(task_id)) if exists else None

    async def run(self, task: Task) -> StorageError | None:
        """Run a task. A failure ends only this task. Returns the error if its log could not be
        written."""
        try:
            await recover(task, self._stored)
            await task.run()
        except Exception as error:
            match cause := first_error(error):
                case StorageError():
                    task.log.close(cause)
                    return cause
                case _:
                    _debug.exception("task %s failed", task.id)
                    _record_failure(task.log, cause)
        finally:
            task.log.close()
        return None

    def _answer(self, command: Answer) -> None:
        task = self._find(command.task_id)
        if command.message_id and _was_received(task.log, command.message_id):
            command = replace(command, reply="yes", text="", images=())
        task.dialogue.answer(command)

    def _queue_message(self, command: Speak) -> None:
        log = self._find(command.task_id).log
        if not (command.text.strip() or command.images):
            raise CommandRejected("The message is empty.")
        if not _was_received(log, command.message_id):
            if len(log.state.queue) >= MOST_QUEUED:
                raise CommandRejected(
                    f"{MOST_QUEUED:,} messages are already queued, so this one was "
                    "not; send it again later."
                )
            log.append(
                UserSpoke(message_id=command.message_id, text=command.text, images=command.images)
            )

    def _edit_queue(self, command: EditQueue) -> None:
        log = self._find(command.task_id).log
        if command.message_id not in log.state.queue:
            raise CommandRejected("The model has already read that message.")
        log.append(QueueEdited(message_id=command.message_id, text=command.text))

    def _switch_level(self, command: SwitchApproval) -> None:
        """All tasks of a tree have the same level: a sub-task never has more than its parent."""
        if command.level is None and command.automatic is None:
            raise CommandRejected("Give a level: plan, ask, edits, sandboxed or auto.")
        fact = ApprovalSwitched(automatic=command.automatic)
        root = self._find(command.task_id)
        while (parent := self._tasks.get(root.log.state.parent or "")) and not parent.log.ended:
            root = parent
        self._append_to_tree(root.id, switched_to(command.level) if command.level else fact)

    def _append_to_tree(self, task_id: str, fact: Fact) -> None:
        """Append a fact to a task and all its running sub-tasks."""
        self._find(task_id).log.append(fact)
        for other_id, other in list(self._tasks.items()):
            if other.log.state.parent == task_id and not other.log.ended:
                self._append_to_tree(other_id, fact)

    def _delete(self, task_id: str) -> None:
        if (task := self._tasks.get(task_id)) and not task.log.ended:
            raise CommandRejected(f"Session {task_id} is running. Close it first.")
        self._tasks.pop(task_id, None)
        self.logs.delete(task_id)

    def _find(self, task_id: str) -> Task:
        task = self._tasks.get(task_id)
        if task is None or task.log.ended:
            raise CommandRejected(f"Session {task_id} is not open. Open it first.")
        return task


def _chosen_model(command: OpenTask | SwitchModel) -> ModelSwitched:
    return ModelSwitched(provider=command.provider, model=command.model, effort=command.effort)


def settled_before(events: Sequence[Event], to: int) -> int:
    """Event `to`, or the last event before it at which no call was running."""
    if not 1 <= to <= len(events):
        raise CommandRejected(f"No such event: {to}. The events are 1 to {len(events)}.")
    while fold(events[:to]).running:
        to -= 1
    return to


def _record_failure(log: EventLog, error: BaseException) -> None:
    try:
        log.append(TaskFailed(message=f"{type(error).__name__}: {error}"))
    except StorageError as unwritable:
        log.close(unwritable)


def _was_received(log: EventLog, message_id: str) -> bool:
    """Whether a message with this id was received before: a client may send it twice."""
    facts = (event.fact for event in of_kind(log.events, UserSpoke, Answered))
    said = (fact for fact in facts if isinstance(fact, UserSpoke | Answered))
    return any(fact.message_id == message_id for fact in said)
