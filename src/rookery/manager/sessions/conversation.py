"""The connection between the manager and one process of a session, over the process's socket.

A lost connection is made again while the process lives. Messages may then be sent twice; the
process recognises them by the ids of tasks and messages.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct
from msgspec.structs import replace

from rookery.core.commands import Answer, Cancel, OpenTask, ReopenTask, SelectIntent, Speak
from rookery.core.facts import ChildBegan
from rookery.core.message import Message
from rookery.core.plans import PLAN_ANSWERS
from rookery.core.queries import AskAbout
from rookery.errors import CommandRejected, SettingsError
from rookery.faults import kp
from rookery.manager.sessions.message_queue import NOT_AS_SHOWN, Terms, images_of, message_id_of
from rookery.manager.sessions.session_events import AnswerOrder, UserMessage
from rookery.manager.sessions.session_task import RESUMING, FollowedTask, events_of, host_at
from rookery.protocol.codec import Host
from rookery.protocol.jsonrpc import Disconnected, RpcError

if TYPE_CHECKING:
    from rookery.manager.sessions.supervised_session import SupervisedSession

SECONDS_TO_CONNECT = 5.0
"""Seconds an answer waits for a connection that was lost or is not there yet."""
NOT_SENT = "The session's process does not answer. Nothing was sent; try again."
NOT_CONFIRMED = (
    "The session's process did not confirm your answer. If it arrived, the question "
    "disappears; if not, answer again."
)


class Timings(Struct, frozen=True, kw_only=True):
    creation: float = 30.0
    """Seconds for a process to announce its session."""
    cancel: float = 3.0
    """Seconds for a task to confirm that it was cancelled; then its process gets SIGTERM."""
    end: float = 5.0
    """Seconds between SIGTERM and SIGKILL."""
    silence: float = 15.0
    """Seconds of silence after which a working process is pinged."""
    unresponsive: float = 60.0
    """Seconds of silence after which a session is shown as unresponsive."""
    last_words: float = 1.0
    """Seconds to read what a process sent before it ended."""
    answer: float = 10.0
    """Seconds for a process to confirm an answer."""
    adoption: float = 5.0
    """Seconds for an adopted process to answer before the list is shown."""


FIRST_WAIT, MAX_WAIT = 0.02, 0.5
"""Seconds between two attempts to connect: the first wait and the longest."""


class HandOver(Struct, frozen=True, kw_only=True):
    """What a process is started with. Messages are numbered from `first`. A `new_task` is opened
    with the first of them. A process that is reopened `at_rest` gets no message and waits with
    the question whether to resume."""

    new_task: bool
    messages: tuple[UserMessage, ...]
    first: int
    mode: str | None = None
    intent: str = ""
    at_rest: bool = False
    after: int = 0
    """Sequence number of the task's last event before it is reopened."""


