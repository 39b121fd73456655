"""What is said between the manager and one process of a session, over the process's socket.

The connection may break and is made again for as long as the process lives; whatever is said
twice because of that counts once, by the ids of tasks and messages.
"""

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Protocol, cast

import anyio
from anyio.abc import TaskGroup

from rookery.core.commands import Answer, Cancel, OpenTask, ReopenTask, Speak
from rookery.core.facts import ChildBegan, Event
from rookery.core.message import Message
from rookery.core.queries import AskAbout
from rookery.core.sessions.orders import Answer as AnswerOrder
from rookery.core.sessions.orders import Letter
from rookery.core.values import value
from rookery.errors import CommandRejected, SettingsError
from rookery.faults import kp
from rookery.manager.followed_task import RESUMING, FollowedTask
from rookery.manager.pictures import images_of
from rookery.manager.session_json import Mail
from rookery.manager.timings import Timings
from rookery.wire.host import Host
from rookery.wire.jsonrpc import RpcError
from rookery.wire.outbox import Disconnected
from rookery.wire.remote_host import remote_host
from rookery.wire.unix_sockets import unix_channel

FIRST_WAIT, LONGEST_WAIT = 0.02, 0.5
"""Seconds between two tries to connect."""


@value
class HandOver:
    """What a process is started with. Each letter has a number, and the first is `first`; a
    `new_task` is opened with the first of them."""

    new_task: bool
    letters: tuple[Letter, ...]
    first: int
    mode: str | None = None


class Listener(Protocol):
    """Who the conversation is for."""

    def hear(self, task: FollowedTask, event: Event) -> None: ...

    def taken_over(self) -> None:
        """The process has what it was started with."""

    def waiting_mail(self) -> Mail | None: ...

    def mail_sent(self, mail: Mail) -> None: ...

    def mail_refused(self, mail: Mail, problem: str) -> None: ...

    def silent_for(self, seconds: float) -> None:
        """So long nothing was heard and nothing answered; 0 once something is."""

    def is_working(self) -> bool: ...


class Conversation:
    def __init__(
        self,
        socket: Path,
        root: FollowedTask,
        listener: Listener,
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
                async with _host_at(self._socket) as host:
                    wait = FIRST_WAIT
                    await self._talk(host)
                    return True
            self._lose_connection()
            await anyio.sleep(wait)
            wait = min(LONGEST_WAIT, wait * 1.5)
        return False

    async def connected(self) -> None:
        await self._connected.wait()

    async def answer(self, order: AnswerOrder) -> None:
        """Raises `CommandRejected` if nobody waits for it any more."""
        task, row = self._question(order.ask_ts)
        await self._say(
            Answer(
                task_id=task.task_id,
                ask_id=row.ask_id,
                reply=order.reply,
                text=order.letter.text,
                images=images_of(order.letter),
                digest=row.digest,
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
        self._note_life()
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._deliver, host)
                group.start_soon(self._watch_silence, host)
                await self._follow(host, self._root, group)
                group.cancel_scope.cancel()
        finally:
            self._host = None

    async def _begin(self, host: Host, given: HandOver) -> None:
        task_id = self._root.task_id
        if not given.new_task:
            await host.send(ReopenTask(task_id=task_id))
            return
        prompt = given.letters[0] if given.letters else Letter()
        images = images_of(prompt)
        opening = OpenTask(task_id=task_id, text=prompt.text, images=images)
        if given.mode:
            opening = OpenTask(task_id=task_id, text=prompt.text, images=images, mode=given.mode)
        await host.send(opening)

    async def _follow(self, host: Host, task: FollowedTask, group: TaskGroup) -> None:
        for began in task.children.values():
            group.start_soon(self._follow_child, host, began, group)
        if task is self._root:
            await self._hand(host)
        async with aclosing(_events(host, task)) as events:
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
        if given.new_task:
            await self._speak_all(host, given, after=1)
        elif (ask := self._root.view.open_ask) and ask.ask in RESUMING:
            first = given.letters[0] if given.letters else None
            with suppress(CommandRejected):  # somebody else was quicker: we are told what they said
                await host.send(_resumption(self._root.task_id, ask, first))
            return
        elif answer := self._root.resumed_with:  # before we were cut off, or by somebody else
            ours = bool(given.letters) and answer.text == given.letters[0].text
            await self._speak_all(host, given, after=int(ours))
        else:
            return
        self._hand_over = None
        self._listener.taken_over()

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

    def _speech(self, number: int, letter: Letter) -> Speak:
        return Speak(
            task_id=self._root.task_id,
            message_id=f"manager-{number}",
            text=letter.text,
            images=images_of(letter),
        )

    def _question(self, ask_ts: int) -> tuple[FollowedTask, Message]:
        for task in self._tasks.values():
            row = task.row(ask_ts)
            if row and row.type == "ask" and not row.answered:
                return task, row
        raise CommandRejected("That question was answered already.")

    async def _say(self, command: Answer | Cancel) -> None:
        if not (host := self._host):
            raise Disconnected("The session's process does not answer now. Nothing was sent.")
        await host.send(command)

    def _note_life(self) -> None:
        self._heard_at = time.monotonic()
        self._listener.silent_for(0)

    def _lose_connection(self) -> None:
        for task in self._tasks.values():
            task.forget_news()
        quiet = time.monotonic() - self._heard_at
        if quiet >= self._timings.unresponsive:
            self._listener.silent_for(quiet)


def _resumption(task_id: str, ask: Message, letter: Letter | None) -> Answer:
    return Answer(
        task_id=task_id,
        ask_id=ask.ask_id,
        reply="message" if letter else "yes",
        text=letter.text if letter else "",
        images=images_of(letter) if letter else (),
        digest=ask.digest,
    )


async def _events(host: Host, task: FollowedTask) -> AsyncGenerator[Event, None]:
    """None if the task is over already, which a refusal means."""
    with suppress(CommandRejected):
        async with aclosing(_closable(host.follow(task.task_id, task.after))) as events:
            async for event in events:
                yield event


def _closable(events: AsyncIterator[Event]) -> AsyncGenerator[Event, None]:
    return cast(AsyncGenerator[Event, None], events)


@asynccontextmanager
async def _host_at(socket: Path) -> AsyncIterator[Host]:
    """The host there. What goes wrong is raised as it is, not in a group."""
    try:
        async with remote_host(await unix_channel(socket)) as host:
            yield host
    except BaseExceptionGroup as group:
        raise _first_in(group) from group


def _first_in(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
