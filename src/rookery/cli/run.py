"""One run, from checked options to an exit code.

A host is opened for the client; both end on a signal or when the time is up. `AttendedTask` is the
client for one task on a plain terminal, in a pipe or as JSON. The full screen and the clients that
another program drives (`--stdin-prompt-stream`, `--json-io`) are imported only when they are
chosen.
"""

import gc
import logging
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Protocol

import anyio
from anyio.abc import TaskGroup

from rookery.app.local_host import open_host
from rookery.app.model_choice import NoKey
from rookery.cli.first_run import note
from rookery.cli.options import FrontEnd, Options
from rookery.cli.reports import RunReport, TextReport, children_of, exit_code, open_report
from rookery.cli.run_options import Run, prepare
from rookery.core.commands import Cancel, ReopenTask
from rookery.core.facts import Event
from rookery.core.modes import Level
from rookery.core.text.terminal_text import harmless
from rookery.errors import CommandRejected, RookeryError, StorageError, first_error
from rookery.platform.user_folders import find_places, sweep_temporary_places, temporary_places
from rookery.protocol.attend import (
    Display,
    Displays,
    Fate,
    Focus,
    Interrupts,
    Responder,
    RunEnd,
    attend,
    never,
)
from rookery.protocol.codec import Host
from rookery.protocol.outcomes import RunVerdict, Unattended, UntilFirstFailure, leave_at_failure
from rookery.storage.sessions import TaskStore

if TYPE_CHECKING:
    from rookery.app.extra_tools import GivenByClient
    from rookery.plain.keyboard import Keyboard
    from rookery.protocol.client_commands import Vocabulary

KILLED_BY = 128
"""Added to the signal that ended the run."""
MAX_UNHANDLED = 3
"""Signals that may stay unhandled before the process is ended."""
GRACE = 5.0
"""Seconds a run has to end itself before another signal ends it."""


class Client(Protocol):
    async def run(self, host: Host) -> RunEnd:
        """Run until the client is done, and return how it ended."""
        ...

    async def on_interrupt(self, host: Host) -> bool:
        """Handle Ctrl-C; False ends the run."""
        ...

    def report_end(self, end: RunEnd) -> None:
        """Report how the run ended, after everything is closed."""
        ...


def run_client(run: Run, client: Client) -> int:
    """Run the client to its end and return the exit code."""
    try:
        with silence_libraries():
            end, killed_by = anyio.run(_run_hosted, run, client)
    except BaseExceptionGroup as group:
        raise first_error(group) from group
    client.report_end(end)
    return KILLED_BY + killed_by if killed_by else exit_code(end)


def open_run(run: Run, given: "GivenByClient | None" = None) -> AbstractAsyncContextManager[Host]:
    """Open the host of a run."""
    return open_host(
        run.settings,
        run.choice,
        run.store,
        run.workspace,
        run.places,
        run.consent,
        choose=run.choose,
        tools=run.tools,
        given=given,
    )


@contextmanager
def silence_libraries() -> Iterator[None]:
    """Keep warnings of libraries from the user's terminal."""
    root, handler = logging.getLogger(), logging.NullHandler()
    root.addHandler(handler)
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        root.removeHandler(handler)


async def _run_hosted(run: Run, client: Client) -> tuple[RunEnd, int]:
    """Run the client with a host. Return how it ended, and the signal that ended it or 0."""
    handler = _SignalHandler(client)
    end = RunEnd(Fate.LEFT, code="task_aborted")
    handled = handled_signals()
    with (
        anyio.open_signal_receiver(*handled) as signals,
        anyio.move_on_after(run.timeout) as time_limit,
    ):
        handler.install(handled)
        async with open_run(run) as host:
            gc.freeze()  # everything imported so far lives until the end
            try:
                async with anyio.create_task_group() as group:
                    group.start_soon(handler.watch, signals, host, group.cancel_scope)
                    end = await client.run(host)
                    group.cancel_scope.cancel()
            except* StorageError as errors:
                end = RunEnd(Fate.FAILED, str(first_error(errors)), "storage_failed")
    if time_limit.cancelled_caught:
        end = RunEnd(Fate.LEFT, "The time given with --timeout is up.", "timeout")
    return end, handler.killed_by


