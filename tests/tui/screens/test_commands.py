"""Slash commands of the full screen: they open a screen or act at once."""

from pathlib import Path
from typing import Any

import pytest

from rookery.core.commands import Condense, EditQueue, SwitchApproval, SwitchMode, SwitchModel
from rookery.tui.own_commands import run_command
from rookery.tui.screens.checkpoint_screen import CheckpointScreen
from rookery.tui.screens.choice_screens import ModelScreen, ModeScreen, QueueScreen
from rookery.tui.screens.info_screens import CostScreen, HelpScreen
from rookery.tui.screens.side_screen import SideScreen
from rookery.tui.screens.task_screens import TaskListScreen, TreeScreen
from support.tui_bare_app import handler

pytestmark = pytest.mark.anyio

OPENING: dict[str, type[SideScreen[Any]]] = {
    "/tasks": TaskListScreen,
    "/help": HelpScreen,
    "/mode": ModeScreen,
    "/model": ModelScreen,
    "/tree": TreeScreen,
    "/queue": QueueScreen,
    "/cost": CostScreen,
    "/checkpoints": CheckpointScreen,
    "/rewind": CheckpointScreen,
    "/files": CheckpointScreen,
}


async def test_a_command_opens_its_screen():
    async with handler() as it:
        for line, screen in OPENING.items():
            assert await run_command(line, it.app, it.app)
            await it.until(lambda screen=screen: isinstance(it.app.screen, screen))
            await it.press("escape")
            await it.until(lambda: it.closed)


async def test_a_command_about_a_session_says_that_none_is_open():
    async with handler(None) as it:
        for line in ("/tree", "/cost", "/checkpoints", "/diff", "/undo", "/rewind 2", "/export"):
            assert await run_command(line, it.app, it.app)
            assert it.app.toasts.pop().startswith("No session is open."), line
            assert it.closed


SENDING: dict[str, object] = {
    "/condense": Condense(task_id="c2"),
    "/mode ask": SwitchMode(task_id="t1", mode="ask"),
    "/approve on": SwitchApproval(task_id="t1", automatic=True),
    "/model openai gpt-9": SwitchModel(task_id="t1", provider="openai", model="gpt-9"),
    "/queue drop 2": EditQueue(task_id="t1", message_id="m2"),
}


async def test_a_command_with_arguments_acts_at_once():
    async with handler() as it:
        for line in SENDING:
            assert await run_command(line, it.app, it.app)
        assert it.host.sent == list(SENDING.values())


async def test_lines_for_the_model_are_not_commands_and_a_mistyped_command_is_not_sent():
    async with handler() as it:
        for line in ("/review the parser", "please /new", "/usr is full", ""):
            assert not await run_command(line, it.app, it.app), line
        assert it.app.toasts == []
        assert await run_command("/new", it.app, it.app)
        assert it.app.renewed == 1
        await run_command("/New", it.app, it.app)
        assert it.app.renewed == 1
        assert await run_command("/reveiw", it.app, it.app)
        assert "/review" in it.app.toasts[-1]


async def test_a_task_is_exported_without_overwriting_a_file(tmp_path: Path):
    async with handler() as it:
        target = tmp_path / "talk.md"
        await run_command(f"/export {target}", it.app, it.app)
        text = target.read_text(encoding="utf-8")
        assert target.stat().st_mode & 0o777 == 0o600
        assert text.startswith("> The discount is ten times too high.")
        assert "\n\n> and add a test for negative prices" in text
        assert "\n\nI will." in text
        target.write_text("mine")
        await run_command(f"/export {target}", it.app, it.app)
        assert target.read_text() == "mine"
        assert "Nothing was written" in it.app.toasts[-1]