class SessionConversation:
    def __init__(
        self,
        socket: Path,
        root: FollowedTask,
        listener: "SupervisedSession",
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
        self._new_messages = anyio.Event()
        self._last_event_at = time.monotonic()

    @property
    def tasks(self) -> Sequence[FollowedTask]:
        """The followed tasks, the innermost last."""
        return tuple(self._tasks.values())

    async def run(self, *, is_alive: Callable[[], bool]) -> bool:
        """Follow the process until it is gone or its task is over; return whether the task is.
        Raises the error with which the process refuses to open the task."""
        wait = FIRST_WAIT
        while is_alive():
            with suppress(Disconnected, SettingsError, RpcError):
                async with host_at(self._socket) as host:
                    wait = FIRST_WAIT
                    await self._run_connection(host)
                    return True
            self._lose_connection()
            await anyio.sleep(wait)
            wait = min(MAX_WAIT, wait * 1.5)
        return False

    async def connected(self) -> None:
        await self._connected.wait()

    async def handed_over(self) -> None:
        """Wait until the process has received what it was started with."""
        await self._handed.wait()

    @property
    def host(self) -> Host:
        """Raises `Disconnected` while there is no connection."""
        if not self._host:
            raise Disconnected(NOT_SENT)
        return self._host

    async def answer(self, order: AnswerOrder, terms: Terms) -> None:
        """Answer a question. Raises `CommandRejected` if it was already answered or has changed."""
        with anyio.move_on_after(SECONDS_TO_CONNECT):  # it may be reconnecting
            await self._connected.wait()
        task, row = self._question(order.ask_ts)
        if terms.digest not in (None, row.digest):
            raise CommandRejected(NOT_AS_SHOWN)
        said = order.message.text
        level = PLAN_ANSWERS.get(said) if row.ask_id in task.plans else None
        await self._send(
            Answer(
                task_id=task.task_id,
                ask_id=row.ask_id,
                reply=order.reply,
                text="" if level else said,
                level=level,
                images=images_of(order.message),
                digest=row.digest,
                always=terms.always,
                choice=terms.choice,
            )
        )

    async def cancel(self) -> None:
        await self._send(Cancel(task_id=self._root.task_id))

    def wake_for_messages(self) -> None:
        self._new_messages.set()

    async def _run_connection(self, host: Host) -> None:
        if self._hand_over:
            await self._open_task(host, self._hand_over)
        self._host = host
        self._connected.set()
        self._note_handed_over()
        self._note_alive()
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._deliver, host)
                group.start_soon(self._watch_silence, host)
                await self._follow(host, self._root, group)
                group.cancel_scope.cancel()
        finally:
            self._host, self._connected = None, anyio.Event()

    async def _open_task(self, host: Host, given: HandOver) -> None:
        task_id = self._root.task_id
        if not given.new_task:
            await host.send(ReopenTask(task_id=task_id))
            return
        prompt = given.messages[0] if given.messages else UserMessage()
        opening = OpenTask(task_id=task_id, text=prompt.text, images=images_of(prompt))
        await host.send(replace(opening, mode=given.mode) if given.mode else opening)
        if given.intent:
            await host.send(SelectIntent(task_id=task_id, intent_id=given.intent))

    async def _follow(self, host: Host, task: FollowedTask, group: TaskGroup) -> None:
        for began in task.children.values():
            group.start_soon(self._follow_child, host, began, group)
        if task is self._root:
            await self._send_hand_over(host)
        async with aclosing(events_of(host, task)) as events:
            async for event in events:
                self._note_alive()
                self._listener.on_event(task, event)
                if isinstance(event.fact, ChildBegan):
                    group.start_soon(self._follow_child, host, event.fact, group)
                if task is self._root:
                    await self._send_hand_over(host)

    async def _follow_child(self, host: Host, began: ChildBegan, group: TaskGroup) -> None:
        child = self._tasks.get(began.task_id)
        if not child:
            child = self._tasks[began.task_id] = self._root.child(began)
        await self._follow(host, child, group)
        self._tasks.pop(began.task_id, None)

    async def _send_hand_over(self, host: Host) -> None:
        """Send the process what it was started with, as soon as it can accept it."""
        if not (given := self._hand_over) or not self._root.view.seq:
            return
        ask, is_reopened = self._root.view.open_ask, self._root.reopened_at > given.after
        waits = is_reopened and ask is not None and ask.ask in RESUMING
        if given.new_task:
            await self._send_messages(host, given, after=1)
        elif ask and waits and not given.at_rest:
            first = given.messages[0] if given.messages else None
            with suppress(CommandRejected):  # another client was first; its answer arrives
                await host.send(_resume_answer(self._root.task_id, ask, first, given.first))
            return
        elif is_reopened and (
            answer := self._root.resumed_with
        ):  # before the connection broke, or by another client
            ours = bool(given.messages) and answer.message_id == message_id_of(given.first)
            await self._send_messages(host, given, after=int(ours))
        elif not waits:
            return
        self._hand_over = None
        self._note_handed_over()
        self._listener.on_handed_over()

    def _note_handed_over(self) -> None:
        if not self._hand_over:
            self._handed.set()

    async def _send_messages(self, host: Host, given: HandOver, *, after: int) -> None:
        for number, message in list(enumerate(given.messages, given.first))[after:]:
            if message:
                await host.send(self._speak_command(number, message))

    async def _deliver(self, host: Host) -> None:
        """Send queued messages one at a time, in order, once the task is open."""
        while True:
            while not self._hand_over and (queued := self._listener.next_message()):
                try:
                    await host.send(self._speak_command(queued.number, queued.message))
                except CommandRejected as error:
                    # an ending process refuses messages; wait, so that they go to the next one
                    await anyio.sleep(self._timings.last_words)
                    self._listener.on_message_refused(queued, str(error))
                else:
                    kp("manager.delivered")
                    self._listener.on_message_sent(queued)
            await self._new_messages.wait()
            self._new_messages = anyio.Event()

    async def _watch_silence(self, host: Host) -> None:
        while True:
            await anyio.sleep(self._timings.silence)
            quiet = time.monotonic() - self._last_event_at
            if quiet < self._timings.silence or not self._listener.is_active:
                continue
            with anyio.move_on_after(self._timings.unresponsive - self._timings.silence) as late:
                await host.query(AskAbout())
            if late.cancelled_caught:
                self._listener.on_silence(time.monotonic() - self._last_event_at)
            else:
                self._note_alive()

    def _speak_command(self, number: int, message: UserMessage) -> Speak:
        return Speak(
            task_id=self._root.task_id,
            message_id=message_id_of(number),
            text=message.text,
            images=images_of(message),
        )

    def _question(self, ask_ts: int) -> tuple[FollowedTask, Message]:
        for task in self._tasks.values():
            row = task.row(ask_ts)
            if row and row.type == "ask" and not row.answered:
                return task, row
        raise CommandRejected("That question was already answered.")

    async def _send(self, command: Answer | Cancel) -> None:
        if not self._host:
            raise CommandRejected(NOT_SENT)
        try:
            await self._host.send(command)
        except Disconnected as error:
            raise CommandRejected(NOT_CONFIRMED) from error

    def _note_alive(self) -> None:
        self._last_event_at = time.monotonic()
        self._listener.on_silence(0)

    def _lose_connection(self) -> None:
        for task in self._tasks.values():
            task.drop_transient()
        quiet = time.monotonic() - self._last_event_at
        if quiet >= self._timings.unresponsive:
            self._listener.on_silence(quiet)


def _resume_answer(task_id: str, ask: Message, message: UserMessage | None, number: int) -> Answer:
    """A message is numbered, because a restarted manager may send the same answer twice."""
    return Answer(
        task_id=task_id,
        ask_id=ask.ask_id,
        reply="message" if message else "yes",
        text=message.text if message else "",
        images=images_of(message) if message else (),
        digest=ask.digest,
        message_id=message_id_of(number) if message else "",
    )