def handled_signals() -> list[signal.Signals]:
    """Return the signals that end a run, without those the parent ignores, as `nohup` does."""
    ending = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    return [number for number in ending if signal.getsignal(number) is not signal.SIG_IGN]


class _SignalHandler:
    """Turns signals into stopping the task or ending the run."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.killed_by = 0
        self._unhandled = 0
        self._leaving_since = 0.0

    def install(self, signals: list[signal.Signals]) -> None:
        """End the process at the third signal that a blocked event loop did not handle. The
        journal is on disk by then, and commands end with their parent."""
        for number in signals:
            signal.signal(number, self._count)

    def _count(self, number: int, _: object) -> None:
        self._unhandled += 1
        if self._leaving_since:
            overdue = time.monotonic() - self._leaving_since >= GRACE
        else:
            overdue = self._unhandled >= MAX_UNHANDLED
        if overdue:
            os._exit(KILLED_BY + number)

    async def watch(
        self, signals: AsyncIterator[signal.Signals], host: Host, scope: anyio.CancelScope
    ) -> None:
        async for number in signals:
            self._unhandled = 0
            if number == signal.SIGINT and await self._client.on_interrupt(host):
                continue
            self.killed_by = number
            self._leaving_since = time.monotonic()
            scope.cancel()


NO_SCREEN = (
    "note: Textual is not installed; using the plain client. To install it: pip install textual"
)


def run_session(options: Options) -> int:
    options.check()
    options.check_driver()
    standard = find_places(os.environ)
    with temporary_places(standard) if options.ephemeral else nullcontext(standard) as places:
        store = TaskStore(places)
        store.sweep()
        run = prepare(options, places, store)
        try:
            return _run_front_end(run, options)
        finally:
            sweep_temporary_places()  # last, because it can take a while


def _run_front_end(run: Run, options: Options) -> int:
    match options.front_end:
        case FrontEnd.SCREEN:
            from rookery.cli.screen_run import FullScreenClient

            client = FullScreenClient(run, options)
            code = run_client(run, client)
            return 0 if client.left and code < KILLED_BY else code
        case FrontEnd.CONTROL_STREAM:
            return run_control_stream(run, options)
        case FrontEnd.ENGINE_MESSAGES:
            return run_engine_messages(run, options)
        case FrontEnd.LINES:
            if options.wants_screen:
                print(NO_SCREEN, file=sys.stderr)
            with open_report(run, options) as report:
                return run_client(run, AttendedTask(run, report))


def run_control_stream(run: Run, options: Options) -> int:
    from rookery.compat.control_stream.stream_client import StreamClient
    from rookery.compat.driver import OutputQueue, input_lines

    first = run.first
    assert first is None or isinstance(first, ReopenTask)
    with ExitStack() as stack:
        client = StreamClient(
            input_lines(sys.stdin.fileno()),
            OutputQueue(sys.stdout.fileno()),
            first=first,
            stored=run.stored,
            child_events=(event for _, event in children_of(run.stored, run.store)),
            stays=options.signal_only_exit,
            strict=run.settings.exit_on_error,
            watch=_watcher(run, options, stack),
            report=_print_error,
            error_code=_error_code,
        )
        return run_client(run, client)


def run_engine_messages(run: Run, options: Options) -> int:
    from rookery.compat.driver import OutputQueue, input_lines
    from rookery.compat.json_io.driven_client import EngineMessagesClient

    with ExitStack() as stack:
        client = EngineMessagesClient(
            input_lines(sys.stdin.fileno()),
            OutputQueue(sys.stdout.fileno()),
            exit_code=exit_code,
            first=run.first,
            opening=run.opening,
            next_id=(options.create_with_session_id or "").lower(),
            strict=options.exit_on_error,
            watch=_watcher(run, options, stack),
            report=_print_error,
        )
        return run_client(run, client)


def _watcher(run: Run, options: Options, stack: ExitStack) -> Callable[[Event], None]:
    if not options.debug:
        return lambda event: None
    from rookery.protocol.debug_log import open_debug_log

    return stack.enter_context(open_debug_log(run.places.debug_log, run.hide)).show


def _error_code(refusal: RookeryError) -> str:
    """Return the error code for a task that could not be started."""
    no_key = isinstance(refusal, NoKey) or isinstance(refusal.__cause__, NoKey)
    return "auth_failed" if no_key else "task_failed"


def _print_error(sentence: str) -> None:
    print(f"Error: {harmless(sentence)}", file=sys.stderr)


class AttendedTask:
    """A client that ends when its task does."""

    def __init__(self, run: Run, report: RunReport) -> None:
        self._run = run
        self._report = report
        self._interrupts = Interrupts()
        self._focus = Focus(run.task_id)
        self._keyboard: Keyboard | None = None
        self._verdict = RunVerdict(
            automatic=run.consent.level is Level.AUTO, planning=run.consent.level is Level.PLAN
        )

    async def run(self, host: Host) -> RunEnd:
        run = self._run
        assert run.first
        await host.send(run.first)
        for sentence in filter(None, run.notes):
            note(sentence)
        self._report.begin()
        async with anyio.create_task_group() as group:
            group.start_soon(self._report.beat)
            respond, watching = await self._responder(host, group)
            ends_early = run.settings.exit_on_error
            display = self._report.display
            end = await attend(
                host,
                run.task_id,
                display=Displays(
                    UntilFirstFailure(display) if ends_early else display,
                    self._interrupts,
                    watching,
                    self._verdict,
                ),
                respond=respond,
                after=run.after,
                focus=self._focus,
                until=leave_at_failure if ends_early else never,
            )
            group.cancel_scope.cancel()
        return self._verdict.judged(end) if run.once or not run.person else end

    async def on_interrupt(self, host: Host) -> bool:
        if self._keyboard:
            self._keyboard.forget()
        if not self._run.person or self._interrupts.second():
            return False
        try:
            await host.send(Cancel(task_id=self._run.task_id))
        except CommandRejected:
            return False
        return True

    def report_end(self, end: RunEnd) -> None:
        self._report.end(end)

    async def _responder(self, host: Host, group: TaskGroup) -> tuple[Responder, Display]:
        """Return who answers questions, and the display it needs to follow the task."""
        run, report = self._run, self._report
        if not run.person:
            unattended = Unattended(
                run.opening,
                automatic=run.consent.level is Level.AUTO,
                seconds=run.patience,
                keeps_mode=bool(run.consent.mode),
            )
            return unattended, unattended
        assert isinstance(report, TextReport)
        from rookery.plain.client_lines import ClientLines
        from rookery.plain.keyboard import Keyboard
        from rookery.plain.prompter import Prompter
        from rookery.protocol.client_commands import SlashLines

        known = await _vocabulary(run, host)
        slash = SlashLines(run.task_id, run.stored, known, level=run.consent.level)
        lines = ClientLines(host, slash, report.screen, self._focus)
        self._keyboard = keyboard = Keyboard(sys.stdin.fileno(), lines.send)
        group.start_soon(keyboard.run)
        prompter = Prompter(
            keyboard,
            report.screen,
            opening=run.opening,
            handle_line=lines.run,
            patience=lambda: run.patience if slash.level is Level.AUTO else None,
            keeps_mode=bool(run.consent.mode),
            level=lambda: slash.level,
        )
        return prompter, lines


async def _vocabulary(run: Run, host: Host) -> "Vocabulary":
    from rookery.app.briefing import project_names
    from rookery.core.queries import AskIntents, AskModels
    from rookery.protocol.client_commands import Vocabulary

    known = project_names(
        run.places,
        run.workspace,
        trusted=run.consent.trusted,
        other_agents=run.settings.context.other_agents,
    )
    return Vocabulary(
        commands=known.commands,
        modes=known.modes,
        models=[(each.provider, each.model) for each in await host.query(AskModels())],
        intents=[
            (each.id, each.name) for each in await host.query(AskIntents()) if not each.problem
        ],
    )
