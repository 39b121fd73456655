"""One session under supervision: its machine, its record, its words on their way, its view.

The machine decides and this carries out. What the user does is on disk before it is carried
out, except an answer: that is first given, and only then taken for given, so that no question
is ever held for answered that is not.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio
from msgspec.structs import replace

from rookery.core.facts import Event as TaskEvent
from rookery.core.message import Message
from rookery.errors import CommandRejected, StorageError
from rookery.faults import kp
from rookery.manager.sessions.conversation import HandOver
from rookery.manager.sessions.machine import MachineStep, lost, step, taken_up
from rookery.manager.sessions.message_queue import HeldAnswer, MessageQueue, Terms, held_answer
from rookery.manager.sessions.process_keeper import ProcessKeeper, never_run
from rookery.manager.sessions.session_events import (
    AgentAsked,
    AnswerAgain,
    AnswerOrder,
    CancelEvent,
    CancelOrder,
    Deliver,
    Event,
    Order,
    PendingAsk,
    Respawn,
    Session,
    SessionCreated,
    StartTask,
    Terminate,
    UserEvent,
)
from rookery.manager.sessions.session_folders import ProcessMark, SessionFolder
from rookery.manager.sessions.session_record import (
    QueuedMessage,
    SessionRecord,
    noted,
    recorded,
)
from rookery.manager.sessions.session_states import STATUS_OF, TRUE_IN, WAITING, WORKING
from rookery.manager.sessions.session_task import RESUMING, FollowedTask
from rookery.manager.sessions.stored_session import Recollection, rebuilt, with_figures
from rookery.protocol.codec import Host

if TYPE_CHECKING:
    from rookery.manager.sessions.supervisor import Supervisor

SECONDS_AT_HAND = 60.0
"""For which a process that somebody asked for is kept."""
NO_PROCESS = "This session is not running, so that cannot be done now. Resume it first."
TOO_LATE = "That cannot be done now: the session's state changed. Look at it again."


class SupervisedSession:
    def __init__(
        self, record: SessionRecord, folder: SessionFolder, supervisor: "Supervisor"
    ) -> None:
        self.id = record.session_id
        self.record = record
        self.session = Session(session_id=self.id)
        self.root = FollowedTask(self.id)
        self.mailbox = MessageQueue(record.taken, record.mail)
        self.is_queued = False
        self.is_preparing = False
        """What its process needs is not there yet."""
        self.step = ""
        """What is being prepared."""
        self.unresponsive = False
        self.is_forgotten = False
        """It was removed, so nothing of it is kept any more."""
        self.announced = record.announced
        """The engine has had the prompt."""
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
        self.recollection = Recollection(self.root, supervisor.tasks, self.wake)
        self._workers: tuple[FollowedTask, ...] = ()
        """Stored tasks that worked for it when its process ended, the innermost last."""
        self._held: HeldAnswer | None = None
        self._wanted_until = 0.0
        self._moved = anyio.Event()

    @property
    def is_active(self) -> bool:
        return self.session.state in TRUE_IN["is_active"]

    @property
    def is_running(self) -> bool:
        """It works with a process of its own. One that waits for a person takes nobody's turn."""
        return self.session.state in WORKING and not (self.is_queued or self.is_preparing)

    @property
    def is_idle(self) -> bool:
        """Its process has nothing to do until the user says something."""
        resting = not self.is_active and self.session.pending_ask is not None
        wanted = time.monotonic() < self._wanted_until
        return resting and self.keeper.may_retire and not wanted

    @property
    def question(self) -> tuple[str, Message] | None:
        """The open question: which task asks it, and its row."""
        if not (pending := self.session.pending_ask):
            return None
        stored = () if self.keeper.is_listening else self._workers
        tasks = (*self.keeper.tasks, *stored)
        rows = ((task.task_id, task.row(pending.ts)) for task in tasks)
        return next(((task_id, row) for task_id, row in rows if row and row.type == "ask"), None)

    @property
    def stored_ask(self) -> PendingAsk | None:
        """What was asked last and is open, by the session's task or one that works for it."""
        asks = (task.ask for task in (*reversed(self._workers), self.root))
        return next((ask for ask in asks if ask), None)

    @property
    def holds_answer(self) -> bool:
        """Whether an answer waits for a new process to ask the same question."""
        return self._held is not None

    async def act(self, event: UserEvent, terms: Terms | None = None) -> None:
        """What the user wants done. Raises `CommandRejected` if it cannot be now, and
        `StorageError` if it could not be kept; then nothing has changed."""
        async with self._one_act:
            await self.recall()
            trial = step(self.session, event)
            if trial.answer and self.keeper.is_ending:  # then it goes on with another process
                await self.until(lambda: not self.session.process_open)
                trial = step(self.session, event)
            if trial.session is self.session and not trial.orders:
                raise CommandRejected(TOO_LATE)
            if trial.starts_again and (obstacle := self.obstacle()):
                raise CommandRejected(obstacle)
            if answer := trial.answer:
                await self._answer(event, answer, terms or Terms())
                return
            if any(isinstance(order, AnswerAgain) for order in trial.orders):
                asked = self.question
                self._held = held_answer(event, terms or Terms(), asked[1] if asked else None)
            self.take(event, now=True)

    async def _answer(self, event: UserEvent, answer: AnswerOrder, terms: Terms) -> None:
        await self.keeper.answer(answer, terms)
        kp("manager.answered")
        pending = self.session.pending_ask
        if pending and pending.ts == answer.ask_ts:  # or its process has told us already
            self.take(event, now=True)

    def take(self, event: Event, *, now: bool = False) -> None:
        """The machine takes an event; what follows is kept and carried out: not at all if it is
        to be kept `now` and that cannot be."""
        before, mailbox = self.session, self.mailbox.copy()
        done = step(before, event)
        if done.session == before and not done.orders:  # as nearly always: it is still at work
            return
        self.session = done.session
        self._count_letters(before, event, done)
        try:
            self.keep(now=now)
        except StorageError:
            self.session, self.mailbox = before, mailbox
            raise
        if STATUS_OF.get(before.state) is not STATUS_OF[done.session.state]:
            self._supervisor.store.save_if_possible()
        for order in done.orders:
            self._obey(order)
        self.wake()
        self._supervisor.moved()

    def _count_letters(self, before: Session, event: Event, done: MachineStep) -> None:
        if isinstance(event, SessionCreated):
            self.announced = True
            self.mailbox.taken += before.handed
        for order in done.orders:
            if isinstance(order, Deliver):
                self.mailbox.post(order.letters)

    def _obey(self, order: Order) -> None:
        generation = self.session.generation
        match order:
            case StartTask() if self.is_preparing:
                pass  # until it is prepared
            case StartTask() | Respawn():
                self.wait_for_its_turn()
            case Deliver():
                self.keeper.wake_for_mail()
            case CancelOrder() | Terminate() if self.is_queued or self.is_preparing:
                self.is_queued = self.is_preparing = False
                self.take(never_run(generation))
            case CancelOrder():
                self.keeper.cancel(generation)
            case Terminate():
                self.keeper.terminate(generation)
            case AnswerOrder() | AnswerAgain():
                pass  # which was given before the machine was told, or is held until it is asked

    def wait_for_its_turn(self) -> None:
        self.is_queued = True
        self._supervisor.queue(self)

    def keep(self, *, now: bool = False) -> None:
        if self.is_forgotten:
            return
        at = time.time_ns() // 1_000_000
        record = recorded(self.record, self.session, now=at, selected=False)
        self.record = replace(
            with_figures(record, self.root.view),
            announced=self.announced,
            taken=self.mailbox.taken,
            mail=self.mailbox.unsent,
        )
        self._supervisor.store.put(self.record)
        if now:
            self._supervisor.store.save()
        self._supervisor.changed(self.id)

    async def recall(self) -> None:
        """Reads its log, unless it was read or heard: without, a session that rests does not know
        what it has asked."""
        if self.keeper.is_listening or not (remembered := await self.recollection.recall()):
            return
        if self.recollection.problem:
            self.note([self.recollection.problem])
        if self.root.view.seq or self.keeper.is_listening:  # by now
            return
        self.root.become(remembered)
        self._workers = await self.recollection.workers(remembered)
        if not self.session.process_open:
            self.session = rebuilt(self.record, self.stored_ask, alive=False)

    async def host(self, *, reopen: bool) -> Host:
        """Its process, to be asked and told what is no business of the machine. One is started, at
        rest, if it is to `reopen`. Raises `CommandRejected` if there is none."""
        async with self._one_act:
            await self.recall()
            if self.is_queued or self.is_preparing:
                raise CommandRejected("The session has not started yet. Wait until it has.")
            if self.keeper.is_ending:
                await self.until(lambda: not self.keeper.has_process)
            if not self.session.process_open:
                self._reopen(wanted=reopen)
                await self.until(self._has_been_taken_up)
        self._wanted_until = time.monotonic() + SECONDS_AT_HAND
        if host := await self.keeper.host():
            return host
        problem = self.session.failure.text if self.session.failure else NO_PROCESS
        raise CommandRejected(problem)

    def _has_been_taken_up(self) -> bool:
        return self.session.saw_session_created or not self.session.process_open

    def _reopen(self, *, wanted: bool) -> None:
        if not (wanted and self.is_stored()):
            raise CommandRejected(NO_PROCESS)
        # kept once there is a process: without, a later manager would take it for one that goes on
        self.session = taken_up(self.session)
        self.keeper.launch(self.session.generation, at_rest=True)

    async def see_whether_it_answers(self) -> None:
        self.silent_for(float(not await self.keeper.has_answered()))

    def launch(self) -> None:
        """Its turn has come."""
        self.is_queued = False
        self.keeper.launch(self.session.generation)
        self._supervisor.changed(self.id)

    async def end(self) -> None:
        """End what there is of it. It can be resumed."""
        if self.is_active:
            self.take(CancelEvent(), now=True)
        self.keeper.retire()
        await self.until(lambda: not (self.keeper.has_process or self.session.process_open))

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await self._moved.wait()

    def wake(self) -> None:
        """Whoever waits for something of it looks again."""
        self._moved.set()
        self._moved = anyio.Event()

    def is_stored(self) -> bool:
        return self._supervisor.tasks.exists(self.id)

    def obstacle(self) -> str | None:
        return self._supervisor.obstacle(self.record)

    def hand_over(self, mark: ProcessMark) -> HandOver:
        """The prompt is not said again to a task that was opened with it."""
        letters = self.session.outbox[: self.session.handed]
        known = int(not mark.new_task and not self.announced)
        launch = self.folder.launch()
        return HandOver(
            new_task=mark.new_task,
            letters=letters[known:],
            first=self.mailbox.taken + known,
            mode=launch.mode if launch else None,
            intent=launch.intent if launch else "",
            at_rest=mark.at_rest,
            after=mark.after,
        )

    def mark(self, mark: ProcessMark) -> None:
        self.record = replace(self.record, pid=mark.pid)
        self.keep(now=True)

    def note(self, lines: Sequence[str]) -> None:
        for line in lines:
            self.record = noted(self.record, line)

    def keeps_question(self, tasks: Sequence[FollowedTask]) -> bool:
        if self.session.state not in WAITING:
            return False
        self._workers = tuple(task for task in tasks if task is not self.root)
        self.session = lost(self.session)
        self.keep()
        return True

    def gone(self) -> None:
        self._supervisor.changed(self.id)
        self.wake()
        self._supervisor.moved()

    def hear(self, task: FollowedTask, event: TaskEvent) -> None:
        usage = task.view.usage
        for said in task.hear(event):
            asked = task.row(said.ts) if isinstance(said, AgentAsked) else None
            if self._held and self._held.answers(asked):
                continue  # its past, told again
            if self.session.saw_session_created or self._moves_at_once(said):
                self.take(said)
            if self._held and self._held.ends_with(said):
                self._give_held(asked)
        if task.view.usage != usage:
            self.keep()
        self._supervisor.changed(self.id)
        self.wake()

    def _give_held(self, asked: Message | None) -> None:
        """Answers what is asked again as the user has answered it."""
        held, self._held = self._held, None
        if held and (again := held.again(asked)):
            self._supervisor.group.start_soon(self._act_if_possible, *again)

    async def _act_if_possible(self, event: UserEvent, terms: Terms) -> None:
        with suppress(CommandRejected, StorageError):  # then the question stays in the inbox
            await self.act(event, terms)

    def _moves_at_once(self, said: Event) -> bool:
        """Before the process has what it was started with. Whether it is to go on we answer
        ourselves, and one that is at rest does not go on."""
        resumes = isinstance(said, AgentAsked) and said.ask in RESUMING
        return not resumes and not self.keeper.is_at_rest

    def taken_over(self) -> None:
        kp("manager.opened")
        generation = self.session.generation
        self.take(SessionCreated(generation=generation, session_id=self.id))
        if (ask := self.root.ask) and ask.resumes:  # of one that is at rest
            self.take(AgentAsked(generation=generation, ts=ask.ts, ask=ask.ask, text=ask.text))
        kp("manager.announced")
        self.keeper.wake_for_mail()

    def waiting_mail(self) -> QueuedMessage | None:
        return self.mailbox.next()

    def mail_sent(self, mail: QueuedMessage) -> None:
        self.mailbox.sent(mail.number)
        self.keep()

    def mail_refused(self, mail: QueuedMessage, problem: str) -> None:
        self.mailbox.refused(mail.number, problem)
        self.keep()

    def silent_for(self, seconds: float) -> None:
        if self.unresponsive != bool(seconds):
            self.unresponsive = bool(seconds)
            self._supervisor.changed(self.id)

    def is_working(self) -> bool:
        return self.is_active
