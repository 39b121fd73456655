"""`--json-io`: a run that a webview shows, or that a manager of sessions supervises."""

import sys
from collections.abc import Callable
from contextlib import ExitStack

from rookery.cli.exit_codes import exit_code
from rookery.cli.host_run import run_client
from rookery.cli.options import Wishes
from rookery.cli.run_options import Run
from rookery.compat.input_lines import input_lines
from rookery.compat.json_io.driven_client import EngineMessagesClient
from rookery.compat.output_queue import Outbox
from rookery.core.facts import Event
from rookery.core.text.terminal_text import harmless


def run_engine_messages(run: Run, wishes: Wishes) -> int:
    with ExitStack() as stack:
        client = EngineMessagesClient(
            input_lines(sys.stdin.fileno()),
            Outbox(sys.stdout.fileno()),
            exit_code=exit_code,
            first=run.first,
            opening=run.opening,
            next_id=(wishes.create_with_session_id or "").lower(),
            strict=wishes.exit_on_error,
            watch=_watcher(run, wishes, stack),
            complain=_complain,
        )
        return run_client(run, client)


def _watcher(run: Run, wishes: Wishes, stack: ExitStack) -> Callable[[Event], None]:
    if not wishes.debug:
        return lambda event: None
    from rookery.protocol.client.debug_log import open_debug_log

    return stack.enter_context(open_debug_log(run.places.debug_log, run.hide)).show


def _complain(sentence: str) -> None:
    print(f"Error: {harmless(sentence)}", file=sys.stderr)
