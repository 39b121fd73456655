"""Keeps the process of a session: at most one, from its start or its adoption to its end."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

import anyio
from anyio.abc import TaskGroup

from rookery.errors import CommandRejected, RookeryError, StorageError
from rookery.manager.sessions.conversation import (
    NOT_CONFIRMED,
    ConversationListener,
    HandOver,
    SessionConversation,
    Timings,
)
from rookery.manager.sessions.message_queue import Terms
from rookery.manager.sessions.session_events import (
    AnswerOrder,
    CreationTimeout,
    Event,
    ProcessError,
    ProcessExit,
    Session,
    is_answered,
)
from rookery.manager.sessions.session_folders import ProcessMark, SessionFolder
from rookery.manager.sessions.session_process import ProcessEnd, SessionProcess, start
from rookery.manager.sessions.session_states import SessionState
from rookery.manager.sessions.session_task import RESUMING, FollowedTask
from rookery.protocol.codec import Host


class Owner(ConversationListener, Protocol):
    """The session that the process is for."""

    root: FollowedTask
    session: Session

    def take(self, event: Event) -> None: ...

    def hand_over(self, mark: ProcessMark) -> HandOver: ...

    async def recall(self) -> None:
        """Reads what is stored of it, unless it was read or heard."""

    def obstacle(self) -> str | None:
        """Why no process of it can be started now, if so."""

    def is_stored(self) -> bool: ...

    def mark(self, mark: ProcessMark) -> None: ...

    def note(self, lines: Sequence[str]) -> None: ...

    def keeps_question(self, tasks: Sequence[FollowedTask]) -> bool:
        """Whether it waits for the user, and still does now that the system has ended its
        process, which had these tasks."""

    def gone(self) -> None:
        """Its process is."""

    async def until(self, holds: Callable[[], bool]) -> None: ...


class ProcessKeeper:
    def __init__(
        self,
        owner: Owner,
        folder: SessionFolder,
        *,
        group: TaskGroup,
        timings: Timings,
        environ: Mapping[str, str],
    ) -> None:
        self._owner = owner
        self._folder = folder
        self._group = group
        self._timings = timings
        self._environ = environ
        self._process: SessionProcess | None = None
        self._conversation: SessionConversation | None = None
        self._one_process = anyio.Lock()

    @property
    def has_process(self) -> bool:
        return self._process is not None and not self._process.is_gone

    @property
    def may_retire(self) -> bool:
        """There is a process, and nobody has told it to end."""
        return self._process is not None and not (self._process.is_gone or self._process.ending)

    @property
    def is_ending(self) -> bool:
        return self._process is not None and self._process.ending and not self._process.is_gone

    @property
    def is_listening(self) -> bool:
        """What the process says is heard, or is about to be."""
        return self._conversation is not None

    @property
    def is_at_rest(self) -> bool:
        """The process was started only to be at hand."""
        return self._process is not None and self._process.mark.at_rest

    @property
    def tasks(self) -> Sequence[FollowedTask]:
        """The session's task and those that work for it now."""
        return self._conversation.tasks if self._conversation else (self._owner.root,)

    def launch(self, generation: int, *, at_rest: bool = False) -> None:
        """Start a process of this generation, once one of an earlier generation is gone."""
        self._group.start_soon(self._launch, generation, at_rest)

    def adopt(self, mark: ProcessMark, *, heard: bool) -> None:
        """A process of an earlier manager is listened to again, or ended if nobody wants it."""
        process = self._process = SessionProcess(mark)
        if not heard:
            self._group.start_soon(self._see_off, process)
            return
        announced = self._owner.session.saw_session_created
        given = None if announced else self._owner.hand_over(mark)
        self._begin_conversation(given)
        self._group.start_soon(self._take_up, process, given)

    async def host(self) -> Host | None:
        """The process to talk to, once it has what it was started with; None if there is none, or
        it does not get that far in time."""
        if not (self._conversation and self._process):
            return None
        with anyio.move_on_after(self._timings.answer):
            await _first_of(self._conversation.handed_over, self._process.gone)
        return self._conversation.host if self._conversation else None

    async def answer(self, answer: AnswerOrder, terms: Terms) -> None:
        """Raises `CommandRejected` if nobody waits for that, `Disconnected` if it was not sent."""
        if not self._conversation:
            raise CommandRejected("The session's process has ended. Try again.")
        with anyio.move_on_after(self._timings.answer):
            await self._conversation.answer(answer, terms)
            return
        raise CommandRejected(NOT_CONFIRMED)

    def cancel(self, generation: int) -> None:
        self._group.start_soon(self._cancel, generation)

    def terminate(self, generation: int) -> None:
        if self._process and self._process.mark.generation == generation:
            self.retire()

    def retire(self) -> None:
        """End its process, whatever it does."""
        if self._process and not self._process.is_gone:
            self._process.ending = True
            self._group.start_soon(self._end, self._process)

    def wake_for_mail(self) -> None:
        if self._conversation:
            self._conversation.wake_for_mail()

    async def has_answered(self) -> bool:
        """Whether an adopted process answers or is gone, which is waited for a moment."""
        if not (self._conversation and self._process):
            return True
        with anyio.move_on_after(self._timings.adoption):
            await _first_of(self._conversation.connected, self._process.gone)
            return True
        return False

    async def _launch(self, generation: int, at_rest: bool) -> None:
        self.retire()
        async with self._one_process:
            await self._owner.recall()
            session = self._owner.session
            if session.generation != generation or not session.process_open:
                return
            if session.stop_requested and not at_rest:
                self._owner.take(never_run(generation))
                return
            try:
                process = self._process = self._start(generation, at_rest=at_rest)
            except StorageError as error:
                self._owner.take(ProcessError(generation=generation, text=str(error)))
                return
            given = self._owner.hand_over(process.mark)
            self._begin_conversation(given)
            await self._serve(process, given)

    def _start(self, generation: int, *, at_rest: bool) -> SessionProcess:
        if obstacle := self._owner.obstacle():
            raise StorageError(obstacle)
        if not (launch := self._folder.launch()):
            raise StorageError(
                "This session has no start options, so it can only be read. Start a new one."
            )
        return start(
            self._folder,
            launch,
            generation,
            self._environ,
            new_task=not self._owner.is_stored(),
            at_rest=at_rest,
            after=self._owner.root.view.seq,
            marked=self._owner.mark,
        )

    def _begin_conversation(self, given: HandOver | None) -> None:
        root = self._owner.root
        root.forget_news()
        new_task = given is not None and given.new_task
        root.listen_to(self._owner.session.generation, new_task=new_task)
        self._conversation = SessionConversation(
            self._folder.socket, root, self._owner, self._timings, given
        )

    async def _take_up(self, process: SessionProcess, given: HandOver | None) -> None:
        async with self._one_process:
            if self._owner.session.stop_requested:  # and it may never have been told
                self.cancel(process.mark.generation)
            await self._serve(process, given)

    async def _see_off(self, process: SessionProcess) -> None:
        async with self._one_process, anyio.create_task_group() as group:
            group.start_soon(process.watch)
            await self._end(process)
            self._owner.gone()

    async def _serve(self, process: SessionProcess, given: HandOver | None) -> None:
        """Listens to a process until it is gone, and says how it went."""
        conversation = self._conversation
        assert conversation
        talk = _ProcessTalk()
        async with anyio.create_task_group() as group:
            group.start_soon(self._converse, conversation, process, talk)
            if given:
                group.start_soon(self._time_creation, process)
            how = await process.watch()
            with anyio.move_on_after(self._timings.last_words):
                await talk.over.wait()
            group.cancel_scope.cancel()
        self._conversation = None
        self._owner.silent_for(0)
        ended_by_system = how.is_shutdown and not process.ending
        if not (ended_by_system and self._owner.keeps_question(conversation.tasks)):
            self._report(process, how, task_is_over=talk.task_is_over)
        self._owner.gone()

    def _report(self, process: SessionProcess, how: ProcessEnd, *, task_is_over: bool) -> None:
        """One that was ended because its task was over has ended well."""
        complaints: tuple[str, ...] = ()
        if task_is_over:
            how = ProcessEnd(code=0)
        elif not process.ending:
            complaints = self._folder.complaints()
            self._owner.note(complaints)
        self._owner.take(
            ProcessExit(
                generation=process.mark.generation,
                code=how.code,
                signal=how.signal,
                requested=process.ending and not task_is_over,
                text="\n".join(complaints),
            )
        )

    async def _converse(
        self, conversation: SessionConversation, process: SessionProcess, talk: "_ProcessTalk"
    ) -> None:
        """A process whose task is over, or that refuses what it is for, is of no use."""
        generation, failure = process.mark.generation, ""
        try:
            talk.task_is_over = await conversation.run(lives=lambda: not process.is_gone)
            failure = self._owner.root.failed_with
        except RookeryError as error:
            failure = str(error)
        finally:
            talk.over.set()
        if failure:
            self._owner.take(ProcessError(generation=generation, text=failure))
        await self._end(process)

    async def _time_creation(self, process: SessionProcess) -> None:
        await anyio.sleep(self._timings.creation)
        session, generation = self._owner.session, process.mark.generation
        if session.saw_session_created:
            return
        said = "\n".join(self._folder.complaints())
        if session.state is SessionState.CREATING:
            self._owner.take(CreationTimeout(generation=generation, text=said))
            return
        text = f"The agent did not open the session in time. Retry. {said}"
        self._owner.take(ProcessError(generation=generation, text=text))
        await self._end(process)

    async def _cancel(self, generation: int) -> None:
        """Asked first; a process that does not confirm is ended."""
        with anyio.move_on_after(self._timings.cancel):
            if await self._has_confirmed():
                return
        if self._owner.session.generation == generation and self._owner.session.stop_requested:
            self.retire()

    async def _has_confirmed(self) -> bool:
        try:
            if conversation := self._conversation:
                await conversation.handed_over()  # which would make it go on afterwards
                if not self._is_resting():
                    await conversation.cancel()
            await self._owner.until(lambda: self._is_resting() or not self._is_stopping())
        except RookeryError:  # it cannot be asked, so it is made to
            return False
        return True

    def _is_stopping(self) -> bool:
        return self._owner.session.stop_requested and self._owner.session.process_open

    def _is_resting(self) -> bool:
        """Not if it was told to go on and has not said yet that it does."""
        view, answered = self._owner.root.view, self._owner.session.answered_ask_ts
        ask = view.open_ask
        offers = ask is not None and ask.ask in RESUMING and not is_answered(ask.ts, answered)
        return view.closed or offers

    async def _end(self, process: SessionProcess) -> None:
        if not process.is_gone:
            await process.end(patience=self._timings.end)


async def _first_of(*waits: Callable[[], Awaitable[None]]) -> None:
    async with anyio.create_task_group() as group:

        async def wait_for(one: Callable[[], Awaitable[None]]) -> None:
            await one()
            group.cancel_scope.cancel()

        for one in waits:
            group.start_soon(wait_for, one)


class _ProcessTalk:
    """How far a conversation has come."""

    def __init__(self) -> None:
        self.over = anyio.Event()
        self.task_is_over = False


def never_run(generation: int) -> ProcessExit:
    """The end of a process that did not begin."""
    return ProcessExit(generation=generation, code=0, requested=True)
