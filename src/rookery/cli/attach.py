"""`rookery attach`: look on at a task that a server runs, and answer what it asks."""

import os
import signal
import sys
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress
from pathlib import Path
from typing import cast

import anyio
import click

from rookery import NAME
from rookery.cli.exit_codes import Exit, exit_code
from rookery.cli.main import resolve_folder
from rookery.cli.retelling import Retelling
from rookery.cli.serve import socket_for
from rookery.cli.session_ids import SHORTEST, short_ids
from rookery.clients.attendant import Fate, Focus, Response, RunEnd, attend
from rookery.clients.displays import Displays
from rookery.clients.interrupts import Interrupts
from rookery.clients.keyboard import Keyboard
from rookery.clients.plain import PlainDisplay
from rookery.clients.prompter import Prompter
from rookery.clients.screen import Screen
from rookery.clients.terminal_text import harmless, harmless_line
from rookery.core.commands import Cancel, ReopenTask, Speak
from rookery.core.facts import Asked, Event
from rookery.core.queries import AskTasks, KnownTask
from rookery.errors import CommandRejected, SettingsError
from rookery.storage.places import find_places
from rookery.wire.host import Host
from rookery.wire.outbox import Disconnected
from rookery.wire.remote_host import remote_host
from rookery.wire.unix_sockets import unix_channel

MOST_LISTED = 20
SECONDS_UNTIL_ASKED = 0.1
"""A question that is answered sooner than that was answered long ago."""


@click.command("attach")
@click.argument("session", required=False)
@click.option(
    "--socket", type=click.Path(path_type=Path), help="Where the server listens, if not here."
)
@click.option(
    "-w",
    "--workspace",
    type=click.Path(path_type=Path),
    default=".",
    callback=resolve_folder,
    help="The folder that the server works in.",
)
def command(session: str | None, socket: Path | None, workspace: Path) -> int:
    """Attach to a session that rookery serve runs; without one, list those that run there.

    Ctrl-D detaches and leaves the task running. Ctrl-C stops what it does, twice detaches."""
    path = socket or socket_for(find_places(os.environ), workspace)
    try:
        return anyio.run(_attach, path, session)
    except BaseExceptionGroup as group:
        if group.subgroup(Disconnected):
            raise Disconnected(
                f"The server is gone. Its tasks are kept: go on with {NAME} -c, or serve again."
            ) from group
        raise _first_in(group) from group


async def _attach(path: Path, session: str | None) -> int:
    async with remote_host(await unix_channel(path)) as host:
        known = await host.query(AskTasks())
        if session is None:
            return await _list(host, known)
        task_id = _meant(known, session)
        await _open(host, task_id)
        return await _Attached(host, task_id).run()


async def _list(host: Host, known: tuple[KnownTask, ...]) -> int:
    unfinished = [each for each in known if each.status == "open"][:MOST_LISTED]
    running = [each for each in unfinished if await _is_running(host, each.task_id)]
    shortened = short_ids(each.task_id for each in known)
    for each in running:
        print(f"{shortened[each.task_id]}\t{harmless_line(each.title)}")
    if not running:
        print(f"No task is running there. Begin one of its sessions again: {NAME} attach SESSION")
    return Exit.DONE


async def _is_running(host: Host, task_id: str) -> bool:
    try:
        events = cast(AsyncGenerator[Event, None], host.follow(task_id))
        async with aclosing(events):
            return await anext(events, None) is not None
    except CommandRejected:
        return False


def _meant(known: tuple[KnownTask, ...], given: str) -> str:
    fitting = [each.task_id for each in known if each.task_id.startswith(given.lower())]
    if len(given) >= SHORTEST and len(fitting) == 1:
        return fitting[0]
    several = "fits several sessions" if fitting else "is no session"
    raise SettingsError(f"{given} {several} there. See {NAME} list.")


async def _open(host: Host, task_id: str) -> None:
    if not await _is_running(host, task_id):
        await host.send(ReopenTask(task_id=task_id))


class _Attached:
    """The plain client, at a terminal or not: without one it only looks on."""

    def __init__(self, host: Host, task_id: str) -> None:
        live = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
        self._host = host
        self._task_id = task_id
        self._screen = Screen(sys.stdout, colour=live and not os.environ.get("NO_COLOR"), live=live)
        self._interrupts = Interrupts()
        self._focus = Focus(task_id)
        self._person = sys.stdin.isatty()

    async def run(self) -> int:
        end = RunEnd(Fate.LEFT)
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
            async with anyio.create_task_group() as group:
                group.start_soon(self._watch, signals, group.cancel_scope.cancel)
                keyboard = _Keyboard(self._say, group.cancel_scope.cancel)
                if self._person:
                    group.start_soon(keyboard.run)
                end = await self._attend(Prompter(keyboard, self._screen))
                group.cancel_scope.cancel()
        return self._farewell(end)

    async def _attend(self, prompter: Prompter) -> RunEnd:
        async def respond(asked: Asked) -> Response:
            await anyio.sleep(SECONDS_UNTIL_ASKED)
            if not self._person:
                await anyio.sleep_forever()
            return await prompter(asked)

        plain = PlainDisplay(self._screen, shows_result=True)
        return await attend(
            self._host,
            self._task_id,
            display=Displays(Retelling(plain), self._interrupts),
            respond=respond,
            focus=self._focus,
        )

    def _farewell(self, end: RunEnd) -> int:
        self._screen.end_line()
        if end.fate is Fate.LEFT:
            self._screen.line(f"Detached. The task goes on: {NAME} attach {self._task_id}")
            return Exit.DONE
        if end.reason:
            self._screen.line(harmless(end.reason))
        return exit_code(end)

    async def _watch(
        self, signals: AsyncIterator[signal.Signals], leave: Callable[[], None]
    ) -> None:
        async for number in signals:
            if number != signal.SIGINT or self._interrupts.second():
                leave()
                return
            with suppress(CommandRejected):  # it has just ended, which is about to be seen
                await self._host.send(Cancel(task_id=self._task_id))

    async def _say(self, line: str) -> None:
        self._screen.enter()
        words = Speak(task_id=self._focus.task_id, message_id=uuid.uuid4().hex, text=line)
        with suppress(CommandRejected):  # it has just ended, which is about to be seen
            await self._host.send(words)


class _Keyboard(Keyboard):
    """The end of input leaves, whether or not anything is asked."""

    def __init__(self, unasked: Callable[[str], Awaitable[None]], leave: Callable[[], None]):
        super().__init__(sys.stdin.fileno(), unasked)
        self._leave = leave

    def _grant(self, line: str | None) -> None:
        if line is None:
            self._leave()
        else:
            super()._grant(line)


def _first_in(error: BaseException) -> BaseException:
    """Task groups wrap what went wrong in them; the reader wants to know what it was."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
