"""Draw the pictures of the full screen and its side screens in docs/pictures: `make docs`."""

import re
from functools import partial
from pathlib import Path

import anyio

from rookery.core.commands import OpenTask
from rookery.tui.app import FullScreen
from rookery.tui.task_controller import StartOptions
from rookery.tui.theme import DARK, LIGHT
from support.scripted_host import ScriptedHost
from support.tui_intent_scenes import asking_beyond_the_scope
from support.tui_scenes import SCENES as OF_ANY_TASK
from support.tui_scenes import TASK, completed
from support.tui_screen_scenes import answering_host, worked
from support.tui_waiting import seen, until

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
SIZES = ((80, 24), (160, 48))
SCENES = {**OF_ANY_TASK, "intent": asking_beyond_the_scope}
NAMES = ("welcome", *SCENES, "help")
SIDE_SCREENS = {
    "tasks": ("f2", "Round prices"),
    "checkpoints": ("f3", "File changes"),
    "models": ("f4", "gpt-5.2"),
    "tree": ("f5", "Look up how banks round"),
}
"""The key that opens a screen, and a text that is visible on it."""
_FONTS = re.compile(r"\s*@font-face \{.*?\}\n", re.DOTALL)
_NUMBERED = re.compile(r"terminal-\d+")


async def picture(scene: str, size: tuple[int, int], theme: str = DARK) -> str:
    """The current screen as a self-contained SVG."""
    host = ScriptedHost()
    first = OpenTask(task_id="t1", text=TASK) if scene != "welcome" else None
    app = FullScreen(host, StartOptions(first=first, home="/home/ada", theme=theme))
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        if first:
            SCENES.get(scene, completed)(host)
        await pilot.pause(0.9)
        if scene == "help":
            await pilot.press("f1")
            await pilot.pause(0.3)
        return _drawn(app)


async def side_screen_picture(name: str, size: tuple[int, int]) -> str:
    key, words = SIDE_SCREENS[name]
    host = answering_host()
    worked(host)
    app = FullScreen(host, StartOptions(first=OpenTask(task_id="t1", text=TASK), home="/home/ada"))
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: _paid(app) == [True, True, True])
        await pilot.press(key)
        await until(pilot, lambda: words in seen(pilot))
        await pilot.pause(0.3)
        return _drawn(app)


def _paid(app: FullScreen) -> list[bool]:
    return [view.usage.cost > 0 for view in app.views.values()]


def _drawn(app: FullScreen) -> str:
    drawn = _FONTS.sub("", app.export_screenshot()).replace("Fira Code", "monospace")
    return _NUMBERED.sub("terminal", drawn)


def file_of(scene: str, size: tuple[int, int], theme: str = DARK) -> Path:
    light = "-light" if theme == LIGHT else ""
    return PICTURES / f"tui-{scene}{light}-{size[0]}x{size[1]}.svg"


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    wanted = [(scene, size, DARK) for scene in NAMES for size in SIZES]
    for which in (*wanted, ("edit", SIZES[0], LIGHT)):
        file_of(*which).write_text(anyio.run(partial(picture, *which)), encoding="utf-8")
    for name in SIDE_SCREENS:
        for size in SIZES:
            drawn = anyio.run(partial(side_screen_picture, name, size))
            file_of(name, size).write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()
