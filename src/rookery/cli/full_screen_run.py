"""A run on the whole screen of a terminal."""

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
"""Exit codes from here on tell of a signal."""


class FullScreenClient:
    """A client. It ends when whoever sits in front of it leaves."""

    def __init__(self, run: Run, options: Options) -> None:
        self._run = run
        self._wishes = options
        self.left = False
        """Somebody left on purpose."""
        self._result = ""
        self._can_go_on = False

    async def run(self, host: Host) -> RunEnd:
        app = self._app(host)
        async with anyio.create_task_group() as group:
            group.start_soon(_leave_when_cancelled, app)
            # it gives the terminal back as it ends, which must not be cut short
            with anyio.CancelScope(shield=True):
                end = await app.run_async()
            group.cancel_scope.cancel()
        self._result, self._can_go_on = app.result, app.has_begun
        if app.crash:
            raise app.crash
        self.left = end is not None and end.fate is Fate.LEFT
        return end or RunEnd(Fate.LEFT, code="task_aborted")

    def _app(self, host: Host) -> "FullScreen":
        from rookery.tui.app import FullScreen, Opening
        from rookery.tui.composer import InputHistory
        from rookery.tui.terminal_driver import ScreenDriver, is_light
        from rookery.tui.theme import DARK, LIGHT

        ui = self._run.settings.ui
        light = is_light(os.environ) if ui.look == "auto" else ui.look == "light"
        opening = Opening(
            first=self._run.first,
            words=self._run.opening,
            draft=self._run.draft,
            mode=self._run.settings.mode,
            once=ui.oneshot,
            home=str(Path.home()),
            theme=LIGHT if light else DARK,
            notify=ui.notify,
            suggestion_seconds=self._run.patience,
        )
        if ui.colour == "never":
            os.environ["NO_COLOR"] = "1"  # which is how Textual is told
        # a history that cannot be written is not worth a word over what is being done
        said = InputHistory(self._run.places.state / HISTORY, warn=lambda _: None)
        return FullScreen(host, opening, said, ScreenDriver)

    async def stopped(self, host: Host) -> bool:
        return False

    def ended(self, end: RunEnd) -> None:
        """Of what was on the screen nothing is left, so that what matters is said again."""
        if end.reason:
            print(harmless(end.reason), file=sys.stderr)
        if self._run.settings.ui.oneshot and self._result:
            print(harmless(self._result))
        if self._can_go_on and not self._wishes.ephemeral:
            print(f"To continue: {shlex.join([NAME, '-c', *self._run.workspace_flag])}")


async def _leave_when_cancelled(app: "FullScreen") -> None:
    try:
        await anyio.sleep_forever()
    finally:
        app.exit()
