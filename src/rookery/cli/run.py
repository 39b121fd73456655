"""One run, from checked flags to an exit code."""

import os
import sys
from contextlib import AbstractContextManager, nullcontext

from rookery.cli.host_run import run_client
from rookery.cli.options import FrontEnd, Options
from rookery.cli.reports import open_report
from rookery.cli.run_options import Run, prepare
from rookery.cli.terminal_run import AttendedTask
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
            from rookery.cli.driven_run import run_control_stream

            return run_control_stream(run, options)
        case FrontEnd.ENGINE_MESSAGES:
            from rookery.cli.driven_run import run_engine_messages

            return run_engine_messages(run, options)
        case FrontEnd.LINES:
            if options.wants_screen:
                print(NO_SCREEN, file=sys.stderr)
            with open_report(run, options) as report:
                return run_client(run, AttendedTask(run, report))


def _places(options: Options, usual: Places) -> AbstractContextManager[Places]:
    return temporary_places(usual) if options.ephemeral else nullcontext(usual)
