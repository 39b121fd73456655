"""One run, from checked options to an exit code.

A host is opened for the client; both end on a signal or when the time is up. The clients that
another program drives (`--stdin-prompt-stream`, `--json-io`) are imported only when they are
chosen.
"""

import gc
import logging
import os
import shlex
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    ExitStack,
    contextmanager,
    nullcontext,
)
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import anyio

from rookery import NAME
from rookery.app.local_host import open_host
from rookery.app.model_choice import NoKey
from rookery.cli.options import FrontEnd, Options
from rookery.cli.reports import children_of, exit_code, open_report
from rookery.cli.run_options import Run, prepare
from rookery.cli.terminal_run import AttendedTask
from rookery.core.commands import ReopenTask
from rookery.core.facts import Event
from rookery.core.settings_sections import UiSettings
from rookery.core.text.terminal_text import harmless
from rookery.errors import RookeryError, StorageError, first_error
from rookery.platform.user_folders import (
    Places,
    find_places,
    sweep_temporary_places,
    temporary_places,
)
from rookery.protocol.attend import Fate, RunEnd
from rookery.protocol.codec import Host
from rookery.storage.sessions import TaskStore

if TYPE_CHECKING:
    from rookery.app.extra_tools import GivenByClient
    from rookery.tui.app import FullScreen, LastSession

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


HISTORY = "input-history.json"
DRAFTS = "drafts"
THEMES = "themes"
NO_SCREEN = (
    "note: Textual is not installed; using the plain client. To install it: pip install textual"
)


def run_session(options: Options) -> int:
    options.check()
    options.check_driver()
    standard = find_places(os.environ)
    with _places(options, standard) as places:
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


def _places(options: Options, standard: Places) -> AbstractContextManager[Places]:
    return temporary_places(standard) if options.ephemeral else nullcontext(standard)


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


class FullScreenClient:
    """The full-screen client. It ends when the user leaves."""

    def __init__(self, run: Run, options: Options) -> None:
        self._run = run
        self._options = options
        self.left = False
        """The user left on purpose."""
        self._app: FullScreen | None = None
        self._last: LastSession | None = None

    async def run(self, host: Host) -> RunEnd:
        self._app = app = self._new_app(host)
        async with anyio.create_task_group() as group:
            group.start_soon(_leave_when_cancelled, app)
            # the app restores the terminal at its end, which must not be cancelled
            with anyio.CancelScope(shield=True):
                end = await app.run_async()
            group.cancel_scope.cancel()
        self._last = app.last_session if app.has_opened else None
        if app.crash:
            raise app.crash
        self.left = end is not None and end.fate is Fate.LEFT
        return end or RunEnd(Fate.LEFT, code="task_aborted")

    def _new_app(self, host: Host) -> "FullScreen":
        from rookery.tui.app import FullScreen
        from rookery.tui.input_files import DraftFile, InputHistory
        from rookery.tui.task_controller import StartOptions
        from rookery.tui.terminal_driver import ScreenDriver

        ui = self._run.settings.ui
        themes = self._run.places.config / THEMES
        theme, problem = _theme_of(ui, themes)
        opening = StartOptions(
            first=self._run.first,
            first_message=self._run.opening,
            draft=self._run.draft,
            mode=self._run.settings.mode,
            once=ui.oneshot,
            home=str(Path.home()),
            theme=theme,
            themes=themes,
            problem=problem,
            vim=ui.keys == "vim",
            status_line=ui.status_line,
            status_command=ui.status_command,
            notify=ui.notify,
            suggestion_seconds=self._run.patience,
            unfolded=self._run.verbose,
            command="tasks" if self._run.picks_session else "",
        )
        if ui.colour == "never":
            os.environ["NO_COLOR"] = "1"  # Textual has no other switch
        places = self._run.places
        name = sha256(os.fsencode(self._run.workspace)).hexdigest()[:16]
        draft = DraftFile(places.state / DRAFTS, name)
        history = InputHistory(places.state / HISTORY, draft)
        return FullScreen(host, opening, history, ScreenDriver)

    async def on_interrupt(self, host: Host) -> bool:
        return self._app is not None and self._app.is_editing

    def report_end(self, end: RunEnd) -> None:
        """Print what matters once more, because the screen is gone."""
        if end.reason:
            print(harmless(end.reason), file=sys.stderr)
        if self._last is None:
            return
        if self._last.answer:
            print(harmless(self._last.answer))
        if not self._options.ephemeral:
            print(*_ways_back(self._last, self._run.workspace_flag), sep="\n")


def _theme_of(ui: UiSettings, folder: Path) -> tuple[str, str]:
    """The name of the theme, and why it is not the one that was chosen."""
    from rookery.tui.terminal_driver import is_light
    from rookery.tui.theme import DARK, LIGHT, ThemeError, find_theme

    chosen, problem = ui.look if ui.theme == "auto" else ui.theme, ""
    try:
        if chosen != "auto":
            return find_theme(chosen, folder).name, ""
    except ThemeError as error:
        problem = str(error)
    return LIGHT if is_light(os.environ) else DARK, problem


def _ways_back(last: "LastSession", flags: Sequence[str]) -> Iterator[str]:
    """How to continue: now, and later by the session's id."""
    cost = f"${last.cost:.2f} so far. " if last.cost else ""
    yield f"\n{cost}To continue: {shlex.join([NAME, '-c', *flags])}"
    if last.id:
        yield f"Later: {shlex.join([NAME, '--resume', last.id, *flags])}"


async def _leave_when_cancelled(app: "FullScreen") -> None:
    try:
        await anyio.sleep_forever()
    finally:
        app.exit()
