"""Keeps the process of a session: at most one, from its start or adoption to its end.

`_one_process` is held from the start of a process until it is gone, so that two processes never
write to one task.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from rookery.errors import CommandRejected, RookeryError, StorageError
from rookery.manager.sessions.conversation import (
    NOT_CONFIRMED,
    HandOver,
    SessionConversation,
    Timings,
)
from rookery.manager.sessions.message_queue import Terms
from rookery.manager.sessions.session_events import (
    AnswerOrder,
    CreationTimeout,
    ProcessError,
    ProcessExit,
    is_answered,
)
from rookery.manager.sessions.session_folders import ProcessMark, SessionFolder
from rookery.manager.sessions.session_process import ProcessEnd, SessionProcess, start
from rookery.manager.sessions.session_states import SessionState
from rookery.manager.sessions.session_task import RESUMING, FollowedTask
from rookery.protocol.codec import Host

if TYPE_CHECKING:
    from rookery.manager.sessions.supervised_session import SupervisedSession


class ProcessKeeper:
    def __init__(
        self,
        owner: "SupervisedSession",
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
    def can_retire(self) -> bool:
        """Whether there is a process that is not being ended already."""
        return self._process is not None and not (self._process.is_gone or self._process.ending)

    @property
    def is_ending(self) -> bool:
        return self._process is not None and self._process.ending and not self._process.is_gone

    @property
    def is_listening(self) -> bool:
        """Whether events of a process are received, or are about to be."""
        return self._conversation is not None

    @property
    def is_at_rest(self) -> bool:
        """Whether the process was started without resuming work."""
        return self._process is not None and self._process.mark.at_rest

    @property
    def tasks(self) -> Sequence[FollowedTask]:
        """The session's task and its running sub-tasks."""
        return self._conversation.tasks if self._conversation else (self._owner.root,)

    def launch(self, generation: int, *, at_rest: bool = False) -> None:
        """Start a process of this generation, once that of an earlier generation is gone."""
        self._group.start_soon(self._launch, generation, at_rest)

    def adopt(self, mark: ProcessMark, *, follow: bool) -> None:
        """Follow a process of an earlier manager again, or end it if it is not to `follow`."""
        process = self._process = SessionProcess(mark)
        if not follow:
            self._group.start_soon(self._end_unwanted, process)
            return
        announced = self._owner.record.saw_session_created
        given = None if announced else self._owner.hand_over(mark)
        self._begin_conversation(given)
        self._group.start_soon(self._follow_adopted, process, given)

    async def host(self) -> Host | None:
        """The process's host once its task is open; None without a process, or after a timeout."""
        if not (self._conversation and self._process):
            return None
        with anyio.move_on_after(self._timings.answer):
            await _first_of(self._conversation.handed_over, self._process.wait)
        return self._conversation.host if self._conversation else None

    async def answer(self, answer: AnswerOrder, terms: Terms) -> None:
        """Raises `CommandRejected` if the question is not open, `Disconnected` if not sent."""
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
        """End the process, whatever it is doing."""
        if self._process and not self._process.is_gone:
            self._process.ending = True
            self._group.start_soon(self._end, self._process)

    def wake_for_messages(self) -> None:
        if self._conversation:
            self._conversation.wake_for_messages()

    async def has_answered(self) -> bool:
        """Wait a moment and return whether an adopted process answers or is gone."""
        if not (self._conversation and self._process):
            return True
        with anyio.move_on_after(self._timings.adoption):
            await _first_of(self._conversation.connected, self._process.wait)
            return True
        return False

    async def _launch(self, generation: int, at_rest: bool) -> None:
        self.retire()
        async with self._one_process:
            await self._owner.load_history()
            session = self._owner.record
            if session.generation != generation or not session.process_open:
                return
            if session.stop_requested and not at_rest:
                self._owner.apply(not_started_exit(generation))
                return
            try:
                process = self._process = self._start(generation, at_rest=at_rest)
            except StorageError as error:
                self._owner.apply(ProcessError(generation=generation, text=str(error)))
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
        root.drop_transient()
        new_task = given is not None and given.new_task
        root.follow_process(self._owner.record.generation, new_task=new_task)
        self._conversation = SessionConversation(
            self._folder.socket, root, self._owner, self._timings, given
        )

    async def _follow_adopted(self, process: SessionProcess, given: HandOver | None) -> None:
        async with self._one_process:
            if self._owner.record.stop_requested:  # the stop may not have reached it
                self.cancel(process.mark.generation)
            await self._serve(process, given)

    async def _end_unwanted(self, process: SessionProcess) -> None:
        async with self._one_process, anyio.create_task_group() as group:
            group.start_soon(process.watch)
            await self._end(process)
            self._owner.on_process_gone()

    async def _serve(self, process: SessionProcess, given: HandOver | None) -> None:
        """Follow a process until it is gone, then report its end."""
        conversation = self._conversation
        assert conversation
        talk = _TalkState()
        async with anyio.create_task_group() as group:
            group.start_soon(self._converse, conversation, process, talk)
            if given:
                group.start_soon(self._watch_creation, process)
            end = await process.watch()
            with anyio.move_on_after(self._timings.last_words):
                await talk.over.wait()
            group.cancel_scope.cancel()
        self._conversation = None
        self._owner.on_silence(0)
        ended_by_system = end.is_shutdown and not process.ending
        if not (ended_by_system and self._owner.keeps_question(conversation.tasks)):
            self._report(process, end, task_is_over=talk.task_is_over)
        self._owner.on_process_gone()

    def _report(self, process: SessionProcess, end: ProcessEnd, *, task_is_over: bool) -> None:
        """Report the exit; ending a process whose task is over counts as a clean exit."""
        log_tail: tuple[str, ...] = ()
        if task_is_over:
            end = ProcessEnd(code=0)
        elif not process.ending:
            log_tail = self._folder.log_tail()
            self._owner.note(log_tail)
        self._owner.apply(
            ProcessExit(
                generation=process.mark.generation,
                code=end.code,
                signal=end.signal,
                requested=process.ending and not task_is_over,
                text="\n".join(log_tail),
            )
        )

    async def _converse(
        self, conversation: SessionConversation, process: SessionProcess, talk: "_TalkState"
    ) -> None:
        """Run the conversation and end the process when its task is over or it refuses the task."""
        generation, failure = process.mark.generation, ""
        try:
            talk.task_is_over = await conversation.run(is_alive=lambda: not process.is_gone)
            failure = self._owner.root.failed_with
        except RookeryError as error:
            failure = str(error)
        finally:
            talk.over.set()
        if failure:
            self._owner.apply(ProcessError(generation=generation, text=failure))
        await self._end(process)

    async def _watch_creation(self, process: SessionProcess) -> None:
        await anyio.sleep(self._timings.creation)
        session, generation = self._owner.record, process.mark.generation
        if session.saw_session_created:
            return
        log = "\n".join(self._folder.log_tail())
        if session.state is SessionState.CREATING:
            self._owner.apply(CreationTimeout(generation=generation, text=log))
            return
        text = f"The agent did not open the session in time. Retry. {log}"
        self._owner.apply(ProcessError(generation=generation, text=text))
        await self._end(process)

    async def _cancel(self, generation: int) -> None:
        """Ask the process to cancel; end it if it does not confirm in time."""
        with anyio.move_on_after(self._timings.cancel):
            if await self._confirms_cancel():
                return
        if self._owner.record.generation == generation and self._owner.record.stop_requested:
            self.retire()

    async def _confirms_cancel(self) -> bool:
        try:
            if conversation := self._conversation:
                await conversation.handed_over()  # a later hand-over would resume it
                if not self._is_idle():
                    await conversation.cancel()
            await self._owner.until(lambda: self._is_idle() or not self._is_stopping())
        except RookeryError:  # it cannot be asked, so it is ended
            return False
        return True

    def _is_stopping(self) -> bool:
        return self._owner.record.stop_requested and self._owner.record.process_open

    def _is_idle(self) -> bool:
        """Whether the task is over or offers to be resumed, and that offer was not accepted yet."""
        view, answered = self._owner.root.view, self._owner.record.answered_ask_ts
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


class _TalkState:
    def __init__(self) -> None:
        self.over = anyio.Event()
        self.task_is_over = False


def not_started_exit(generation: int) -> ProcessExit:
    """The exit event of a process that was never started."""
    return ProcessExit(generation=generation, code=0, requested=True)
