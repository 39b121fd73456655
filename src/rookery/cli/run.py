"""One run, from checked options to an exit code.

A host is opened for the client, and both end when a signal comes or the time is up. Two ways to
run are driven by another program, each loaded only when it is chosen: `--stdin-prompt-stream` and
`--json-io`.
"""

import gc
import logging
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Protocol

import anyio

from rookery.app.local_host import open_host
from rookery.app.model_choice import NoKey
from rookery.cli.options import FrontEnd, Options
from rookery.cli.reports import children_of, exit_code, open_report
from rookery.cli.run_options import Run, prepare
from rookery.cli.terminal_run import AttendedTask
from rookery.core.commands import ReopenTask
from rookery.core.facts import Event
from rookery.core.text.terminal_text import harmless
from rookery.errors import RookeryError, StorageError
from rookery.platform.user_folders import (
    Places,
    find_places,
    sweep_temporary_places,
    temporary_places,
)
from rookery.protocol.attend import Fate, RunEnd
from rookery.protocol.codec import Host
from rookery.storage.sessions import TaskStore

KILLED_BY = 128
IN_VAIN = 3
"""Signals that nobody hears until the process is ended all the same."""
GRACE = 5.0
"""Seconds that a run has to end itself before another signal ends it."""


class Client(Protocol):
    async def run(self, host: Host) -> RunEnd:
        """Do whatever the client is for, and say how it ended."""
        ...

    async def stopped(self, host: Host) -> bool:
        """Ctrl-C came: whether it was meant for what is being done rather than for the run."""
        ...

    def ended(self, end: RunEnd) -> None:
        """Say how the run ended, once everything is closed."""
        ...


def run_client(run: Run, client: Client) -> int:
    """Run the client to its end. The exit code."""
    try:
        with _libraries_quiet():
            end, killed_by = anyio.run(_hosted, run, client)
    except BaseExceptionGroup as group:
        raise _first_in(group) from group
    client.ended(end)
    return KILLED_BY + killed_by if killed_by else exit_code(end)


@contextmanager
def _libraries_quiet() -> Iterator[None]:
    """What libraries warn their users of is nothing for ours; the debug log is elsewhere."""
    root, nowhere = logging.getLogger(), logging.NullHandler()
    root.addHandler(nowhere)
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        root.removeHandler(nowhere)


async def _hosted(run: Run, client: Client) -> tuple[RunEnd, int]:
    """How it ended, and the signal that ended it, if one did."""
    leaving = _Leaving(client)
    end = RunEnd(Fate.LEFT, code="task_aborted")
    heeded = _signals_heeded()
    with (
        anyio.open_signal_receiver(*heeded) as signals,
        anyio.move_on_after(run.timeout) as time_limit,
    ):
        leaving.insist(heeded)
        async with open_host(
            run.settings,
            run.choice,
            run.store,
            run.workspace,
            run.places,
            run.consent,
            choose=run.choose,
        ) as host:
            gc.freeze()  # whatever there is by now stays to the end, and is never garbage
            try:
                async with anyio.create_task_group() as group:
                    group.start_soon(leaving.watch, signals, host, group.cancel_scope)
                    end = await client.run(host)
                    group.cancel_scope.cancel()
            except* StorageError as errors:
                end = RunEnd(Fate.FAILED, str(_first_in(errors)), "storage_failed")
    if time_limit.cancelled_caught:
        end = RunEnd(Fate.LEFT, "The time given with --timeout is up.", "timeout")
    return end, leaving.killed_by


def _first_in(error: BaseException) -> BaseException:
    """Task groups wrap what went wrong in them; the reader wants to know what it was."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _signals_heeded() -> list[signal.Signals]:
    """What ends a run, except what whoever started it wants ignored, as `nohup` does."""
    ending = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    return [number for number in ending if signal.getsignal(number) is not signal.SIG_IGN]


class _Leaving:
    """Turns signals into a stop of the task or an end of the run."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.killed_by = 0
        self._unheard = 0
        self._leaving_since = 0.0

    def insist(self, signals: list[signal.Signals]) -> None:
        """A loop that does not turn hears no signal; the third in vain ends the process. What
        was on record is on disk, and commands end when their parent does."""
        for number in signals:
            signal.signal(number, self._count)

    def _count(self, number: int, _: object) -> None:
        self._unheard += 1
        if self._leaving_since:
            in_vain = time.monotonic() - self._leaving_since >= GRACE
        else:
            in_vain = self._unheard >= IN_VAIN
        if in_vain:
            os._exit(KILLED_BY + number)

    async def watch(
        self, signals: AsyncIterator[signal.Signals], host: Host, scope: anyio.CancelScope
    ) -> None:
        async for number in signals:
            self._unheard = 0
            if number == signal.SIGINT and await self._client.stopped(host):
                continue
            self.killed_by = number
            self._leaving_since = time.monotonic()
            scope.cancel()


NO_SCREEN = (
    "note: Textual is not installed; using the plain client. To install it: pip install textual"
)


def run_session(options: Options) -> int:
    options.check()
    usual = find_places(os.environ)
    with _places(options, usual) as places:
        store = TaskStore(places)
        store.sweep()
        run = prepare(options, places, store)
        try:
            return _run_front_end(run, options)
        finally:
            sweep_temporary_places()  # last, so that nobody waits for what others left


def _run_front_end(run: Run, options: Options) -> int:
    match options.front_end:
        case FrontEnd.SCREEN:
            from rookery.cli.full_screen_run import run_full_screen

            return run_full_screen(run, options)
        case FrontEnd.CONTROL_STREAM:
            return run_control_stream(run, options)
        case FrontEnd.ENGINE_MESSAGES:
            return run_engine_messages(run, options)
        case FrontEnd.LINES:
            if options.wants_screen:
                print(NO_SCREEN, file=sys.stderr)
            with open_report(run, options) as report:
                return run_client(run, AttendedTask(run, report))


def _places(options: Options, usual: Places) -> AbstractContextManager[Places]:
    return temporary_places(usual) if options.ephemeral else nullcontext(usual)


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
            worked=(event for _, event in children_of(run.stored, run.store)),
            stays=options.signal_only_exit,
            strict=run.settings.exit_on_error,
            watch=_watcher(run, options, stack),
            complain=_complain,
            blame=_code_of,
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
            complain=_complain,
        )
        return run_client(run, client)


def _watcher(run: Run, options: Options, stack: ExitStack) -> Callable[[Event], None]:
    if not options.debug:
        return lambda event: None
    from rookery.protocol.debug_log import open_debug_log

    return stack.enter_context(open_debug_log(run.places.debug_log, run.hide)).show


def _code_of(refusal: RookeryError) -> str:
    """Why a task could not be started, for programs. A host only says in words what is wrong."""
    no_key = isinstance(refusal, NoKey) or isinstance(refusal.__cause__, NoKey)
    return "auth_failed" if no_key else "task_failed"


def _complain(sentence: str) -> None:
    print(f"Error: {harmless(sentence)}", file=sys.stderr)
