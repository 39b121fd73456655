"""What is said between the manager and one process of a session, over the process's socket.

The connection may break and is made again for as long as the process lives; whatever is said
twice because of that counts once, by the ids of tasks and messages.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Protocol

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct

from rookery.core.commands import Answer, Cancel, OpenTask, ReopenTask, SelectIntent, Speak
from rookery.core.facts import ChildBegan, Event
from rookery.core.message import Message
from rookery.core.queries import AskAbout
from rookery.errors import CommandRejected, SettingsError
from rookery.faults import kp
from rookery.manager.sessions.message_queue import NOT_AS_SHOWN, Terms, images_of, message_id_of
from rookery.manager.sessions.session_events import AnswerOrder as AnswerOrder
from rookery.manager.sessions.session_events import UserMessage
from rookery.manager.sessions.session_record import QueuedMessage
from rookery.manager.sessions.session_task import RESUMING, FollowedTask, events_of, host_at
from rookery.protocol.codec import Host
from rookery.protocol.jsonrpc import Disconnected, RpcError

SECONDS_TO_CONNECT = 5.0
"""That an answer waits for a connection which was lost, or is not there yet."""
NOT_SENT = "The session's process does not answer. Nothing was sent; try again."
NOT_CONFIRMED = (
    "The session's process did not confirm your answer. If it arrived, the question "
    "disappears; if not, answer again."
)


class Timings(Struct, frozen=True, kw_only=True):
    creation: float = 30.0
    """Until a process has announced its session."""
    cancel: float = 3.0
    """Until a task that was cancelled says so; then its process is told to end."""
    end: float = 5.0
    """Until a process that was told to end is made to."""
    silence: float = 15.0
    """After which a process that works is asked whether it lives."""
    unresponsive: float = 60.0
    """Of silence, after which a session is shown as unresponsive."""
    last_words: float = 1.0
    """For what a process has said before it ended."""
    answer: float = 10.0
    """For a process to confirm an answer."""
    adoption: float = 5.0
    """For a process of an earlier manager to answer, before anything is shown."""


FIRST_WAIT, LONGEST_WAIT = 0.02, 0.5
"""Seconds between two tries to connect."""


class HandOver(Struct, frozen=True, kw_only=True):
    """What a process is started with. Each letter has a number, and the first is `first`; a
    `new_task` is opened with the first of them. One that is taken up `at_rest` is given nothing
    and asks, until somebody answers, whether to go on."""

    new_task: bool
    letters: tuple[UserMessage, ...]
    first: int
    mode: str | None = None
    intent: str = ""
    at_rest: bool = False
    after: int = 0
    """The last event of the task before it is taken up."""


class ConversationListener(Protocol):
    """Who the conversation is for."""

    def hear(self, task: FollowedTask, event: Event) -> None: ...

    def taken_over(self) -> None:
        """The process has what it was started with."""

    def waiting_mail(self) -> QueuedMessage | None: ...

    def mail_sent(self, mail: QueuedMessage) -> None: ...

    def mail_refused(self, mail: QueuedMessage, problem: str) -> None: ...

    def silent_for(self, seconds: float) -> None:
        """So long nothing was heard and nothing answered; 0 once something is."""

    def is_working(self) -> bool: ...


class SessionConversation:
    def __init__(
        self,
        socket: Path,
        root: FollowedTask,
        listener: ConversationListener,
        timings: Timings,
        hand_over: HandOver | None,
    ) -> None:
        self._socket = socket
        self._root = root
        self._listener = listener
        self._timings = timings
        self._hand_over = hand_over
        self._tasks = {root.task_id: root}
        self._host: Host | None = None
        self._connected = anyio.Event()
        self._handed = anyio.Event()
        self._mail = anyio.Event()
        self._heard_at = time.monotonic()

    @property
    def tasks(self) -> Sequence[FollowedTask]:
        """The innermost last."""
        return tuple(self._tasks.values())

    async def run(self, *, lives: Callable[[], bool]) -> bool:
        """Until the task is over, or the process does not live any more; whether the task is.
        Raises what the process refuses to begin with."""
        wait = FIRST_WAIT
        while lives():
            with suppress(Disconnected, SettingsError, RpcError):
                async with host_at(self._socket) as host:
                    wait = FIRST_WAIT
                    await self._talk(host)
                    return True
            self._lose_connection()
            await anyio.sleep(wait)
            wait = min(LONGEST_WAIT, wait * 1.5)
        return False

    async def connected(self) -> None:
        await self._connected.wait()

    async def handed_over(self) -> None:
        """Waits until the process has what it was started with."""
        await self._handed.wait()

    @property
    def host(self) -> Host:
        """Raises `Disconnected` while there is no connection."""
        if not self._host:
            raise Disconnected(NOT_SENT)
        return self._host

    async def answer(self, order: AnswerOrder, terms: Terms) -> None:
        """Raises `CommandRejected` if nobody waits for it any more, or something else is asked."""
        with anyio.move_on_after(SECONDS_TO_CONNECT):  # it may just be being found again
            await self._connected.wait()
        task, row = self._question(order.ask_ts)
        if terms.digest not in (None, row.digest):
            raise CommandRejected(NOT_AS_SHOWN)
        await self._say(
            Answer(
                task_id=task.task_id,
                ask_id=row.ask_id,
                reply=order.reply,
                text=order.letter.text,
                images=images_of(order.letter),
                digest=row.digest,
                always=terms.always,
                choice=terms.choice,
            )
        )

    async def cancel(self) -> None:
        await self._say(Cancel(task_id=self._root.task_id))

    def wake_for_mail(self) -> None:
        self._mail.set()

    async def _talk(self, host: Host) -> None:
        if self._hand_over:
            await self._begin(host, self._hand_over)
        self._host = host
        self._connected.set()
        self._note_handing()
        self._note_life()
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._deliver, host)
                group.start_soon(self._watch_silence, host)
                await self._follow(host, self._root, group)
                group.cancel_scope.cancel()
        finally:
            self._host, self._connected = None, anyio.Event()

    async def _begin(self, host: Host, given: HandOver) -> None:
        task_id = self._root.task_id
        if not given.new_task:
            await host.send(ReopenTask(task_id=task_id))
            return
        prompt = given.letters[0] if given.letters else UserMessage()
        images = images_of(prompt)
        opening = OpenTask(task_id=task_id, text=prompt.text, images=images)
        if given.mode:
            opening = OpenTask(task_id=task_id, text=prompt.text, images=images, mode=given.mode)
        await host.send(opening)
        if given.intent:
            await host.send(SelectIntent(task_id=task_id, intent_id=given.intent))

    async def _follow(self, host: Host, task: FollowedTask, group: TaskGroup) -> None:
        for began in task.children.values():
            group.start_soon(self._follow_child, host, began, group)
        if task is self._root:
            await self._hand(host)
        async with aclosing(events_of(host, task)) as events:
            async for event in events:
                self._note_life()
                self._listener.hear(task, event)
                if isinstance(event.fact, ChildBegan):
                    group.start_soon(self._follow_child, host, event.fact, group)
                if task is self._root:
                    await self._hand(host)

    async def _follow_child(self, host: Host, began: ChildBegan, group: TaskGroup) -> None:
        child = self._tasks.get(began.task_id)
        if not child:
            child = self._tasks[began.task_id] = self._root.child(began)
        await self._follow(host, child, group)
        self._tasks.pop(began.task_id, None)

    async def _hand(self, host: Host) -> None:
        """Give the process what it was started with, as soon as it can take it."""
        if not (given := self._hand_over) or not self._root.view.seq:
            return
        ask, is_taken_up = self._root.view.open_ask, self._root.reopened_at > given.after
        waits = is_taken_up and ask is not None and ask.ask in RESUMING
        if given.new_task:
            await self._speak_all(host, given, after=1)
        elif ask and waits and not given.at_rest:
            first = given.letters[0] if given.letters else None
            with suppress(CommandRejected):  # somebody else was quicker: we are told what they said
                await host.send(_resumption(self._root.task_id, ask, first, given.first))
            return
        elif is_taken_up and (
            answer := self._root.resumed_with
        ):  # before we were cut off, or by somebody else
            ours = bool(given.letters) and answer.message_id == message_id_of(given.first)
            await self._speak_all(host, given, after=int(ours))
        elif not waits:
            return
        self._hand_over = None
        self._note_handing()
        self._listener.taken_over()

    def _note_handing(self) -> None:
        if not self._hand_over:
            self._handed.set()

    async def _speak_all(self, host: Host, given: HandOver, *, after: int) -> None:
        for number, letter in list(enumerate(given.letters, given.first))[after:]:
            if letter:
                await host.send(self._speech(number, letter))

    async def _deliver(self, host: Host) -> None:
        """One at a time, in their order, and only to a process that has begun."""
        while True:
            while not self._hand_over and (mail := self._listener.waiting_mail()):
                try:
                    await host.send(self._speech(mail.number, mail.letter))
                except CommandRejected as error:
                    # one that is ending takes nothing any more: then it is for the next process
                    await anyio.sleep(self._timings.last_words)
                    self._listener.mail_refused(mail, str(error))
                else:
                    kp("manager.delivered")
                    self._listener.mail_sent(mail)
            await self._mail.wait()
            self._mail = anyio.Event()

    async def _watch_silence(self, host: Host) -> None:
        while True:
            await anyio.sleep(self._timings.silence)
            quiet = time.monotonic() - self._heard_at
            if quiet < self._timings.silence or not self._listener.is_working():
                continue
            with anyio.move_on_after(self._timings.unresponsive - self._timings.silence) as late:
                await host.query(AskAbout())
            if late.cancelled_caught:
                self._listener.silent_for(time.monotonic() - self._heard_at)
            else:
                self._note_life()

    def _speech(self, number: int, letter: UserMessage) -> Speak:
        return Speak(
            task_id=self._root.task_id,
            message_id=message_id_of(number),
            text=letter.text,
            images=images_of(letter),
        )

    def _question(self, ask_ts: int) -> tuple[FollowedTask, Message]:
        for task in self._tasks.values():
            row = task.row(ask_ts)
            if row and row.type == "ask" and not row.answered:
                return task, row
        raise CommandRejected("That question was already answered.")

    async def _say(self, command: Answer | Cancel) -> None:
        if not self._host:
            raise CommandRejected(NOT_SENT)
        try:
            await self._host.send(command)
        except Disconnected as error:
            raise CommandRejected(NOT_CONFIRMED) from error

    def _note_life(self) -> None:
        self._heard_at = time.monotonic()
        self._listener.silent_for(0)

    def _lose_connection(self) -> None:
        for task in self._tasks.values():
            task.forget_news()
        quiet = time.monotonic() - self._heard_at
        if quiet >= self._timings.unresponsive:
            self._listener.silent_for(quiet)


def _resumption(task_id: str, ask: Message, letter: UserMessage | None, number: int) -> Answer:
    """With words it may be given again, by who does not know that it was: therefore the number."""
    return Answer(
        task_id=task_id,
        ask_id=ask.ask_id,
        reply="message" if letter else "yes",
        text=letter.text if letter else "",
        images=images_of(letter) if letter else (),
        digest=ask.digest,
        message_id=message_id_of(number) if letter else "",
    )
