"""Pickers and side screens where they belong: in the full screen, over a task at work."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual.pilot import Pilot

from rookery.core.commands import Cancel, EditQueue, OpenTask, ReopenTask
from rookery.tui.app import FullScreen, Opening
from rookery.tui.composer import Composer
from rookery.tui.pickers.picker import Picker
from rookery.tui.screens.info_screens import CostScreen, HelpScreen
from rookery.tui.screens.side_screen import SideScreen
from support.scripted_host import PlayedHost
from support.tui_screen_scenes import TASKS, knowing_host, worked
from support.tui_waiting import seen, until

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def at_work() -> AsyncIterator[tuple[FullScreen, Pilot[Any], PlayedHost]]:
    host = knowing_host()
    worked(host)
    first = OpenTask(task_id="t1", text="Do it")
    app = FullScreen(host, Opening(first=first, home="/home/ada"))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.view and app.view.queue)
        host.sent.clear()
        yield app, pilot, host


@asynccontextmanager
async def idle() -> AsyncIterator[tuple[FullScreen, Pilot[Any], PlayedHost]]:
    host = knowing_host()
    app = FullScreen(host, Opening(home="/home/ada"))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.about.workspace)
        yield app, pilot, host


async def test_escape_closes_a_screen_and_stops_nothing():
    async with at_work() as (app, pilot, host):
        await pilot.press("f1")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, SideScreen))
        assert host.sent == []
        await pilot.press("escape")
        await until(pilot, lambda: host.sent == [Cancel(task_id="t1")])


async def test_escape_closes_a_picker_and_stops_nothing():
    async with at_work() as (_, pilot, host):
        await pilot.press("/")
        await until(pilot, lambda: "/checkpoints" in seen(pilot))
        await pilot.press("escape")
        await until(pilot, lambda: "/checkpoints" not in seen(pilot))
        assert host.sent == []


async def test_a_command_is_picked_and_its_letters_vanish():
    async with at_work() as (app, pilot, host):
        await pilot.press(*"/cos")
        await until(pilot, lambda: "▸ /cost" in seen(pilot))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, CostScreen))
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, SideScreen))
        assert app.query_one(Composer).text == ""
        assert host.sent == []


async def test_a_file_is_picked_into_a_sentence():
    async with idle() as (app, pilot, _):
        await pilot.press(*"mend @pri")
        await until(pilot, lambda: "src/prices.py" in seen(pilot))
        await until(pilot, lambda: app.query_one(Picker).chosen)
        await pilot.press("down", "tab")
        await until(pilot, lambda: app.query_one(Composer).text == "mend @/src/prices.py ")


async def test_a_file_is_picked_with_the_mouse():
    async with idle() as (app, pilot, _):
        await pilot.press("@")
        await until(pilot, lambda: "src/prices.py" in seen(pilot))
        await pilot.click("PickList", offset=(4, 1))
        await until(pilot, lambda: app.query_one(Composer).text == "@/src/prices.py ")


async def test_an_earlier_task_is_opened_from_the_input_area():
    async with idle() as (app, pilot, host):
        host.tell(*(), task=TASKS[1].task_id)
        await pilot.press(*"#half")
        await until(pilot, lambda: "Round prices" in seen(pilot))
        await pilot.press("down", "enter")
        await until(pilot, lambda: host.sent)
        assert host.sent == [ReopenTask(task_id=TASKS[1].task_id)]
        assert app.query_one(Composer).text == ""


async def test_queued_words_are_taken_back_while_the_task_works():
    async with at_work() as (_, pilot, host):
        await pilot.press(*"/queue", "enter")
        await until(pilot, lambda: "Queued messages" in seen(pilot))
        await pilot.press("d")
        await until(pilot, lambda: host.sent)
        assert host.sent == [EditQueue(task_id="t1", message_id="m1")]


async def test_help_knows_the_keys_of_every_part():
    async with at_work() as (_, pilot, _):
        await pilot.resize_terminal(160, 70)
        await pilot.press("f1")
        await until(pilot, lambda: "Everywhere" in seen(pilot))
        shown = seen(pilot)
        for words in ("In the conversation", "Half a page up", "In the input area", "Checkpoints"):
            assert words in shown, words
