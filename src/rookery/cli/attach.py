"""`rookery attach`: follow a session that a server runs, and answer its questions."""

import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import anyio
import click

from rookery import NAME
from rookery.cli.command_line import folder_option
from rookery.cli.reports import Exit, exit_code
from rookery.cli.serve import socket_for
from rookery.core.asks import AskKind
from rookery.core.blocks import Text
from rookery.core.commands import Cancel, ReopenTask
from rookery.core.facts import Asked, AssistantSpoke, Event, RequestStarted, TextStreamed
from rookery.core.queries import AskAbout, AskCommands, AskModels, AskModes, AskTasks, KnownTask
from rookery.core.text.terminal_text import harmless, harmless_line, visible_line
from rookery.errors import CommandRejected, SettingsError, first_error
from rookery.plain.client_lines import ClientLines
from rookery.plain.display import PlainDisplay
from rookery.plain.keyboard import Keyboard
from rookery.plain.prompter import Prompter
from rookery.plain.screen import Screen
from rookery.platform.user_folders import find_places
from rookery.protocol.attend import (
    Display,
    Displays,
    Fate,
    Focus,
    Interrupts,
    Response,
    RunEnd,
    attend,
)
from rookery.protocol.channels import unix_channel
from rookery.protocol.client_commands import SlashLines, Vocabulary
from rookery.protocol.codec import Host, followup
from rookery.protocol.jsonrpc import Disconnected
from rookery.protocol.remote import NoHost, remote_host
from rookery.storage.cli.session_listing import SHORTEST, short_ids

MOST_LISTED = 20
START_FIRST = (
    f'To start one in this terminal: {NAME} "your task"\n'
    "Editors and your own programs start sessions on the server."
)
START_AGAIN = (
    f"To start an ended one again (see {NAME} list): {NAME} attach SESSION\n"
    f'To start one in this terminal: {NAME} "your task"'
)
QUESTION_DELAY = 0.1
"""Delay before a question is shown: the events after it may already hold its answer."""


@click.command("attach")
@click.argument("session", required=False)
@click.option(
    "--socket",
    type=click.Path(path_type=Path),
    help="The server's socket, if it is not this folder's.",
)
@folder_option("The server's folder.")
def command(session: str | None, socket: Path | None, workspace: Path) -> int:
    """Attach to a session that `rookery serve` runs. Without a session, list those that are
    running.

    Ctrl-D detaches and leaves the session running. Ctrl-C stops its work; twice, it detaches.
    """
    path = socket or socket_for(find_places(os.environ), workspace)
    try:
        return anyio.run(_attach, path, session)
    except BaseExceptionGroup as group:
        if lost := group.subgroup(NoHost):
            raise SettingsError(
                f"There is no {NAME} server at {path}: {first_error(lost)} Start one: {NAME} serve"
            ) from group
        if group.subgroup(Disconnected):
            raise Disconnected(
                f"The server has ended. Its sessions are kept: continue with {NAME} "
                "-c, or start the server again."
            ) from group
        raise first_error(group) from group


async def _attach(path: Path, session: str | None) -> int:
    async with remote_host(await unix_channel(path)) as host:
        known = await host.query(AskTasks())
        if session is None:
            return _list(known)
        task_id = _resolve(known, session)
        await host.send(ReopenTask(task_id=task_id))  # no effect if it runs
        return await _Attached(host, task_id).run(await _vocabulary(host))


def _list(known: tuple[KnownTask, ...]) -> int:
    running = [each for each in known if each.running][:MOST_LISTED]
    shortened = short_ids(each.task_id for each in known)
    for each in running:
        print(f"{shortened[each.task_id]}\t{harmless_line(each.title)}")
    if not running:
        print(f"No session is running there. {START_AGAIN if known else START_FIRST}")
    return Exit.DONE


def _resolve(known: tuple[KnownTask, ...], given: str) -> str:
    ids = [each.task_id for each in known]
    if given in ids:
        return given
    matches = [each for each in ids if each.lower().startswith(given.lower())]
    if len(given) >= SHORTEST and len(matches) == 1:
        return matches[0]
    several = "matches several sessions" if matches else "is not a session"
    raise SettingsError(f"{given} {several} there. See {NAME} list.")


