"""One run, from checked options to an exit code.

Two ways to run are driven by another program, each loaded only when it is chosen:
`--stdin-prompt-stream` and `--json-io`.
"""

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext

from rookery.app.model_choice import NoKey
from rookery.cli.exit_codes import exit_code
from rookery.cli.host_run import run_client
from rookery.cli.options import FrontEnd, Options
from rookery.cli.reports import children_of, open_report
from rookery.cli.run_options import Run, prepare
from rookery.cli.terminal_run import AttendedTask
from rookery.core.commands import ReopenTask
from rookery.core.facts import Event
from rookery.core.text.terminal_text import harmless
from rookery.errors import RookeryError
from rookery.platform.user_folders import (
    Places,
    find_places,
    sweep_temporary_places,
    temporary_places,
)
from rookery.storage.sessions import TaskStore

NO_SCREEN = "note: Textual is not installed, so this runs line by line: pip install textual"


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
    from rookery.protocol.client.debug_log import open_debug_log

    return stack.enter_context(open_debug_log(run.places.debug_log, run.hide)).show


def _code_of(refusal: RookeryError) -> str:
    """Why a task could not be started, for programs. A host only says in words what is wrong."""
    no_key = isinstance(refusal, NoKey) or isinstance(refusal.__cause__, NoKey)
    return "auth_failed" if no_key else "task_failed"


def _complain(sentence: str) -> None:
    print(f"Error: {harmless(sentence)}", file=sys.stderr)
