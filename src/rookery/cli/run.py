"""One run, from checked flags to an exit code."""

import os
import sys
from contextlib import AbstractContextManager, nullcontext

from rookery.cli.host_run import run_client
from rookery.cli.options import FrontEnd, Wishes
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


def run_session(wishes: Wishes) -> int:
    wishes.check()
    usual = find_places(os.environ)
    with _places(wishes, usual) as places:
        store = TaskStore(places)
        store.sweep()
        run = prepare(wishes, places, store)
        try:
            return _run_front_end(run, wishes)
        finally:
            sweep_temporary_places()  # last, so that nobody waits for what others left


def _run_front_end(run: Run, wishes: Wishes) -> int:
    match wishes.front_end:
        case FrontEnd.SCREEN:
            from rookery.cli.full_screen_run import run_full_screen

            return run_full_screen(run, wishes)
        case FrontEnd.CONTROL_STREAM:
            from rookery.cli.driven_run import run_control_stream

            return run_control_stream(run, wishes)
        case FrontEnd.ENGINE_MESSAGES:
            from rookery.cli.driven_run import run_engine_messages

            return run_engine_messages(run, wishes)
        case FrontEnd.LINES:
            if wishes.wants_screen:
                print(NO_SCREEN, file=sys.stderr)
            with open_report(run, wishes) as report:
                return run_client(run, AttendedTask(run, report))


def _places(wishes: Wishes, usual: Places) -> AbstractContextManager[Places]:
    return temporary_places(usual) if wishes.ephemeral else nullcontext(usual)
