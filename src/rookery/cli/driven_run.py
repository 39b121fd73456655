"""Runs that another program drives: `--stdin-prompt-stream` and `--json-io`.

Only one of the two formats is loaded: the imports of `compat` stay inside the functions.
"""

import sys
from collections.abc import Callable
from contextlib import ExitStack

from rookery.app.model_choice import NoKey
from rookery.cli.exit_codes import exit_code
from rookery.cli.host_run import run_client
from rookery.cli.options import Options
from rookery.cli.reports import children_of
from rookery.cli.run_options import Run
from rookery.compat.pipes import OutputQueue, input_lines
from rookery.core.commands import ReopenTask
from rookery.core.facts import Event
from rookery.core.text.terminal_text import harmless
from rookery.errors import RookeryError


def run_control_stream(run: Run, options: Options) -> int:
    from rookery.compat.control_stream.stream_client import StreamClient

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
