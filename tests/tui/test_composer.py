"""The input area: triggers, several lines and the history."""

import pytest
from textual import events
from textual.app import App, ComposeResult

from rookery.tui.composer import Composer, TriggerText, find_trigger
from rookery.tui.input_files import InputHistory
from support.each_row import each_row

pytestmark = pytest.mark.anyio


@each_row(
    ("before", "found"),
    [
        ("/", TriggerText(trigger="/", text="", begin=0)),
        ("  /ne", TriggerText(trigger="/", text="ne", begin=2)),
        ("/mode a", None),
        ("say /ne", None),
        ("one\n/ne", None),
        ("!ls -la", TriggerText(trigger="!", text="ls -la", begin=0)),
        ("#old words", TriggerText(trigger="#", text="old words", begin=0)),
        ("text\n# Heading", None),
        ("?", TriggerText(trigger="?", text="", begin=0)),
        ("why?", None),
        ("@", TriggerText(trigger="@", text="", begin=0)),
        ("look at @src/a", TriggerText(trigger="@", text="src/a", begin=8)),
        ("one\nat @b", TriggerText(trigger="@", text="b", begin=7)),
        ("@a then @b", TriggerText(trigger="@", text="b", begin=8)),
        ("mail a@b", None),
        ("@a done", None),
        ("plain", None),
        ("", None),
    ],
)
def test_a_trigger_is_recognised_by_its_position(before: str, found: TriggerText | None):
    assert find_trigger(before) == found


class ComposerApp(App[None]):
    def __init__(self, *history: str) -> None:
        super().__init__()
        self.memory = InputHistory()
        for text in history:
            self.memory.add(text)
        self.composer = Composer(self.memory)
        self.submitted: list[str] = []
        self.listed: list[str] = []
        self.triggered: list[str] = []

    def compose(self) -> ComposeResult:
        yield self.composer

    def on_composer_submitted(self, message: Composer.Submitted) -> None:
        self.submitted.append(message.text)

    def on_composer_listed(self, message: Composer.Listed) -> None:
        self.listed.append(message.key)
        self.triggered.append(message.key)

    def on_composer_triggered(self, message: Composer.Triggered) -> None:
        self.triggered.append(message.typed.text if message.typed else "")


async def test_enter_sends_and_with_shift_or_alt_breaks_the_line():
    app = ComposerApp()
    async with app.run_test() as pilot:
        await pilot.press("a", "shift+enter", "b", "alt+enter", "c", "ctrl+j", "d", "enter")
        await pilot.pause()
        assert app.submitted == ["a\nb\nc\nd"]
        assert app.composer.text == ""
        await pilot.press("enter")
        await pilot.pause()
        assert len(app.submitted) == 1


async def test_a_picker_knows_all_that_was_typed_before_enter():
    app = ComposerApp()
    async with app.run_test() as pilot:
        await pilot.press("/")
        app.composer.picking = True
        for letter in "mem":
            app.composer.post_message(events.Key(letter, letter))
        app.composer.post_message(events.Key("enter", "\r"))
        await pilot.pause()
        assert app.triggered[-2:] == ["mem", "enter"]


async def test_up_and_down_go_through_the_history_and_the_draft_returns():
    app = ComposerApp("first", "second\nline")
    async with app.run_test() as pilot:
        await pilot.press("d", "r", "a", "f", "t", "up")
        assert app.composer.text == "second\nline"
        await pilot.press("up", "up", "up")
        assert app.composer.text == "first"
        await pilot.press("up")
        assert app.composer.text == "first"
        await pilot.press("down", "down", "down")
        assert app.composer.text == "draft"


async def test_an_open_picker_gets_the_selection_keys():
    app = ComposerApp("earlier")
    async with app.run_test() as pilot:
        app.composer.picking = True
        await pilot.press("slash", "up", "down", "enter")
        await pilot.pause()
        assert app.listed == ["up", "down", "enter"]
        assert app.composer.text == "/"


@pytest.mark.parametrize(
    ("text", "insert", "whole"),
    [
        ("look at @pri", "@/prices.py ", "look at @/prices.py "),
        ("/he", "/hello ", "/hello "),
        ("?", "", ""),
        ("a\nb @x", "@/y ", "a\nb @/y "),
    ],
)
async def test_a_choice_replaces_the_typed_text(text: str, insert: str, whole: str):
    app = ComposerApp()
    async with app.run_test() as pilot:
        app.composer.set_text(text)
        await pilot.pause()
        app.composer.complete(insert)
        assert app.composer.text == whole
