"""Wait for what a screen is about to show."""

from collections.abc import Callable
from typing import Any

import anyio
from textual.pilot import Pilot


async def until(pilot: Pilot[Any], happened: Callable[[], object], within: float = 60.0) -> None:
    with anyio.fail_after(within):
        while not happened():
            await pilot.pause(0.01)


def seen(pilot: Pilot[Any]) -> str:
    """The text on the screen."""
    app = pilot.app
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)
