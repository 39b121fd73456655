"""Pickers and side screens in the full screen, over a running task."""

import pytest

from rookery.core.commands import Cancel, EditQueue, OpenTask, ReopenTask
from rookery.tui.app import FullScreen
from rookery.tui.composer import Composer
from rookery.tui.pickers import Picker
from rookery.tui.screens.info_screens import CostScreen, HelpScreen
from rookery.tui.screens.side_screen import SideScreen
from rookery.tui.task_controller import StartOptions
from support.tui_screen_scenes import TASKS, answering_host, worked
from support.tui_waiting import seen, until

pytestmark = pytest.mark.anyio


async def test_screens_and_pickers_close_without_stopping_the_task():
    host = answering_host()
    worked(host)
    app = FullScreen(
        host, StartOptions(first=OpenTask(task_id="t1", text="Do it"), home="/home/ada")
    )
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.view and app.view.queue)
        host.sent.clear()
        await pilot.press("/")
        await until(pilot, lambda: "/checkpoints" in seen(pilot))
        await pilot.press("escape")
        await until(pilot, lambda: "/checkpoints" not in seen(pilot))
        app.query_one(Composer).empty()
        await pilot.press(*"/cos")
        await until(pilot, lambda: "▸ /cost" in seen(pilot))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, CostScreen))
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, SideScreen))
        assert app.query_one(Composer).text == "", "running a command clears the input"
        await pilot.resize_terminal(160, 100)
        await pilot.press("f1")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        await until(pilot, lambda: "Everywhere" in seen(pilot))
        shown = seen(pilot)
        for words in ("In the conversation", "Half a page up", "In the input area", "Checkpoints"):
            assert words in shown, words
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, SideScreen))
        assert host.sent == []
        await pilot.press(*"/queue", "enter")
        await until(pilot, lambda: "Queued messages" in seen(pilot))
        await pilot.press("d")
        await until(pilot, lambda: host.sent)
        assert host.sent == [EditQueue(task_id="t1", message_id="m1")]
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, SideScreen))
        await pilot.press("escape")
        await until(pilot, lambda: host.sent[1:] == [Cancel(task_id="t1")])


async def test_files_and_earlier_tasks_are_picked_in_the_input_area():
    host = answering_host()
    app = FullScreen(host, StartOptions(home="/home/ada"))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.about.workspace)
        composer = app.query_one(Composer)
        await pilot.press(*"mend @pri")
        await until(pilot, lambda: "src/prices.py" in seen(pilot))
        await until(pilot, lambda: app.query_one(Picker).chosen)
        await pilot.press("down", "tab")
        await until(pilot, lambda: composer.text == "mend @/src/prices.py ")
        composer.empty()
        await until(pilot, lambda: "src/prices.py" not in seen(pilot))
        await pilot.press("@")
        await until(pilot, lambda: "src/prices.py" in seen(pilot))
        await pilot.click("PickList", offset=(4, 1))
        await until(pilot, lambda: composer.text == "@/src/prices.py ")
        composer.empty()
        host.tell(*(), task=TASKS[1].task_id)
        await pilot.press(*"#half")
        await until(pilot, lambda: "Round prices" in seen(pilot))
        await pilot.press("down", "enter")
        await until(pilot, lambda: host.sent)
        assert host.sent == [ReopenTask(task_id=TASKS[1].task_id)]
        assert composer.text == ""