async def _vocabulary(host: Host) -> Vocabulary:
    return Vocabulary(
        commands=[(each.name, each.description) for each in await host.query(AskCommands())],
        modes=[each.slug for each in await host.query(AskModes())],
        models=[(each.provider, each.model) for each in await host.query(AskModels())],
    )


class _Attached:
    """The plain client. Without a terminal it only follows."""

    def __init__(self, host: Host, task_id: str) -> None:
        live = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
        self._host = host
        self._task_id = task_id
        self._screen = Screen(sys.stdout, colour=live and not os.environ.get("NO_COLOR"), live=live)
        self._interrupts = Interrupts()
        self._focus = Focus(task_id)
        self._attended = sys.stdin.isatty()

    async def run(self, known: Vocabulary) -> int:
        about = await self._host.query(AskAbout())
        slash = SlashLines(self._task_id, vocabulary=known, level=about.level)
        lines = ClientLines(self._host, slash, self._screen, self._focus)
        end = RunEnd(Fate.LEFT)
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
            async with anyio.create_task_group() as group:
                group.start_soon(self._watch, signals, group.cancel_scope.cancel)
                keyboard = _Keyboard(lines.send, group.cancel_scope.cancel)
                if self._attended:
                    group.start_soon(keyboard.run)
                prompter = Prompter(
                    keyboard, self._screen, handle_line=lines.run, level=lambda: slash.level
                )
                end = await self._attend(prompter, lines)
                group.cancel_scope.cancel()
        return self._report_end(end)

    async def _attend(self, prompter: Prompter, lines: ClientLines) -> RunEnd:
        async def respond(asked: Asked) -> Response:
            await anyio.sleep(QUESTION_DELAY)
            if not self._attended:
                self._screen.sentence(_question(asked))
                await anyio.sleep_forever()
            return await prompter(asked)

        plain = PlainDisplay(self._screen, shows_result=True)
        return await attend(
            self._host,
            self._task_id,
            display=Displays(CatchUpDisplay(plain), self._interrupts, lines),
            respond=respond,
            focus=self._focus,
        )

    def _report_end(self, end: RunEnd) -> int:
        self._screen.end_line()
        if end.fate is Fate.LEFT:
            self._screen.line(f"Detached. The session continues: {NAME} attach {self._task_id}")
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
            with suppress(CommandRejected):  # the task has just ended
                await self._host.send(Cancel(task_id=self._task_id))


class _Keyboard(Keyboard):
    """A keyboard on which the end of input always detaches, even without an open question."""

    def __init__(self, on_line: Callable[[str], Awaitable[None]], leave: Callable[[], None]):
        super().__init__(sys.stdin.fileno(), on_line)
        self._leave = leave

    def _end_input(self) -> None:
        self._leave()


def _question(asked: Asked) -> str:
    """Describe the open question for a user who cannot answer here."""
    match asked.ask:
        case AskKind.FOLLOWUP:
            what = followup(asked.text)[0]
        case AskKind.COMPLETION_RESULT:
            what = "whether this is all."
        case _:
            what = visible_line(asked.title or asked.text or asked.ask)
    return f"Waiting for an answer at a terminal: {harmless(what)}"


class CatchUpDisplay:
    """A display wrapper that completes streamed answers: a client that attaches in the middle of
    an answer gets the missing text before the whole answer is shown."""

    def __init__(self, display: Display) -> None:
        self._display = display
        self._shown: dict[str, str] = {}
        """The streamed text of each task so far."""

    def show(self, event: Event, child: str = "") -> None:
        if missed := self._missed(child, event):
            self._display.show(missed, child)
        self._display.show(event, child)

    def _missed(self, speaker: str, event: Event) -> Event | None:
        shown = self._shown.get(speaker, "")
        match event.fact:
            case RequestStarted():
                self._shown[speaker] = ""
            case TextStreamed(text=text):
                self._shown[speaker] = shown + text
            case AssistantSpoke(request_id=request_id, blocks=blocks):
                whole = "".join(block.text for block in blocks if isinstance(block, Text))
                if missed := _rest(whole, shown):
                    streamed = TextStreamed(request_id=request_id, text=missed)
                    return Event(event.seq - 1, 1, event.ts, streamed)
            case _:
                pass
        return None


def _rest(whole: str, shown: str) -> str:
    """Return what is missing of a text; empty if its end was shown."""
    if whole.startswith(shown):
        return whole[len(shown) :]
    return "" if whole.endswith(shown) else whole
