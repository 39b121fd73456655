"""What the driver of a process is told: of its commands, and of the task that they drive.

One task is driven at a time, with those that work for it. A turn of it begins with what the
driver says and ends with one `result` for each request that it answers; the command that started
the task is closed with its first turn. Nothing here is sent to anybody: each method gives the
events to be written.
"""

from collections.abc import Iterable, Iterator

from rookery.compat.control_stream.followed_task import (
    Attribution,
    StreamQuestion,
    StreamRefusal,
    ToldChild,
    ToldTask,
    change_between,
    goes_on,
)
from rookery.compat.control_stream.stream_commands import (
    CAPABILITIES,
    REPLY_CONTENTS,
    BadCommand,
    StreamCommand,
    ack_reply,
    done_reply,
    error_reply,
)
from rookery.compat.structured_output.call_rows import Ids, Output, output
from rookery.compat.structured_output.output_events import init
from rookery.core.asks import AskKind, Reply
from rookery.core.facts import (
    Answered,
    Asked,
    ChildBegan,
    CompletionOffered,
    Event,
    PromptRefused,
    RequestStarted,
    StepCancelled,
    TaskClosed,
    TaskFailed,
    TaskOpened,
    ToolStarted,
    UserSpoke,
)
from rookery.core.folds.agent_state import AgentState

_RESUMING = (AskKind.RESUME_TASK, AskKind.RESUME_COMPLETED_TASK)
_COMPLETE = (AskKind.COMPLETION_RESULT, AskKind.RESUME_COMPLETED_TASK)
_AT_WORK = (AgentState.RUNNING, AgentState.STREAMING, AgentState.WAITING_FOR_INPUT)


