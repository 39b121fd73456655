"""What the driver of `--json-io` is told, in one of two spellings.

Until it says `webviewDidLaunch` it is told as a manager of sessions: each row as a line of its
own. From then on it is told as a webview: first everything as a `state`, then each row as
`messageUpdated` and what changes beside the rows as a `state` that holds only that.

A manager sees the rows of the session and, of a task that works for it, what that asks. A webview
sees one task at a time, whichever is at work.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from rookery.compat.driver import StartSettings
from rookery.compat.json_io.task_events import (
    PARTS,
    RunningCommands,
    TaskEvents,
    history,
    surroundings,
)
from rookery.compat.json_io.task_rows import ShownTask, Wire
from rookery.compat.structured_output.call_rows import output
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

LONGEST_TITLE = 120
_CUT = "..."
_RESUMING = (AskKind.RESUME_TASK, AskKind.RESUME_COMPLETED_TASK)
_COMPLETE = (AskKind.COMPLETION_RESULT, AskKind.RESUME_COMPLETED_TASK)

_CONDENSING_ENDS = (Condensed, Noted, RequestStarted, Asked, TaskClosed)


class WebviewQuestion(Struct, frozen=True, kw_only=True):
    """What a task asks, and of which task."""

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
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_TITLE else line[: LONGEST_TITLE - len(_CUT)] + _CUT


_AskedBy: TypeAlias = Callable[[ShownTask], Message | None]


class EngineMessages:
    """Nothing here is sent to anybody: each method gives the lines to be written."""

    def __init__(self, about: About) -> None:
        self.about = about
        self.wanted = StartSettings()
        """How tasks to come begin, where it is not as the run was started."""
        self.root = ""
        """The task that is driven; nothing if there is none."""
        self.cancelling = False
        """It is being interrupted, and does not yet ask whether to go on."""
        self.replaying = False
        """What comes is on record from earlier; it is told all at once when it is through."""
        self._launched = False
        self._shown = ""
        """The task whose rows the webview has."""
        self._tasks: dict[str, ShownTask] = {}
        """The task and those that work for it, each followed by its own child."""
        self._over = False
        self._answered: set[str] = set()
        """Questions that were answered from here; their end is about to be told."""
        self._announced = ""
        """The question that a person was called for last."""
        self._versions = 0
        self._commands = RunningCommands()
        self._condensing = ""
        self._events: dict[str, TaskEvents] = {}

    @property
    def tasks(self) -> Mapping[str, ShownTask]:
        """The task and those that work for it."""
        return self._tasks

    @property
    def task(self) -> ShownTask | None:
        return self._tasks.get(self.root)

    @property
    def at_work(self) -> ShownTask | None:
        """The task, or the innermost of those that work for it."""
        begun = (task for task in reversed(self._tasks.values()) if task.view.seq)
        return next(begun, self.task)

    @property
    def question(self) -> WebviewQuestion | None:
        return self._asking(lambda task: task.question)

    @property
    def offer(self) -> WebviewQuestion | None:
        """The command that runs, if it can be let run on or be ended."""
        return self._asking(lambda task: task.offer)

    @property
    def command(self) -> str:
        """The call whose command is waited for."""
        return self._commands.foreground

    @property
    def command_behind(self) -> tuple[str, str] | None:
        """The task and the call of the newest command that runs on behind its call."""
        return self._commands.behind

    @property
    def overheard(self) -> WebviewQuestion | None:
        """The question whether all is done, asked just before the model was to hear more."""
        question = self.question
        if question is None or question.ask is not AskKind.COMPLETION_RESULT:
            return None
        return question if self._tasks[question.task_id].view.queue else None

    @property
    def over(self) -> bool:
        """Nothing more will come of the task."""
        return not self.root or self._over

    @property
    def busy(self) -> bool:
        return not self.over and self.question is None

    @property
    def complete(self) -> bool:
        question = self.question
        return question is not None and question.ask in _COMPLETE and self.overheard is None

    @property
    def failure(self) -> str:
        return self.task.failure if self.task else ""

    @property
    def waits(self) -> bool:
        """Some row has to be told once its time has come."""
        return not self.replaying and any(task.waits for task in self._told_tasks())

    def answer(self, question: WebviewQuestion) -> None:
        self._answered.add(question.row.ask_id)

    def unanswer(self, question: WebviewQuestion) -> None:
        """The answer was refused."""
        self._answered.discard(question.row.ask_id)

    def begin(self) -> list[Wire]:
        return [event("welcome", version=self.about.version, workspace=self.about.workspace)]

    def drive(self, task_id: str) -> None:
        """From now on it is this task that is told of; nothing is known of it yet."""
        self.root, self.cancelling, self._over = task_id, False, False
        self.replaying = bool(task_id)
        self._tasks = {task_id: ShownTask(task_id)}
        self._answered.clear()
        self._events.clear()
        self._commands = RunningCommands()
        self._condensing = ""

    def leave(self) -> list[Wire]:
        """The task was closed."""
        self.drive("")
        self._tasks = {}
        if self._launched:
            return [self._snapshot()]
        return [event("status", message="The task was closed.")]

    def created(self, now: int, text: str = "") -> list[Wire]:
        """The task is there since `now`; what is older was there before. `text` is what a new one
        was begun with."""
        named = {"sessionId": self.root, "timestamp": now}
        told = [event("session_created", **named)]
        if text.strip():
            told.append(event("session_title_generated", **named, title=title(text)))
            told += [event(name, payload=[self.root]) for name in ("taskCreated", "taskStarted")]
            if self._launched:
                told.append({"type": "invoke", "invoke": "newChat"})
        return told

    def launch(self, tasks: tuple[KnownTask, ...]) -> list[Wire]:
        """A webview is there, perhaps once more. It draws in its own colours."""
        self._launched = True
        return [self._snapshot(taskHistory=history(tasks)), {"type": "theme", "text": "{}"}]

    def history(self, tasks: tuple[KnownTask, ...]) -> list[Wire]:
        if not self._launched:
            return []
        return [{"type": "taskHistoryUpdated", "taskHistory": history(tasks)}]

    def show_again(self) -> list[Wire]:
        return [self._snapshot()] if self._launched else self._lines(0.0, again=True)

    def choose(self, settings: StartSettings) -> list[Wire]:
        """Tasks to come begin like this."""
        self.wanted = StartSettings(
            mode=settings.mode or self.wanted.mode,
            provider=settings.provider or self.wanted.provider,
            model=settings.model or self.wanted.model,
            automatic=self.wanted.automatic if settings.automatic is None else settings.automatic,
        )
        # what becomes of the task that is there is told when it does
        tells = self._launched and self.over
        return [self._partial(("mode", "model", "automatic"))] if tells else []

    def condense(self, task_id: str) -> list[Wire]:
        self._condensing = task_id
        return [{"type": "condenseTaskContextStarted", "text": task_id}]

    def condensed(self) -> list[Wire]:
        """It is over, whatever came of it."""
        task_id, self._condensing = self._condensing, ""
        return [{"type": "condenseTaskContextResponse", "text": task_id}]

    def see(self, task_id: str, event: Event, now: float) -> list[Wire]:
        """What one more event of the task, or of one that works for it, leads to."""
        task = self._tasks.get(task_id)
        if task is None:
            return []
        task.learn(event)
        self._mind(task, event)
        ended = self._condensing and isinstance(event.fact, _CONDENSING_ENDS)
        happened = [*self._events.setdefault(task_id, TaskEvents()).see(task, event)]
        told = [*(self.condensed() if ended else ()), *self.news(now)]
        return told if self.replaying else [*told, *happened]

    def catch_up(self, now: float) -> list[Wire]:
        """From now on everything is told as it comes."""
        self.replaying = False
        self._shown = ""
        return self.news(now)

    def news(self, now: float) -> list[Wire]:
        """The rows whose time has come, and what changed beside them."""
        if self.replaying:
            return []
        return list(self._webview_news(now)) if self._launched else self._lines(now)

    def end_task(self, task_id: str, now: float) -> list[Wire]:
        """Nothing more will come of a task."""
        if task_id == self.root:
            self._over, self.cancelling, self.replaying = True, False, False
            self._tasks = {task_id: self._tasks[task_id]}
            return self.news(now)
        told = [] if self._launched else self._lines(now)
        if self._tasks.pop(task_id, None) and self._launched:
            told.append(self._snapshot())
        return told

    def _asking(self, asked_by: _AskedBy) -> WebviewQuestion | None:
        for task in () if self._over or self.replaying else reversed(self._tasks.values()):
            row = asked_by(task)
            if row:
                settled = row.ask_id in self._answered
                return None if settled else WebviewQuestion(task_id=task.task_id, row=row)
        return None

    def _mind(self, task: ShownTask, event: Event) -> None:
        self._commands.see(task, event)
        match event.fact:
            case ChildBegan(task_id=child) if not self.replaying:
                self._tasks[child] = ShownTask(child)
            case Asked(ask=ask) if ask in _RESUMING and task.task_id == self.root:
                self.cancelling = False
                self._tasks = {self.root: task}
            case _:
                pass

    def _told_tasks(self) -> Sequence[ShownTask]:
        if self._launched:
            return [self.at_work] if self.at_work else []
        return list(self._tasks.values())

    def _lines(self, now: float, *, again: bool = False) -> list[Wire]:
        """Each row as a line. Of a task that works for the session only its questions are."""
        told: list[Wire] = []
        self._commands.news()  # a manager reads the rows instead
        for task in self._tasks.values():
            rows = list(task.view.messages) if again else task.news(now)
            gone = task.gone()
            if task.task_id == self.root:
                told += [event("messages_removed", ts=gone)] if gone else []
                told += [task.spelled(row) for row in rows]
            else:
                asked = [row for row in rows if _is_question(row)]
                told += [{**task.spelled(row), "taskId": task.task_id} for row in asked]
        return told

    def _webview_news(self, now: float) -> Iterator[Wire]:
        task = self.at_work
        if task is None:
            return
        if task.gone() or task.task_id != self._shown:
            yield self._snapshot()
        else:
            for row in task.news(now):
                yield {"type": "messageUpdated", "clineMessage": task.spelled(row)}
                yield from self._commands.output(row)
            if task.parts & PARTS.keys():
                yield self._partial(task.parts)
                task.parts.clear()
        yield from self._commands.news()
        question = self.question
        if question and question.row.ask_id != self._announced and _needs_a_person(question):
            self._announced = question.row.ask_id
            yield {"type": "interactionRequired"}

    def _snapshot(self, **more: object) -> Wire:
        task = self.at_work
        self._versions += 1
        self._shown = task.task_id if task else ""
        whole = {
            **surroundings(self.about, self.wanted, task),
            "clineMessages": task.messages() if task else [],
            "clineMessagesSeq": self._versions,
            **more,
        }
        if task:
            task.parts.clear()
        return {"type": "state", "state": whole}

    def _partial(self, parts: Iterable[str]) -> Wire:
        names = [name for part in parts for name in PARTS.get(part, ())]
        known = surroundings(self.about, self.wanted, None if self.over else self.at_work)
        return {"type": "state", "state": {name: known[name] for name in names}}


def _is_question(row: Message) -> bool:
    """Whether it stops, or has stopped, a task."""
    return bool(row.ask_id) and row.ask != AskKind.COMMAND_OUTPUT


def _needs_a_person(question: WebviewQuestion) -> bool:
    return CATEGORY[question.ask] is AskCategory.INTERACTIVE
