"""The full-screen client. It is imported only when it is chosen."""

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from rookery import NAME
from rookery.cli.options import Options
from rookery.cli.run_options import Run
from rookery.core.settings_sections import UiSettings
from rookery.core.text.terminal_text import harmless
from rookery.protocol.attend import Fate, RunEnd
from rookery.protocol.codec import Host

if TYPE_CHECKING:
    from rookery.tui.app import FullScreen, LastSession

HISTORY = "input-history.json"
DRAFTS = "drafts"
THEMES = "themes"


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
            home=str(Path.home()),
            theme=theme,
            themes=themes,
            problem=problem,
            ui=ui,
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
        """Print the last answer, the cost and how to continue: the screen's content is gone."""
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
