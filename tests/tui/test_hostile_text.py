"""What names, arguments and questions may hold, and what of it reaches the screen."""

import json
import time
import unicodedata
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from textual.events import Key
from textual.pilot import Pilot

from rookery.core.commands import Answer, OpenTask
from rookery.core.message import call_text
from rookery.core.queries import AskPaths, FoundPath
from rookery.core.text.terminal_text import approvable, plainly_visible, seen_letters
from rookery.protocol.codec import ceiling, followup
from rookery.tui.app import FullScreen, Opening
from rookery.tui.question_page import QuestionStep, body_of
from rookery.tui.rows.lines import all_lines
from rookery.tui.rows.tool_calls import payload_in
from rookery.tui.screens.shell_screen import ShellScreen
from rookery.tui.screens.side_screen import TextScrollView
from rookery.tui.terminal_driver import KeyParser
from rookery.tui.theme import DARK, THEMES
from support.scripted_host import PlayedHost
from support.tui_scenes import COMMAND, EDIT, FOLLOWUP, TASK, asking_about_a_command
from support.tui_waiting import seen, until

pytestmark = pytest.mark.anyio
LOOK = THEMES[DARK]
UNSEEN = "\x00\x07\x1b\x7f\x9b\xad\u200b\u202e\u2066\ufeff\ue000\udcff\U000e0041\U000f0000"


@asynccontextmanager
async def playing(
    size: tuple[int, int] = (80, 24), task: bool = True
) -> AsyncIterator[tuple[FullScreen, PlayedHost, Pilot[object]]]:
    host = PlayedHost()
    first = OpenTask(task_id="t1", text=TASK) if task else None
    app = FullScreen(host, Opening(first=first, home="/home/ada"))
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: app.has_begun or not task)
        yield app, host, pilot


async def test_nothing_raw_reaches_the_screen_from_the_input_area():
    async with playing(task=False) as (app, _, pilot):
        app._page.composer.put(f"a{UNSEEN}b")
        await pilot.pause()
        assert not set(UNSEEN) & set(seen(pilot))
        assert "␀␇␛" in seen(pilot)
        assert app._page.composer.text == f"a{UNSEEN}b"


async def test_a_file_name_with_an_escape_sequence_is_mentioned_as_it_is_and_drawn_safely():
    name = "zz\x1b]52;c;cHduZWQ=\x07a.txt"
    async with playing(task=False) as (app, host, pilot):
        host.answer(AskPaths, (FoundPath(path=name, folder=False),))
        await pilot.press("@", "z")
        await until(pilot, lambda: "a.txt" in seen(pilot))
        await pilot.press("enter")
        await until(pilot, lambda: "\x1b]52" in app._page.composer.text)
        await pilot.pause()
        assert not set("\x1b\x07") & set(seen(pilot))


@pytest.mark.parametrize(
    "told", ["\x1b]11;rgb:ffff/ffff/ffff\x1b\\", "\x1b]11;rgb:0/0/0\x07", "\x1b[?62;22c"]
)
def test_what_the_terminal_tells_late_is_not_typed(told: str):
    parser = KeyParser()
    assert list(parser.feed(told)) == []
    typed = [key for key in parser.feed(f"a{told}b") if isinstance(key, Key)]
    assert [key.key for key in typed] == ["a", "b"]


@given(st.text())
def test_every_letter_is_seen_and_counts_as_one(text: str):
    drawn = seen_letters(text)
    assert len(drawn) == len(text)
    assert seen_letters(drawn) == drawn
    kept = {unicodedata.category(char) for char in drawn if char not in "\n\t"}
    assert not kept & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


@pytest.mark.parametrize("char", ["\ufff0", "\U000e0080", "\U0001d173", "\ue000", "\U000f0000"])
def test_what_no_font_shows_is_spelled_out(char: str):
    spelled = f"<U+{ord(char):04X}>"
    assert plainly_visible(f"a{char}b") == f"a{spelled}b"
    assert approvable(f"a{char}b") == f"a{spelled}b"


@pytest.mark.parametrize("tool", [{}, [], 5, "newFileCreated", None])
def test_an_argument_named_tool_is_not_taken_for_the_tool(tool: object):
    told = json.loads(call_text("mcp", {"tool": tool, "todos": 5}))
    assert told == {"tool": "mcp", "todos": 5}
    assert isinstance(payload_in(json.dumps({"tool": tool})).get("tool", ""), str)


def test_a_question_that_is_nested_too_deep_is_plain_text():
    deep = "[" * 200_000
    assert followup(deep) == (deep, [])
    assert ceiling(deep) == "This session has reached its limit."


def test_a_suggestion_tells_the_mode_it_goes_on_in():
    lines = [line.plain for line in all_lines(body_of(FOLLOWUP, QuestionStep.CHOICE, 0, 70, LOOK))]
    assert any("Banker's rounding  → architect mode" in line for line in lines)


def test_blanks_at_the_end_of_a_command_are_drawn_and_a_fold_is_told_from_a_line():
    command = replace(COMMAND, text=f"rm -rf a \\ \nls {'x' * 40}", cwd="")
    lines = [line.plain for line in all_lines(body_of(command, QuestionStep.ANSWER, 0, 30, LOOK))]
    assert lines[0] == "$ rm -rf a \\␣"
    assert lines[1].startswith("  ls")
    assert all(line.startswith("↪ ") for line in lines[2:])


@pytest.mark.parametrize("size", [(1, 1), (3, 10), (4, 10), (20, 6), (80, 5)])
async def test_a_question_that_is_not_in_sight_takes_no_answer(size: tuple[int, int]):
    async with playing(size) as (app, host, pilot):
        asking_about_a_command(host)
        panel = app._page.panel
        await until(pilot, lambda: panel._live)
        assert not panel.live
        panel.focus()
        await pilot.press("y")
        await until(pilot, lambda: not panel.has_waiting_letter)
        assert not [each for each in host.sent if isinstance(each, Answer)]
        resized = time.monotonic()
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: panel.live)
        assert time.monotonic() - resized >= 0.5


async def test_a_long_title_scrolls_with_the_rest():
    async with playing() as (app, host, pilot):
        host.tell(replace(EDIT, title="Edit " + "x" * 1000 + " END"))
        panel = app._page.panel
        await until(pilot, lambda: panel.live)
        assert "Allow this?" in seen(pilot)
        scroll_view = panel.query_one(TextScrollView)
        assert "END?" in "".join(
            scroll_view._lines.strip(at).text for at in range(scroll_view._lines.height)
        )


async def test_a_line_for_the_shell_that_comes_in_one_piece_is_not_for_the_model():
    async with playing(task=False) as (app, host, pilot):
        app._page.composer.put("!true")
        app._page.composer.action_submit()
        await until(pilot, lambda: isinstance(app.screen, ShellScreen))
        assert host.sent == []