class ControlStream:
    def __init__(self) -> None:
        self.task_id = ""
        """The task that is driven; nothing if there is none."""
        self.start = ""
        """The request that started it, until that is settled."""
        self.refused = ""
        """Why a hook refused what was said last, if nothing was sent since."""
        self.cancelling = False
        """It is being interrupted, and does not yet ask whether to go on."""
        self.failure = ""
        """Why the task that was driven last came to no good end, or was not begun, if so."""
        self.failure_code = "task_failed"
        self._opening = ("", "")
        """The task of a start that was accepted and its request, until that task is open."""
        self._ids = Ids()
        self._by = Attribution()
        self._tasks: dict[str, ToldTask] = {}
        """The task and those that work for it, each followed by its own child."""
        self._answered = ""
        """The question that was answered last; the log may not say so yet."""
        self._in_turn = False
        self._in_turn_before = False
        """The same before the last answer."""
        self._offered = False

    @property
    def state(self) -> AgentState:
        if not self.task_id:
            return AgentState.NO_TASK
        if self.cancelling or not self._tasks:
            return AgentState.RUNNING
        at_work = self._at_work
        question = at_work.question
        answered = question is not None and question.ask_id == self._answered
        state = at_work.view.agent.state
        return AgentState.RUNNING if answered or state is AgentState.NO_TASK else state

    @property
    def busy(self) -> bool:
        """Something is under way that nobody may start over."""
        return any(self._opening) or self.state in _AT_WORK

    @property
    def under_way(self) -> bool:
        """Something can be interrupted: also what waits for another try, or for new work."""
        return self.busy or self._in_turn

    @property
    def question(self) -> StreamQuestion | None:
        """What stops the task, or the one that works for it, until it is answered."""
        waits = self.state not in (AgentState.NO_TASK, AgentState.RUNNING, AgentState.STREAMING)
        return self._at_work.question if waits else None

    @property
    def listener(self) -> str:
        """The task that hears what is said now: whichever is at work."""
        return self._at_work.task_id if self._tasks else self.task_id

    @property
    def overheard(self) -> StreamQuestion | None:
        """The question whether all is done, asked just before the model was to hear more."""
        question = self.question
        if question is None or question.ask is not AskKind.COMPLETION_RESULT:
            return None
        return question if self._at_work.queue else None

    @property
    def complete(self) -> bool:
        """The task waits for nothing but new work."""
        question = self.question
        return question is not None and question.ask in _COMPLETE and not self._at_work.queue

    def drives(self, task_id: str) -> bool:
        """Whether it is the task, or one that works for it."""
        return task_id in self._tasks

    def begin(self, task_id: str = "") -> list[Output]:
        return [init(task_id, CAPABILITIES)]

    def accept_start(self, command: StreamCommand, task_id: str) -> Output:
        """A task is about to be opened. Until it is, the one before is driven."""
        self._opening = (task_id, command.request_id)
        return ack_reply(command.request_id, command.name, task_id)

    def refuse_start(self, content: str, code: str) -> list[Output]:
        """The task of a start that was accepted is not opened."""
        task_id, request_id = self._opening
        self._opening = ("", "")
        self.failure, self.failure_code = content, code
        return [error_reply(request_id, "start", "task_error", content, task_id)]

    def begin_task(self, task_id: str, request_id: str) -> list[Output]:
        """Drive another task than before; what the one before still does is not told."""
        told = self._drive(ToldTask(task_id, self._ids))
        self.start = request_id
        self._in_turn = True
        self._by.start(request_id)
        return told

    def resume_task(
        self, task_id: str, stored: Iterable[Event], worked: Iterable[Event] = ()
    ) -> list[Output]:
        """Drive a task of an earlier run. What others have `worked` for it is in its cost."""
        task = ToldTask(task_id, self._ids, stored)
        for event in worked:
            task.output.see_of_child(event)
        told = self._drive(task)
        return [*told, task.tell_queue("snapshot", task.queue)] if task.queue else told

    def leave_task(self) -> list[Output]:
        """Drive no task any more. What is open of it is closed."""
        told = [*self._settle_rows(), *self._end_turn("task_aborted")]
        self.task_id, self.cancelling = "", False
        self._tasks = {}
        return told

    def deliver(
        self, question: StreamQuestion, reply: Reply, request_id: str, *, words: bool
    ) -> None:
        """A request answers a question. It is behind what comes of that if it has words, or if
        nothing was going on."""
        self._answered, self._in_turn_before = question.ask_id, self._in_turn
        self._by.answer(request_id, takes_over=words or not self._in_turn)
        self._in_turn |= goes_on(question.ask, reply)

    @property
    def unheard(self) -> bool:
        """The task was interrupted before the model heard what was said to it."""
        question = self.question
        return question is not None and question.ask in _RESUMING and bool(self._at_work.queue)

    def hear_out(self, question: StreamQuestion) -> None:
        """The model is to hear what came too late to keep it from asking whether all is done."""
        self._answered = question.ask_id
        self._in_turn = True

    def queue(self, message_id: str, request_id: str) -> None:
        self._by.queue(message_id, request_id)

    def unqueue(self, message_id: str) -> None:
        self._by.forget(message_id)

    def cancel(self, request_id: str) -> None:
        self.cancelling = True
        self._by.cancel(request_id)

    def acknowledge(self, command: StreamCommand) -> Output:
        return ack_reply(command.request_id, command.name, self.task_id)

    def settle(self, command: StreamCommand, code: str) -> Output:
        return done_reply(command.request_id, command.name, code, self.task_id)

    def refuse(self, command: StreamCommand, code: str, content: str = "") -> Output:
        return error_reply(command.request_id, command.name, code, content, self.task_id)

    def refuse_line(self, bad: BadCommand) -> Output:
        return error_reply(bad.request_id, bad.command, "invalid_command", str(bad))

    def note(self, content: str) -> Output:
        _, starting = self._opening
        return self._attributed(output(type="system", subtype="note", content=content), starting)

    def give_up_start(self, content: str) -> Iterator[Output]:
        """The task of a start that was accepted cannot go on."""
        if self.start:
            yield error_reply(self.start, "start", "task_error", content, self.task_id)
            self.start = ""

    def see(self, task_id: str, event: Event) -> list[Output]:
        """What one more event of the task, or of one that works for it, leads to."""
        task = self._tasks.get(task_id)
        if task is None:
            return []
        if isinstance(task, ToldChild):
            self._tasks[self.task_id].output.see_of_child(event)
        return list(self._told(task, event))

    def end_task(self, task_id: str) -> list[Output]:
        """Nothing more will come of a task."""
        if task_id == self.task_id:
            return self.leave_task()
        child = self._tasks.pop(task_id, None)
        return [*map(self._attributed, child.settle())] if child else []

    def finish(self, code: str = "", reason: str = "") -> list[Output]:
        """The run ends: why, if there is something to say, and what is left to close."""
        told = [output(type="error", code=code, content=reason)] if code and reason else []
        why = map(self._attributed, told)
        return [*why, *self._settle_rows(), *self._end_turn(code or "task_aborted", reason)]

    @property
    def _at_work(self) -> ToldTask:
        return next(reversed(self._tasks.values()))

    def _drive(self, task: ToldTask) -> list[Output]:
        told = self.leave_task()
        self._opening = ("", "")
        self.failure, self.failure_code = "", "task_failed"
        self.task_id = task.task_id
        self._tasks = {task.task_id: task}
        return told

    def _settle_rows(self) -> Iterator[Output]:
        """Close what nothing will come of any more, whether or not a turn is going on: a task
        that was interrupted keeps its calls for when it goes on."""
        for task in self._tasks.values():
            yield from map(self._attributed, task.settle())

    def _told(self, task: ToldTask, event: Event) -> Iterator[Output]:
        before, refusal = task.queue, task.refusal
        task.learn(event)
        task.refusal = self._refusal_in(task, event)
        if isinstance(event.fact, RequestStarted):
            yield from self._hear_queue(task, before, event.ts)
        elif (subtype := change_between(before, task.queue)) and self._is_news(task, event):
            removed = self._by.behind_removed(event.fact)
            yield self._attributed(task.tell_queue(subtype, task.queue), removed)
        for one in task.tell(event):
            yield self._attributed(one, refusal.request_id if refusal else "")
        if refusal and refusal.is_answer:
            yield self._refused_result(refusal.request_id, refusal.reason)
        if isinstance(event.fact, ChildBegan):
            self._tasks[event.fact.task_id] = ToldChild(event.fact.task_id, self._ids)
        if task.task_id == self.task_id:
            yield from self._mind_turn(event)

    def _refusal_in(self, task: ToldTask, event: Event) -> StreamRefusal | None:
        if not isinstance(event.fact, PromptRefused):
            return None
        said, reason = task.said.get(event.fact.of), event.fact.reason
        is_answer = isinstance(said, Answered)
        if is_answer:
            self._in_turn = self._in_turn_before
        request_id = self._by.refuse(said, reason)
        return StreamRefusal(request_id=request_id, reason=reason, is_answer=is_answer)

    def _is_news(self, task: ToldTask, event: Event) -> bool:
        """A child that goes on also hears what its parent heard, which is told already."""
        if isinstance(task, ToldChild) and isinstance(event.fact, UserSpoke):
            return self._by.knows(event.fact.message_id)
        return True

    def _hear_queue(
        self, task: ToldTask, queue: tuple[UserSpoke, ...], ts: int
    ) -> Iterator[Output]:
        """The model hears what waited. A turn that was complete when the words came ends."""
        if self._offered and task.task_id == self.task_id:
            yield from self._complete_turn()
        child = isinstance(task, ToldChild)
        for place, spoken in enumerate(queue, 1):
            if child and not self._by.knows(spoken.message_id):
                continue
            self._by.hear(spoken.message_id)
            left = queue[place:]
            yield self._attributed(task.tell_queue("dequeued" if left else "drained", left))
            row = task.output.heard(ts, spoken.text)
            yield self._attributed({**row, "taskId": task.task_id} if child else row)

    def _mind_turn(self, event: Event) -> Iterator[Output]:
        match event.fact:
            case TaskOpened() | RequestStarted() | ToolStarted():
                self._in_turn, self._offered, self.refused = True, False, ""
            case PromptRefused(reason=reason):
                self.refused = reason
            case CompletionOffered():
                self._offered = True
            case StepCancelled():
                self._offered = False
            case Asked(ask=AskKind.COMPLETION_RESULT) if self._in_turn or not self.refused:
                yield from self._complete_turn()
            case Asked(ask=ask) if ask in _RESUMING:
                self.cancelling = False
                yield from self._leave_children()
                yield from self._end_turn("task_aborted")
            case TaskFailed(message=message):
                self.failure = message or REPLY_CONTENTS["task_failed"]
                yield from self._end_turn("task_failed")
            case TaskClosed():
                yield from self._end_turn("task_aborted")
            case _:
                pass

    def _leave_children(self) -> Iterator[Output]:
        """Whoever worked for the task begins anew when it goes on."""
        for task_id in [each for each in self._tasks if each != self.task_id]:
            yield from self.end_task(task_id)

    def _complete_turn(self) -> Iterator[Output]:
        self._in_turn = self._offered = False
        start_refused = self.start in self._by.refused
        yield from self._tell_results(True)
        yield from self._settle_start("task_aborted" if start_refused else "task_completed")
        self._by.complete()

    def _end_turn(self, code: str, reason: str = "") -> Iterator[Output]:
        """The turn comes to no good end. It is due to whom it was begun by, not to whoever has
        interrupted it."""
        if self._in_turn and self.task_id:
            self._in_turn = self._offered = False
            yield from self._tell_results(False, code, reason)
        yield from self._settle_start("task_failed" if code == "task_failed" else "task_aborted")

    def _tell_results(
        self, success: bool, code: str | None = None, reason: str = ""
    ) -> Iterator[Output]:
        """One for each request that the turn answers: a driver waits for each of them."""
        result = self._tasks[self.task_id].output.result(success, code, reason)
        for request_id, refused in self._by.end_turn():
            if refused:
                yield self._refused_result(request_id, refused)
            else:
                yield self._attributed(result, request_id)

    def _refused_result(self, request_id: str, reason: str) -> Output:
        return self._attributed(self._tasks[self.task_id].output.refusal(reason), request_id)

    def _settle_start(self, code: str) -> Iterator[Output]:
        if self.start:
            yield done_reply(self.start, "start", code, self.task_id)
            self.start = ""

    def _attributed(self, told: Output, request_id: str = "") -> Output:
        request_id = request_id or self._by.active
        return {**told, "requestId": request_id} if request_id else told
