"""The messages to the driver of `--json-io`, in one of two formats.

Until it sends `webviewDidLaunch`, the driver is a session manager: each row is a line of its own.
After that it is a webview: it gets everything as a `state`, then each row as `messageUpdated`, and
other changes as a partial `state`.

A manager sees the rows of the session and the questions of its sub-tasks. A webview sees one task
at a time, the one that is working.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct

from rookery.compat.driver import StartSettings
from rookery.compat.json_io.row_messages import Wire
from rookery.compat.json_io.task_events import (
    COUNTED,
    PARTS,
    RunningCommands,
    TaskEvents,
    history,
    state_fields,
)
from rookery.compat.json_io.task_rows import ShownTask
from rookery.compat.structured_output.call_rows import output
from rookery.compat.structured_output.writer import Line
from rookery.core.asks import CATEGORY, AskCategory, AskKind
from rookery.core.facts import (
    Asked,
    ChildBegan,
    Condensed,
    Event,
    Noted,
    RequestStarted,
    TaskClosed,
)
from rookery.core.message import Message
from rookery.core.queries import About, KnownTask
from rookery.core.text.terminal_text import shortened

LONGEST_TITLE = 120
_RESUMING = (AskKind.RESUME_TASK, AskKind.RESUME_COMPLETED_TASK)
_COMPLETE = (AskKind.COMPLETION_RESULT, AskKind.RESUME_COMPLETED_TASK)

_CONDENSING_ENDS = (Condensed, Noted, RequestStarted, Asked, TaskClosed)


class WebviewQuestion(Struct, frozen=True, kw_only=True):
    """An open question and its task."""

    task_id: str
    row: Message

    @property
    def ask(self) -> AskKind:
        return AskKind(str(self.row.ask))


def event(name: str, **fields: object) -> Wire:
    return output(event=name, **fields)


def error(sentence: str, details: object = None) -> Wire:
    return event("error", error=sentence, details=details)


def title(text: str) -> str:
    return shortened(" ".join(text.split()), LONGEST_TITLE, "...")


_AskedBy: TypeAlias = Callable[[ShownTask], Message | None]


class EngineMessages:
    """Builds the lines for the driver. Nothing is written here: each method returns the lines."""

    def __init__(self, about: About) -> None:
        self.about = about
        self.wanted = StartSettings()
        """Settings for new tasks that differ from those of the run."""
        self.root = ""
        """The driven task; empty if there is none."""
        self.cancelling = False
        """The task is being interrupted, and has not asked yet whether to resume."""
        self.replaying = False
        """Stored events are being read; they are reported together at the end."""
        self._launched = False
        self._shown = ""
        """The task whose rows the webview shows."""
        self.tasks: dict[str, ShownTask] = {}
        """The task and its sub-tasks, each followed by its own child."""
        self._over = False
        self._answered: set[str] = set()
        """Questions answered here whose `Answered` fact has not arrived yet."""
        self._announced = ""
        """The last question that the user was notified of."""
        self._versions = 0
        self.commands = RunningCommands()
        self._condensing = ""
        self._events: defaultdict[str, TaskEvents] = defaultdict(TaskEvents)

    @property
    def task(self) -> ShownTask | None:
        return self.tasks.get(self.root)

    @property
    def at_work(self) -> ShownTask | None:
        """The innermost sub-task, or the task itself."""
        started = (task for task in reversed(self.tasks.values()) if task.view.seq)
        return next(started, self.task)

    @property
    def question(self) -> WebviewQuestion | None:
        return self._asking(lambda task: task.question)

    @property
    def offer(self) -> WebviewQuestion | None:
        """The running command, if it can be continued in the background or ended."""
        return self._asking(lambda task: task.offer)

    @property
    def early_finish(self) -> WebviewQuestion | None:
        """A completion question that was asked although messages are still queued."""
        question = self.question
        if question is None or question.ask is not AskKind.COMPLETION_RESULT:
            return None
        return question if self.tasks[question.task_id].view.queue else None

    @property
    def over(self) -> bool:
        """Whether the task has ended, or there is none."""
        return not self.root or self._over

    @property
    def busy(self) -> bool:
        return not self.over and self.question is None

    @property
    def complete(self) -> bool:
        question = self.question
        return question is not None and question.ask in _COMPLETE and self.early_finish is None

    @property
    def failure(self) -> str:
        return self.task.failure if self.task else ""

    @property
    def waits(self) -> bool:
        """Whether a row is held back and must be written later."""
        return not self.replaying and any(task.waits for task in self._reported_tasks())

    def answer(self, question: WebviewQuestion) -> None:
        self._answered.add(question.row.ask_id)

    def unanswer(self, question: WebviewQuestion) -> None:
        """Forget an answer that was rejected."""
        self._answered.discard(question.row.ask_id)

    def begin(self) -> list[Wire]:
        return [event("welcome", version=self.about.version, workspace=self.about.workspace)]

    def drive(self, task_id: str) -> None:
        """Drive this task from now on; nothing is known of it yet."""
        self.root, self.cancelling, self._over = task_id, False, False
        self.replaying = bool(task_id)
        self.tasks = {task_id: ShownTask(task_id)}
        self._answered.clear()
        self._events.clear()
        self.commands = RunningCommands()
        self._condensing = ""

    def leave(self) -> list[Line]:
        """Stop driving the task, after it was closed."""
        self.drive("")
        self.tasks = {}
        if self._launched:
            return [self._snapshot()]
        return [event("status", message="The task was closed.")]

    def created(self, now: int, text: str = "") -> list[Wire]:
        """Report that the task was opened at `now`. `text` is the message of a new task."""
        named = {"sessionId": self.root, "timestamp": now}
        lines = [event("session_created", **named)]
        if text.strip():
            lines.append(event("session_title_generated", **named, title=title(text)))
            lines += [event(name, payload=[self.root]) for name in ("taskCreated", "taskStarted")]
            if self._launched:
                lines.append({"type": "invoke", "invoke": "newChat"})
        return lines

    def launch(self, tasks: tuple[KnownTask, ...]) -> list[Line]:
        """Return everything for a webview that was opened or reloaded."""
        self._launched = True
        return [self._snapshot(taskHistory=history(tasks)), {"type": "theme", "text": "{}"}]

    def history(self, tasks: tuple[KnownTask, ...]) -> list[Wire]:
        if not self._launched:
            return []
        return [{"type": "taskHistoryUpdated", "taskHistory": history(tasks)}]

    def show_again(self) -> list[Line]:
        return [self._snapshot()] if self._launched else self._lines(0.0, again=True)

    def choose(self, settings: StartSettings) -> list[Wire]:
        """Store settings for new tasks."""
        self.wanted = settings.with_defaults(self.wanted)
        # changes of a running task are reported when they happen
        tells = self._launched and self.over
        return [self._partial(("mode", "model", "automatic"))] if tells else []

    def condense(self, task_id: str) -> list[Wire]:
        self._condensing = task_id
        return [{"type": "condenseTaskContextStarted", "text": task_id}]

    def condensed(self) -> list[Wire]:
        """Report the end of condensing, whatever its result."""
        task_id, self._condensing = self._condensing, ""
        return [{"type": "condenseTaskContextResponse", "text": task_id}]

    def see(self, task_id: str, event: Event, now: float) -> list[Line]:
        """Return the lines for an event of the task or a sub-task."""
        task = self.tasks.get(task_id)
        if task is None:
            return []
        if self.replaying:
            self._read(task, event)
            return []
        task.learn(event)
        self._track(task, event)
        ended = self._condensing and isinstance(event.fact, _CONDENSING_ENDS)
        happened = [*self._events[task_id].see(task, event)]
        return [*(self.condensed() if ended else ()), *self.news(now), *happened]

    def catch_up(self, now: float) -> list[Line]:
        """Stop replaying: report what was read, and from now on everything as it happens."""
        self.replaying = False
        for task in self.tasks.values():
            task.catch_up()
        self._shown = ""
        return self.news(now)

    def news(self, now: float) -> list[Line]:
        """Return the rows that are due, and other changes."""
        if self.replaying:
            return []
        return list(self._webview_news(now)) if self._launched else self._lines(now)

    def end_task(self, task_id: str, now: float) -> list[Line]:
        """Report that a task has ended."""
        if task_id == self.root:
            self._over, self.cancelling, self.replaying = True, False, False
            self.tasks[task_id].catch_up()
            self.tasks = {task_id: self.tasks[task_id]}
            return self.news(now)
        lines: list[Line] = [] if self._launched else self._lines(now)
        if self.tasks.pop(task_id, None) and self._launched:
            lines.append(self._snapshot())
        return lines

    def _asking(self, asked_by: _AskedBy) -> WebviewQuestion | None:
        for task in () if self._over or self.replaying else reversed(self.tasks.values()):
            row = asked_by(task)
            if row:
                settled = row.ask_id in self._answered
                return None if settled else WebviewQuestion(task_id=task.task_id, row=row)
        return None

    def _read(self, task: ShownTask, event: Event) -> None:
        """Apply a stored event. Nothing is written about it before `catch_up`."""
        task.read(event)
        self.commands.see(task, event)
        if isinstance(event.fact, COUNTED):
            deque(self._events[task.task_id].see(task, event), maxlen=0)

    def _track(self, task: ShownTask, event: Event) -> None:
        self.commands.see(task, event)
        match event.fact:
            case ChildBegan(task_id=child):
                self.tasks[child] = ShownTask(child)
            case Asked(ask=ask) if ask in _RESUMING and task.task_id == self.root:
                self.cancelling = False
                self.tasks = {self.root: task}
            case _:
                pass

    def _reported_tasks(self) -> Sequence[ShownTask]:
        if self._launched:
            return [self.at_work] if self.at_work else []
        return list(self.tasks.values())

    def _lines(self, now: float, *, again: bool = False) -> list[Line]:
        """Return each row as a line; of sub-tasks only the questions."""
        lines: list[Line] = []
        self.commands.news()  # dropped: a manager reads the rows instead
        for task in self.tasks.values():
            rows = list(task.view.messages) if again else task.news(now)
            gone = task.gone()
            if task.task_id == self.root:
                lines += [event("messages_removed", ts=gone)] if gone else []
                lines += task.sealed_lines(again=again)
                lines += [task.as_message(row) for row in rows]
            else:
                asked = [row for row in rows if _is_question(row)]
                lines += [{**task.as_message(row), "taskId": task.task_id} for row in asked]
        return lines

    def _webview_news(self, now: float) -> Iterator[Line]:
        task = self.at_work
        if task is None:
            return
        if task.gone() or task.task_id != self._shown:
            yield self._snapshot()
        else:
            for row in task.news(now):
                yield {"type": "messageUpdated", "clineMessage": task.as_message(row)}
                yield from self.commands.output(row)
            if task.parts & PARTS.keys():
                yield self._partial(task.parts)
                task.parts.clear()
        yield from self.commands.news()
        question = self.question
        if question and question.row.ask_id != self._announced and _needs_a_person(question):
            self._announced = question.row.ask_id
            yield {"type": "interactionRequired"}

    def _snapshot(self, **more: object) -> Line:
        task = self.at_work
        self._versions += 1
        self._shown = task.task_id if task else ""
        whole = {
            **state_fields(self.about, self.wanted, task),
            "clineMessages": (rows := task.messages() if task else []),
            "clineMessagesSeq": self._versions,
            **more,
        }
        if task:
            task.parts.clear()
        line = {"type": "state", "state": whole}
        return task.sealed.whole(line, rows) if task and task.sealed else line

    def _partial(self, parts: Iterable[str]) -> Wire:
        names = [name for part in parts for name in PARTS.get(part, ())]
        known = state_fields(self.about, self.wanted, None if self.over else self.at_work)
        return {"type": "state", "state": {name: known[name] for name in names}}


def _is_question(row: Message) -> bool:
    """Whether the row is a question that blocks, or has blocked, a task."""
    return bool(row.ask_id) and row.ask != AskKind.COMMAND_OUTPUT


def _needs_a_person(question: WebviewQuestion) -> bool:
    return CATEGORY[question.ask] is AskCategory.INTERACTIVE
