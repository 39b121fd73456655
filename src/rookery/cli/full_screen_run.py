"""A run in the full-screen client."""

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from rookery import NAME
from rookery.cli.options import Options
from rookery.cli.run import run_client
from rookery.cli.run_options import Run
from rookery.core.text.terminal_text import harmless
from rookery.protocol.attend import Fate, RunEnd
from rookery.protocol.codec import Host

if TYPE_CHECKING:
    from rookery.tui.app import FullScreen


def run_full_screen(run: Run, options: Options) -> int:
    client = FullScreenClient(run, options)
    code = run_client(run, client)
    return 0 if client.left and code < KILLED else code


HISTORY = "input-history.json"
KILLED = 128
"""Exit codes from here on mean that a signal ended the run."""


class FullScreenClient:
    """The full-screen client. It ends when the user leaves."""

    def __init__(self, run: Run, options: Options) -> None:
        self._run = run
        self._options = options
        self.left = False
        """The user left on purpose."""
        self._result = ""
        self._resumable = False

    async def run(self, host: Host) -> RunEnd:
        app = self._app(host)
        async with anyio.create_task_group() as group:
            group.start_soon(_leave_when_cancelled, app)
            # the app restores the terminal at its end, which must not be cancelled
            with anyio.CancelScope(shield=True):
                end = await app.run_async()
            group.cancel_scope.cancel()
        self._result, self._resumable = app.result, app.has_opened
        if app.crash:
            raise app.crash
        self.left = end is not None and end.fate is Fate.LEFT
        return end or RunEnd(Fate.LEFT, code="task_aborted")

    def _app(self, host: Host) -> "FullScreen":
        from rookery.tui.app import FullScreen, StartOptions
        from rookery.tui.composer import InputHistory
        from rookery.tui.terminal_driver import ScreenDriver, is_light
        from rookery.tui.theme import DARK, LIGHT

        ui = self._run.settings.ui
        light = is_light(os.environ) if ui.look == "auto" else ui.look == "light"
        opening = StartOptions(
            first=self._run.first,
            first_message=self._run.opening,
            draft=self._run.draft,
            mode=self._run.settings.mode,
            once=ui.oneshot,
            home=str(Path.home()),
            theme=LIGHT if light else DARK,
            notify=ui.notify,
            suggestion_seconds=self._run.patience,
        )
        if ui.colour == "never":
            os.environ["NO_COLOR"] = "1"  # Textual has no other switch
        # a warning about the history would only disturb
        history = InputHistory(self._run.places.state / HISTORY, warn=lambda _: None)
        return FullScreen(host, opening, history, ScreenDriver)

    async def on_interrupt(self, host: Host) -> bool:
        return False

    def report_end(self, end: RunEnd) -> None:
        """Print what matters once more, because the screen is gone."""
        if end.reason:
            print(harmless(end.reason), file=sys.stderr)
        if self._run.settings.ui.oneshot and self._result:
            print(harmless(self._result))
        if self._resumable and not self._options.ephemeral:
            print(f"To continue: {shlex.join([NAME, '-c', *self._run.workspace_flag])}")


async def _leave_when_cancelled(app: "FullScreen") -> None:
    try:
        await anyio.sleep_forever()
    finally:
        app.exit()
