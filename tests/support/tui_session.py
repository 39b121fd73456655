"""The full screen in front of a played host, with somebody at its keys."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from textual.pilot import Pilot

from rookery.core.commands import OpenTask
from rookery.tui.app import FullScreen, Opening
from support.scripted_host import PlayedHost
from support.tui_scenes import TASK

PATIENCE = 20.0
A_MOMENT = 0.02


class Play:
    """An app in front of a played host, and someone at its keys."""

    def __init__(self, app: FullScreen, host: PlayedHost, pilot: Pilot[Any]) -> None:
        self.app, self.host, self.pilot = app, host, pilot

    async def settle(self) -> None:
        """Until everything that came is on the screen."""
        with anyio.fail_after(PATIENCE):
            await self.pilot.pause(A_MOMENT)
            while self.app._redraw_pace.is_due:
                await self.pilot.pause(A_MOMENT)
            await self.pilot.pause()

    async def ripen(self) -> None:
        """Until a question takes keys."""
        await self.settle()
        await self.until(lambda: self.app._page.panel.live)

    async def until(self, holds: Callable[[], bool]) -> None:
        with anyio.fail_after(PATIENCE):
            while not holds():
                await self.pilot.pause(A_MOMENT)
        await self.pilot.pause()

    async def see(self, text: str) -> None:
        await self.until(lambda: text in self.screen)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.until(lambda: not self.app._page.panel.has_waiting_letter)

    async def type(self, text: str) -> None:
        for character in text:
            await self.pilot.press({" ": "space", "/": "slash"}.get(character, character))
        await self.pilot.pause()

    @property
    def lines(self) -> list[str]:
        """What is on the screen."""
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
    host = PlayedHost()
    first = OpenTask(task_id="t1", text=TASK) if task else None
    app = FullScreen(host, Opening(**{"first": first, "home": "/home/ada", **opening}))
    async with app.run_test(size=size) as pilot:
        played = Play(app, host, pilot)
        await played.settle()
        yield played
        if app.is_running:
            assert played.lines  # it can be drawn, even if nobody has looked
