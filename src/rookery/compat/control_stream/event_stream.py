"""The events of the control stream: replies to commands, and what the driven task does.

One task is driven at a time, with its sub-tasks. A turn begins with a message of the driver and
ends with one `result` for each request it answers; the `start` command is done when the first turn
ends. Nothing is written here: each method returns the events to write.
"""

from collections.abc import Iterable, Iterator, Sequence

from rookery.compat.control_stream.followed_task import (
    Attribution,
    StreamQuestion,
    StreamRefusal,
    StreamSubTask,
    StreamTask,
    change_between,
    continues,
)
from rookery.compat.control_stream.stream_commands import (
    REPLY_CONTENTS,
    StreamCommand,
    ack_reply,
    done_reply,
    error_reply,
)
from rookery.compat.structured_output.call_rows import Ids, Output, output
from rookery.core.asks import RESUMES, AskKind, Reply
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
from rookery.core.message import AgentState

_COMPLETE = (AskKind.COMPLETION_RESULT, AskKind.RESUME_COMPLETED_TASK)
_AT_WORK = (AgentState.RUNNING, AgentState.STREAMING, AgentState.WAITING_FOR_INPUT)


class ControlStream:
    def __init__(self) -> None:
        self.task_id = ""
        """The driven task; empty if there is none."""
        self.start = ""
        """The id of the `start` request, until it is done."""
        self.refused = ""
        """Why a hook refused the last message, if no request was sent since."""
        self.cancelling = False
        """The task is being interrupted, and has not asked yet whether to resume."""
        self.failure = ""
        """Why the last driven task failed or could not be started; empty if it did not fail."""
        self.failure_code = "task_failed"
        self._opening = ("", "")
        """Task and request id of an accepted start, until the task is open."""
        self._ids = Ids()
        self.attribution = Attribution()
        self._tasks: dict[str, StreamTask] = {}
        """The task and its sub-tasks, each followed by its own child."""
        self._agents: set[str] = set()
        """Sub-tasks that run side by side; messages are not for them."""
        self._answered = ""
        """The last answered question; its `Answered` fact may not have arrived yet."""
        self._in_turn = False
        self._in_turn_before = False
        """`_in_turn` before the last answer."""
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
        """Whether a new task cannot be started now."""
        return any(self._opening) or self.state in _AT_WORK

    @property
    def under_way(self) -> bool:
        """Whether there is something to interrupt, including a turn that waits for a retry."""
        return self.busy or self._in_turn

    @property
    def question(self) -> StreamQuestion | None:
        """The question that blocks the task or its sub-task."""
        waits = self.state not in (AgentState.NO_TASK, AgentState.RUNNING, AgentState.STREAMING)
        return self._at_work.question if waits else None

    @property
    def receiver(self) -> str:
        """The task that receives messages now: the innermost sub-task."""
        own = (each for each in reversed(self._tasks) if each not in self._agents)
        return next(own, self.task_id)

    @property
    def early_finish(self) -> StreamQuestion | None:
        """A completion question that was asked although messages are still queued."""
        question = self.question
        if question is None or question.ask is not AskKind.COMPLETION_RESULT:
            return None
        return question if self._at_work.queue else None

    @property
    def complete(self) -> bool:
        """Whether the task is done and waits for a new message."""
        question = self.question
        return question is not None and question.ask in _COMPLETE and not self._at_work.queue

    def drives(self, task_id: str) -> bool:
        """Whether it is the driven task or one of its sub-tasks."""
        return task_id in self._tasks

    def accept_start(self, command: StreamCommand, task_id: str) -> Output:
        """Accept a start. The previous task is driven until the new one is open."""
        self._opening = (task_id, command.request_id)
        return ack_reply(command.request_id, command.name, task_id)

    def refuse_start(self, content: str, code: str) -> list[Output]:
        """Reject an accepted start, because the task could not be opened."""
        task_id, request_id = self._opening
        self._opening = ("", "")
        self.failure, self.failure_code = content, code
        return [error_reply(request_id, "start", "task_error", content, task_id)]

    def begin_task(self, task_id: str, request_id: str) -> list[Output]:
        """Drive a new task. Further events of the previous one are not reported."""
        events = self._drive(StreamTask(task_id, self._ids))
        self.start = request_id
        self._in_turn = True
        self.attribution.start(request_id)
        return events

    def resume_task(
        self, task_id: str, stored: Sequence[Event], child_events: Iterable[Event] = ()
    ) -> list[Output]:
        """Drive a stored task. The cost of its sub-tasks (`child_events`) is included."""
        task = StreamTask(task_id, self._ids, stored)
        for event in child_events:
            task.output.see_of_child(event)
        events = self._drive(task)
        return [*events, task.queue_update("snapshot", task.queue)] if task.queue else events

    def leave_task(self) -> list[Output]:
        """Stop driving the task and close its open rows."""
        events = [*self._settle_rows(), *self._end_turn("task_aborted")]
        self.task_id, self.cancelling = "", False
        self._tasks = {}
        return events

    def deliver(
        self, question: StreamQuestion, reply: Reply, request_id: str, *, words: bool
    ) -> None:
        """Record that a request answers a question. The request becomes the active one if it has
        a message or if no turn is running."""
        self._answered, self._in_turn_before = question.ask_id, self._in_turn
        self.attribution.answer(request_id, takes_over=words or not self._in_turn)
        self._in_turn |= continues(question.ask, reply)

    @property
    def has_unread(self) -> bool:
        """Whether the task was interrupted while messages were still queued."""
        question = self.question
        return question is not None and question.ask in RESUMES and bool(self._at_work.queue)

    def resume_queued(self, question: StreamQuestion) -> None:
        """Continue with messages that arrived too late to prevent the completion question."""
        self._answered = question.ask_id
        self._in_turn = True

    def cancel(self, request_id: str) -> None:
        self.cancelling = True
        self.attribution.cancel(request_id)

    def accept(self, command: StreamCommand, code: str) -> list[Output]:
        named = command.request_id, command.name
        return [ack_reply(*named, self.task_id), done_reply(*named, code, self.task_id)]

    def refuse(self, command: StreamCommand, code: str, content: str = "") -> Output:
        return error_reply(command.request_id, command.name, code, content, self.task_id)

    def note(self, content: str) -> Output:
        _, starting = self._opening
        return self._attributed(output(type="system", subtype="note", content=content), starting)

    def give_up_start(self, content: str) -> Iterator[Output]:
        """Fail the start, because its task cannot go on."""
        if self.start:
            yield error_reply(self.start, "start", "task_error", content, self.task_id)
            self.start = ""

    def see(self, task_id: str, event: Event) -> list[Output]:
        """Return the output for an event of the task or a sub-task."""
        task = self._tasks.get(task_id)
        if task is None:
            return []
        if isinstance(task, StreamSubTask):
            self._tasks[self.task_id].output.see_of_child(event)
        return list(self._events_for(task, event))

    def end_task(self, task_id: str) -> list[Output]:
        """Close the rows of a task that has ended."""
        if task_id == self.task_id:
            return self.leave_task()
        child = self._tasks.pop(task_id, None)
        return [*map(self._attributed, child.settle())] if child else []

    def finish(self, code: str = "", reason: str = "") -> list[Output]:
        """Return the last events of the run: the reason, if any, and everything still open."""
        events = [output(type="error", code=code, content=reason)] if code and reason else []
        why = map(self._attributed, events)
        return [*why, *self._settle_rows(), *self._end_turn(code or "task_aborted", reason)]

    @property
    def _at_work(self) -> StreamTask:
        """The innermost task, or the agent that asks, if several run side by side."""
        tasks = list(reversed(self._tasks.values()))
        return next((task for task in tasks if task.question), tasks[0])

    def _drive(self, task: StreamTask) -> list[Output]:
        events = self.leave_task()
        self._opening = ("", "")
        self.failure, self.failure_code = "", "task_failed"
        self.task_id = task.task_id
        self._tasks = {task.task_id: task}
        return events

    def _settle_rows(self) -> Iterator[Output]:
        """Close open rows even outside a turn: an interrupted task keeps its calls."""
        for task in self._tasks.values():
            yield from map(self._attributed, task.settle())

    def _events_for(self, task: StreamTask, event: Event) -> Iterator[Output]:
        before, refusal = task.queue, task.refusal
        task.learn(event)
        task.refusal = self._refusal_in(task, event)
        if isinstance(event.fact, RequestStarted):
            yield from self._drain_queue(task, before, event.ts)
        elif (subtype := change_between(before, task.queue)) and self._is_news(task, event):
            removed = self.attribution.removed_request(event.fact)
            yield self._attributed(task.queue_update(subtype, task.queue), removed)
        for one in task.events_for(event):
            yield self._attributed(one, refusal.request_id if refusal else "")
        if refusal and refusal.is_answer:
            yield self._refused_result(refusal.request_id, refusal.reason)
        if isinstance(event.fact, ChildBegan):
            self._tasks[event.fact.task_id] = StreamSubTask(event.fact.task_id, self._ids)
            self._agents |= {event.fact.task_id} if event.fact.name else set()
        if task.task_id == self.task_id:
            yield from self._track_turn(event)

    def _refusal_in(self, task: StreamTask, event: Event) -> StreamRefusal | None:
        if not isinstance(event.fact, PromptRefused):
            return None
        message, reason = task.messages.get(event.fact.of), event.fact.reason
        is_answer = isinstance(message, Answered)
        if is_answer:
            self._in_turn = self._in_turn_before
        request_id = self.attribution.refuse(message, reason)
        return StreamRefusal(request_id=request_id, reason=reason, is_answer=is_answer)

    def _is_news(self, task: StreamTask, event: Event) -> bool:
        """Whether a queue change must be reported. A resumed sub-task also gets messages of its
        parent, which were reported already."""
        if isinstance(task, StreamSubTask) and isinstance(event.fact, UserSpoke):
            return self.attribution.knows(event.fact.message_id)
        return True

    def _drain_queue(
        self, task: StreamTask, queue: tuple[UserSpoke, ...], ts: int
    ) -> Iterator[Output]:
        """Report that the model receives the queued messages. If the turn was already complete
        when they came, it ends first."""
        if self._offered and task.task_id == self.task_id:
            yield from self._complete_turn()
        child = isinstance(task, StreamSubTask)
        for place, spoken in enumerate(queue, 1):
            if child and not self.attribution.knows(spoken.message_id):
                continue
            self.attribution.receive(spoken.message_id)
            left = queue[place:]
            yield self._attributed(task.queue_update("dequeued" if left else "drained", left))
            row = task.output.row(ts, "user", spoken.text)
            yield self._attributed({**row, "taskId": task.task_id} if child else row)

    def _track_turn(self, event: Event) -> Iterator[Output]:
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
            case Asked(ask=ask) if ask in RESUMES:
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
        """End the sub-tasks; new ones are created when the task resumes."""
        for task_id in [each for each in self._tasks if each != self.task_id]:
            yield from self.end_task(task_id)

    def _complete_turn(self) -> Iterator[Output]:
        self._in_turn = self._offered = False
        start_refused = self.start in self.attribution.refused
        yield from self._results(True)
        yield from self._settle_start("task_aborted" if start_refused else "task_completed")
        self.attribution.complete()

    def _end_turn(self, code: str, reason: str = "") -> Iterator[Output]:
        """End a turn without success. Its result goes to the requests that began the turn, not
        to the one that interrupted it."""
        if self._in_turn and self.task_id:
            self._in_turn = self._offered = False
            yield from self._results(False, code, reason)
        yield from self._settle_start("task_failed" if code == "task_failed" else "task_aborted")

    def _results(
        self, success: bool, code: str | None = None, reason: str = ""
    ) -> Iterator[Output]:
        """Yield one result for each request that the turn answers: drivers wait for each."""
        result = self._tasks[self.task_id].output.result(success, code, reason)
        for request_id, refused in self.attribution.end_turn():
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

    def _attributed(self, event: Output, request_id: str = "") -> Output:
        request_id = request_id or self.attribution.active
        return {**event, "requestId": request_id} if request_id else event
