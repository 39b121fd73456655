"""The full screen with a scripted host, and a user who types."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from msgspec.structs import replace
from textual.events import Key
from textual.pilot import Pilot

from rookery.core.commands import OpenTask
from rookery.core.facts import Answered, Asked
from rookery.tui.app import FullScreen
from rookery.tui.ask_panel import AskPanel
from rookery.tui.composer import Composer
from rookery.tui.task_controller import StartOptions
from support.scripted_host import ScriptedHost
from support.tui_scenes import TASK

PATIENCE = 60.0
A_MOMENT = 0.02


class Play:
    """The app with a scripted host, and a user who types."""

    def __init__(self, app: FullScreen, host: ScriptedHost, pilot: Pilot[Any]) -> None:
        self.app, self.host, self.pilot = app, host, pilot
        self._questions = 0
        self._looked = False

    @property
    def panel(self) -> AskPanel:
        return self.app._page.panel

    @property
    def composer(self) -> Composer:
        return self.app._page.composer

    async def ask(self, question: Asked) -> None:
        """Ask a question, and wait until it has the focus; the one before is answered first."""
        before = self.panel.asked
        if before:
            self.host.tell(Answered(ask_id=before.ask_id, ask=before.ask, reply="no"))
            await self.until(lambda: self.panel.asked is None)
        self.composer.empty()
        self.host.sent.clear()
        self._questions += 1
        self.host.tell(replace(question, ask_id=f"question {self._questions}"))
        await self.until(lambda: self.panel.asked is not None)
        await self.ripen()
        await self.until(lambda: self.panel.has_focus)

    async def key_by_key(self, text: str, pause: float = 0.0) -> None:
        """Type without waiting for the effect of each key."""
        for letter in text:
            self.app.post_message(Key(letter, letter))
            await self.pilot.pause(pause)

    async def settle(self) -> None:
        """Wait until all events are on the screen."""
        with anyio.fail_after(PATIENCE):
            await self.pilot.pause(A_MOMENT)
            while self.app._redraw_pace._is_due:
                await self.pilot.pause(A_MOMENT)
            await self.pilot.pause()

    async def ripen(self) -> None:
        """Wait until a question accepts keys."""
        await self.settle()
        await self.until(lambda: self.panel.live)

    async def until(self, holds: Callable[[], bool]) -> None:
        with anyio.fail_after(PATIENCE):
            while not holds():
                await self.pilot.pause(A_MOMENT)
        await self.pilot.pause()

    async def see(self, text: str) -> None:
        await self.until(lambda: text in self.screen)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.until(lambda: not self.panel._held_letter.is_waiting)

    async def type(self, text: str) -> None:
        for character in text:
            await self.pilot.press({" ": "space", "/": "slash"}.get(character, character))
        await self.pilot.pause()

    @property
    def lines(self) -> list[str]:
        """The lines of the screen."""
        self._looked = True
        width = self.app.size.width
        strips = self.app.screen._compositor.render_strips()
        return [strip.text[:width].rstrip() for strip in strips]

    @property
    def screen(self) -> str:
        return "\n".join(self.lines)

    def sent(self, kind: Any) -> list[Any]:
        return [command for command in self.host.sent if isinstance(command, kind)]


@asynccontextmanager
async def play(
    *, task: bool = True, size: tuple[int, int] = (80, 24), **opening: Any
) -> AsyncIterator[Play]:
    host = ScriptedHost()
    first = OpenTask(task_id="t1", text=TASK) if task else None
    app = FullScreen(host, StartOptions(**{"first": first, "home": "/home/ada", **opening}))
    async with app.run_test(size=size) as pilot:
        played = Play(app, host, pilot)
        await played.settle()
        yield played
        if app.is_running and not played._looked:
            assert played.lines  # must render without errors
