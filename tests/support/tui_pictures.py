"""Draws the full screen's pictures in docs/pictures: `make docs`."""

import re
from functools import partial
from pathlib import Path

import anyio

from rookery.core.commands import OpenTask
from rookery.tui.app import FullScreen, Opening
from rookery.tui.theme import DARK, LIGHT
from support.scripted_host import PlayedHost
from support.tui_intent_scenes import asking_beyond_the_scope
from support.tui_scenes import SCENES as OF_ANY_TASK
from support.tui_scenes import TASK, completed

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
SIZES = ((80, 24), (160, 48))
SCENES = {**OF_ANY_TASK, "intent": asking_beyond_the_scope}
NAMES = ("welcome", *SCENES, "help")
_FONTS = re.compile(r"\s*@font-face \{.*?\}\n", re.DOTALL)
_NUMBERED = re.compile(r"terminal-\d+")


async def picture(scene: str, size: tuple[int, int], theme: str = DARK) -> str:
    """The screen at one moment, as SVG that needs nothing from elsewhere."""
    host = PlayedHost()
    first = OpenTask(task_id="t1", text=TASK) if scene != "welcome" else None
    app = FullScreen(host, Opening(first=first, home="/home/ada", theme=theme))
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        if first:
            SCENES.get(scene, completed)(host)
        await pilot.pause(0.9)
        if scene == "help":
            await pilot.press("f1")
            await pilot.pause(0.3)
        drawn = app.export_screenshot()
    drawn = _FONTS.sub("", drawn).replace("Fira Code", "monospace")
    return _NUMBERED.sub("terminal", drawn)


def file_of(scene: str, size: tuple[int, int], theme: str = DARK) -> Path:
    light = "-light" if theme == LIGHT else ""
    return PICTURES / f"tui-{scene}{light}-{size[0]}x{size[1]}.svg"


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    wanted = [(scene, size, DARK) for scene in NAMES for size in SIZES]
    for which in (*wanted, ("edit", SIZES[0], LIGHT)):
        file_of(*which).write_text(anyio.run(partial(picture, *which)), encoding="utf-8")


if __name__ == "__main__":
    main()
