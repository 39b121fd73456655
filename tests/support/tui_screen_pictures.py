"""Draws the side screens' pictures in docs/pictures: `make docs`."""

import re
from functools import partial
from pathlib import Path

import anyio

from rookery.core.commands import OpenTask
from rookery.tui.app import FullScreen, Opening
from rookery.tui.theme import DARK
from support.tui_scenes import TASK
from support.tui_screen_scenes import knowing_host, worked
from support.tui_waiting import seen, until

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
SIZES = ((80, 24), (160, 48))
SCENES = {
    "tasks": ("f2", "Round prices"),
    "checkpoints": ("f3", "File changes"),
    "models": ("f4", "gpt-5.2"),
    "tree": ("f5", "Look up how banks round"),
}
"""The key that opens a screen, and what is seen once it is there."""
_FONTS = re.compile(r"\s*@font-face \{.*?\}\n", re.DOTALL)
_NUMBERED = re.compile(r"terminal-\d+")


async def picture(key: str, words: str, size: tuple[int, int], theme: str = DARK) -> str:
    host = knowing_host()
    worked(host)
    first = OpenTask(task_id="t1", text=TASK)
    app = FullScreen(host, Opening(first=first, home="/home/ada", theme=theme))
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: _paid(app) == [True, True, True])
        await pilot.press(key)
        await until(pilot, lambda: words in seen(pilot))
        await pilot.pause(0.3)
        drawn = app.export_screenshot()
    drawn = _FONTS.sub("", drawn).replace("Fira Code", "monospace")
    return _NUMBERED.sub("terminal", drawn)


def _paid(app: FullScreen) -> list[bool]:
    return [view.usage.cost > 0 for view in app.views.values()]


def file_of(name: str, size: tuple[int, int]) -> Path:
    columns, rows = size
    return PICTURES / f"tui-{name}-{columns}x{rows}.svg"


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    for name, (key, words) in SCENES.items():
        for size in SIZES:
            drawn = anyio.run(partial(picture, key, words, size))
            file_of(name, size).write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()
