"""One supervised session: its machine, its record, its queued messages, its view.

The machine decides and this class acts. What the user does is on disk before it is carried out,
except an answer: that is sent first and saved once the process has confirmed it, so that an open
question is never recorded as answered.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio
from msgspec.structs import replace

from rookery.core.facts import Event as TaskEvent
from rookery.core.facts import ToolFinished
from rookery.core.message import Message
from rookery.errors import CommandRejected, StorageError
from rookery.faults import kp
from rookery.manager.sessions import message_queue
from rookery.manager.sessions import session_events as events
from rookery.manager.sessions.conversation import HandOver
from rookery.manager.sessions.machine import lost_process, reopened, step
from rookery.manager.sessions.message_queue import HeldAnswer, Terms, held_answer
from rookery.manager.sessions.process_keeper import ProcessKeeper, not_started_exit
from rookery.manager.sessions.session_folders import ProcessMark, SessionFolder
from rookery.manager.sessions.session_record import (
    ChangeCount,
    QueuedMessage,
    SessionRecord,
    updated_record,
    with_log_line,
)
from rookery.manager.sessions.session_states import STATUS_OF, TRUE_IN, WAITING, WORKING
from rookery.manager.sessions.session_task import RESUMING, FollowedTask
from rookery.manager.sessions.stored_session import StoredHistory, rebuild_session, with_usage
from rookery.manager.shown_rows import PullRequestRow
from rookery.protocol.codec import Host

if TYPE_CHECKING:
    from rookery.manager.sessions.supervisor import Supervisor

SECONDS_KEPT = 60.0
"""Seconds for which a process started by `host` is kept."""
NO_PROCESS = "This session is not running, so that cannot be done now. Resume it first."
TOO_LATE = "That cannot be done now: the session's state changed. Look at it again."


class SupervisedSession:
    def __init__(
        self, record: SessionRecord, folder: SessionFolder, supervisor: "Supervisor"
    ) -> None:
        self.id = record.session_id
        self.record = message_queue.requeued(record)
        self.root = FollowedTask(self.id)
        self.is_queued = False
        self.is_preparing = False
        """Its worktree or environment is still being prepared."""
        self.step = ""
        """The current step of the preparation."""
        self.unresponsive = False
        self.tools_finished = 0
        self.changes = ChangeCount()
        self.pull_request: PullRequestRow | None = None
        self.is_forgotten = False
        """It was removed and must not be saved again."""
        self.folder = folder
        self._supervisor = supervisor
        self.keeper = ProcessKeeper(
            self,
            folder,
            group=supervisor.group,
            timings=supervisor.timings,
            environ=supervisor.environ,
        )
        self._one_act = anyio.Lock()
        self.history = StoredHistory(self.root, supervisor.tasks, self.wake)
        self._subtasks: tuple[FollowedTask, ...] = ()
        """Sub-tasks that were running when the process ended, the innermost last."""
        self._held: HeldAnswer | None = None
        self._keep_until = 0.0
        self._saved_state = record.state
        self._moved = anyio.Event()

    @property
    def is_active(self) -> bool:
        return self.record.state in TRUE_IN["is_active"]

    @property
    def is_running(self) -> bool:
        """Whether it works in its own process. Waiting for the user does not count."""
        return self.record.state in WORKING and not (self.is_queued or self.is_preparing)

    @property
    def is_idle(self) -> bool:
        """Whether its process has nothing to do until the user sends something."""
        resting = not self.is_active and self.record.pending_ask is not None
        wanted = time.monotonic() < self._keep_until
        return resting and self.keeper.can_retire and not wanted

    @property
    def question(self) -> tuple[str, Message] | None:
        """The open question: the id of the task that asks it, and its row."""
        if not (pending := self.record.pending_ask):
            return None
        stored = () if self.keeper.is_listening else self._subtasks
        tasks = (*self.keeper.tasks, *stored)
        rows = ((task.task_id, task.row(pending.ts)) for task in tasks)
        return next(((task_id, row) for task_id, row in rows if row and row.type == "ask"), None)

    @property
    def stored_ask(self) -> events.PendingAsk | None:
        """The last open ask of the session's task or a sub-task, as stored."""
        asks = (task.ask for task in (*reversed(self._subtasks), self.root))
        return next((ask for ask in asks if ask), None)

    @property
    def holds_answer(self) -> bool:
        """Whether an answer waits for a new process to ask the same question."""
        return self._held is not None

    async def act(self, event: events.UserEvent, terms: Terms | None = None) -> None:
        """Carry out what the user wants. Raises `CommandRejected` if that is impossible now, and
        `StorageError` if it cannot be saved; then nothing has changed."""
        async with self._one_act:
            await self.load_history()
            trial = step(self.record, event)
            if trial.answer and self.keeper.is_ending:  # another process continues
                await self.until(lambda: not self.record.process_open)
                trial = step(self.record, event)
            if trial.session is self.record and not trial.orders:
                raise CommandRejected(TOO_LATE)
            if trial.starts_again and (obstacle := self.obstacle()):
                raise CommandRejected(obstacle)
            if answer := trial.answer:
                await self._answer(event, answer, terms or Terms())
                return
            if any(isinstance(order, events.AnswerAgain) for order in trial.orders):
                asked = self.question
                self._held = held_answer(event, terms or Terms(), asked[1] if asked else None)
            self.apply(event, now=True)

    async def _answer(
        self, event: events.UserEvent, answer: events.AnswerOrder, terms: Terms
    ) -> None:
        await self.keeper.answer(answer, terms)
        kp("manager.answered")
        pending = self.record.pending_ask
        if pending and pending.ts == answer.ask_ts:  # or the event was first
            self.apply(event, now=True)

    def apply(self, event: events.SessionEvent, *, now: bool = False) -> None:
        """Apply an event, save the result and carry out its orders. With `now`, nothing changes
        if the result cannot be saved at once."""
        before, state = self.record, self._saved_state
        done = step(before, event)
        if done.session == before and not done.orders:  # the usual case: it still works
            return
        self.record = done.session
        if isinstance(event, events.SessionCreated):
            taken = before.taken + before.handed
            self.record = replace(self.record, announced=True, taken=taken)
        for order in done.orders:
            if isinstance(order, events.Deliver):
                self.record = message_queue.queued(self.record, order.messages)
        try:
            self.save(now=now)
        except StorageError:
            self.record, self._saved_state = before, state
            raise
        if STATUS_OF.get(before.state) is not STATUS_OF[done.session.state]:
            self._supervisor.store.save_if_possible()
        for order in done.orders:
            self._carry_out(order)
        self.wake()
        self._supervisor.admission.admit()

    def _carry_out(self, order: events.ProcessOrder) -> None:
        generation = self.record.generation
        match order:
            case events.StartTask() if self.is_preparing:
                pass  # it is still being prepared
            case events.StartTask() | events.Respawn():
                self.enqueue()
            case events.Deliver():
                self.keeper.wake_for_messages()
            case events.CancelOrder() | events.Terminate() if self.is_queued or self.is_preparing:
                self.is_queued = self.is_preparing = False
                self.apply(not_started_exit(generation))
            case events.CancelOrder():
                self.keeper.cancel(generation)
            case events.Terminate():
                self.keeper.terminate(generation)
            case events.AnswerOrder() | events.AnswerAgain():
                pass  # sent before the event was applied, or held until the question is repeated

    def enqueue(self) -> None:
        self.is_queued = True
        self._supervisor.admission.queue(self)

    def save(self, *, now: bool = False) -> None:
        if self.is_forgotten:
            return
        at = time.time_ns() // 1_000_000
        record = updated_record(self.record, self._saved_state, now=at)
        self._saved_state = record.state
        self.record = with_usage(record, self.root.view)
        self._supervisor.store.put(self.record)
        if now:
            self._supervisor.store.save()
        self._supervisor.changed(self.id)

    async def load_history(self) -> None:
        """Read the journal, unless it was read or received: an idle session needs it to know its
        ask."""
        if self.keeper.is_listening or not (stored := await self.history.load()):
            return
        if self.history.problem:
            self.note([self.history.problem])
        if self.root.view.seq or self.keeper.is_listening:  # changed while reading
            return
        self.root.replace_with(stored)
        self._subtasks = await self.history.subtasks(stored)
        if not self.record.process_open:
            self.record = rebuild_session(self.record, self.stored_ask, alive=False)

    async def host(self, *, reopen: bool) -> Host:
        """The host of its process; `reopen` starts one, without resuming work, if none runs.
        Raises `CommandRejected` if there is none."""
        async with self._one_act:
            await self.load_history()
            if self.is_queued or self.is_preparing:
                raise CommandRejected("The session has not started yet. Wait until it has.")
            if self.keeper.is_ending:
                await self.until(lambda: not self.keeper.has_process)
            if not self.record.process_open:
                self._reopen(wanted=reopen)
                await self.until(self._is_reopened)
        self._keep_until = time.monotonic() + SECONDS_KEPT
        if host := await self.keeper.host():
            return host
        problem = self.record.failure.text if self.record.failure else NO_PROCESS
        raise CommandRejected(problem)

    def _is_reopened(self) -> bool:
        return self.record.saw_session_created or not self.record.process_open

    def _reopen(self, *, wanted: bool) -> None:
        if not (wanted and self.is_stored()):
            raise CommandRejected(NO_PROCESS)
        if obstacle := self.obstacle():
            raise CommandRejected(obstacle)
        # saved once the process exists: before, a later manager would take it for a resumed one
        self.record = reopened(self.record)
        self.keeper.launch(self.record.generation, at_rest=True)

    async def check_responsive(self) -> None:
        self.on_silence(float(not await self.keeper.has_answered()))

    def launch(self) -> None:
        """Start the process of a queued session."""
        self.is_queued = False
        self.keeper.launch(self.record.generation)
        self._supervisor.changed(self.id)

    async def end(self) -> None:
        """End its process. The session can be resumed."""
        if self.is_active:
            self.apply(events.CancelEvent(), now=True)
        self.keeper.retire()
        await self.until(lambda: not (self.keeper.has_process or self.record.process_open))

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await self._moved.wait()

    def wake(self) -> None:
        """Make everything that waits in `until` check its condition again."""
        self._moved.set()
        self._moved = anyio.Event()

    def is_stored(self) -> bool:
        return self._supervisor.tasks.exists(self.id)

    def obstacle(self) -> str | None:
        ours = self.keeper.has_process  # which may still be ending
        return (self._supervisor.start_obstacle if ours else self._supervisor.obstacle)(self.record)

    def hand_over(self, mark: ProcessMark) -> HandOver:
        """What to give a new process; without the prompt if the task was opened with it."""
        messages = self.record.outbox[: self.record.handed]
        known = int(not mark.new_task and not self.record.announced)
        launch = self.folder.launch()
        return HandOver(
            new_task=mark.new_task,
            messages=messages[known:],
            first=self.record.taken + known,
            mode=launch.mode if launch else None,
            intent=launch.intent if launch else "",
            at_rest=mark.at_rest,
            after=mark.after,
        )

    def mark(self, mark: ProcessMark) -> None:
        self.record = replace(self.record, pid=mark.pid)
        self.save(now=True)

    def note(self, lines: Sequence[str]) -> None:
        for line in lines:
            self.record = with_log_line(self.record, line)

    def keeps_question(self, tasks: Sequence[FollowedTask]) -> bool:
        """Whether the session still waits for the user after a system shutdown ended its
        process, which had these tasks."""
        if self.record.state not in WAITING:
            return False
        self._subtasks = tuple(task for task in tasks if task is not self.root)
        self.record = lost_process(self.record)
        self.save()
        return True

    def on_process_gone(self) -> None:
        self._supervisor.changed(self.id)
        self.wake()
        self._supervisor.admission.admit()

    def on_event(self, task: FollowedTask, event: TaskEvent) -> None:
        usage = task.view.usage
        self.tools_finished += isinstance(event.fact, ToolFinished)
        for reported in task.receive(event):
            asked = task.row(reported.ts) if isinstance(reported, events.AgentAsked) else None
            if self._held and self._held.answers(asked):
                continue  # repeated history
            if self.record.saw_session_created or self._applies_at_once(reported):
                self.apply(reported)
            if self._held and self._held.is_settled_by(reported):
                self._give_held_answer(asked)
        if task.view.usage != usage:
            self.save()
        self._supervisor.changed(self.id)
        self.wake()

    def _give_held_answer(self, asked: Message | None) -> None:
        """Answer a repeated question as the user did."""
        held, self._held = self._held, None
        if held and (again := held.for_question(asked)):
            self._supervisor.group.start_soon(self._act_if_possible, *again)

    async def _act_if_possible(self, event: events.UserEvent, terms: Terms) -> None:
        with suppress(CommandRejected, StorageError):  # then the question stays in the inbox
            await self.act(event, terms)

    def _applies_at_once(self, reported: events.SessionEvent) -> bool:
        """Whether to apply an event that comes before the process has what it was started with:
        not an offer to resume, which we answer ourselves, and nothing from a process at rest."""
        resumes = isinstance(reported, events.AgentAsked) and reported.ask in RESUMING
        return not resumes and not self.keeper.is_at_rest

    def on_handed_over(self) -> None:
        """The process has received what it was started with."""
        kp("manager.opened")
        generation = self.record.generation
        self.apply(events.SessionCreated(generation=generation, session_id=self.id))
        if (ask := self.root.ask) and ask.resumes:  # its process is at rest
            self.apply(
                events.AgentAsked(generation=generation, ts=ask.ts, ask=ask.ask, text=ask.text)
            )
        kp("manager.announced")
        self.keeper.wake_for_messages()

    def next_message(self) -> QueuedMessage | None:
        if not (message := message_queue.next_message(self.record)):
            return None
        sending = replace(message, state="sending")
        self.record = message_queue.with_message(self.record, sending)
        return sending

    def on_message_sent(self, message: QueuedMessage) -> None:
        self.record = message_queue.without_message(self.record, message.number)
        self.save()

    def on_message_refused(self, message: QueuedMessage, problem: str) -> None:
        self.record = message_queue.with_message(
            self.record, replace(message, state="failed", problem=problem)
        )
        self.save()

    def on_silence(self, seconds: float) -> None:
        """There was no event or response for `seconds`; 0 once there is one."""
        if self.unresponsive != bool(seconds):
            self.unresponsive = bool(seconds)
            self._supervisor.changed(self.id)
