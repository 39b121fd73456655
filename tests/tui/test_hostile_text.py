"""Hostile text in names, arguments and questions is shown safely."""

import json
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from textual.events import Key

from rookery.core.commands import Answer
from rookery.core.message import call_text
from rookery.core.queries import AskPaths, FoundPath
from rookery.core.text.terminal_text import approvable, plainly_visible, visible_characters
from rookery.protocol.codec import ceiling, followup
from rookery.tui.question_page import QuestionStep, body_of
from rookery.tui.rows.lines import all_lines
from rookery.tui.rows.tool_calls import parse_payload
from rookery.tui.screens.shell_screen import ShellScreen
from rookery.tui.screens.side_screen import TextScrollView
from rookery.tui.terminal_driver import KeyParser
from rookery.tui.theme import DARK, THEMES
from support.each_row import each_row
from support.tui_scenes import COMMAND, EDIT, FOLLOWUP, asking_about_a_command
from support.tui_session import play

pytestmark = pytest.mark.anyio
LOOK = THEMES[DARK]
UNSEEN = "\x00\x07\x1b\x7f\x9b\xad\u200b\u202e\u2066\ufeff\ue000\udcff\U000e0041\U000f0000"


@each_row("reported", ["\x1b]11;rgb:ffff/ffff/ffff\x1b\\", "\x1b]11;rgb:0/0/0\x07", "\x1b[?62;22c"])
def test_a_late_terminal_reply_is_not_typed(reported: str):
    parser = KeyParser()
    assert list(parser.feed(reported)) == []
    typed = [key for key in parser.feed(f"a{reported}b") if isinstance(key, Key)]
    assert [key.key for key in typed] == ["a", "b"]


@given(st.text())
def test_every_character_is_visible_and_counts_as_one(text: str):
    drawn = visible_characters(text)
    assert len(drawn) == len(text)
    assert visible_characters(drawn) == drawn
    kept = {unicodedata.category(char) for char in drawn if char not in "\n\t"}
    assert not kept & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


@each_row("char", ["\ufff0", "\U000e0080", "\U0001d173", "\ue000", "\U000f0000"])
def test_characters_without_a_glyph_are_spelled_out(char: str):
    key_label = f"<U+{ord(char):04X}>"
    assert plainly_visible(f"a{char}b") == f"a{key_label}b"
    assert approvable(f"a{char}b") == f"a{key_label}b"


@each_row("tool", [{}, [], 5, "newFileCreated", None])
def test_an_argument_named_tool_is_not_taken_for_the_tool(tool: object):
    reported = json.loads(call_text("mcp", {"tool": tool, "todos": 5}))
    assert reported == {"tool": "mcp", "todos": 5}
    assert isinstance(parse_payload(json.dumps({"tool": tool})).get("tool", ""), str)


def test_a_question_that_is_nested_too_deep_is_plain_text():
    deep = "[" * 200_000
    assert followup(deep) == (deep, [])
    assert ceiling(deep) == "This session has reached its limit."


def test_a_suggestion_shows_the_mode_it_switches_to():
    lines = [line.plain for line in all_lines(body_of(FOLLOWUP, QuestionStep.CHOICE, 0, 70, LOOK))]
    assert any("Banker's rounding  → architect mode" in line for line in lines)


def test_trailing_blanks_are_drawn_and_wrapped_lines_are_marked():
    command = replace(COMMAND, text=f"rm -rf a \\ \nls {'x' * 40}", cwd="")
    lines = [line.plain for line in all_lines(body_of(command, QuestionStep.ANSWER, 0, 30, LOOK))]
    assert lines[0] == "$ rm -rf a \\␣"
    assert lines[1].startswith("  ls")
    assert all(line.startswith("↪ ") for line in lines[2:])


async def test_nothing_raw_reaches_the_screen_from_the_input_area():
    name = "zz\x1b]52;c;cHduZWQ=\x07a.txt"
    async with play(task=False) as played:
        played.composer.set_text(f"a{UNSEEN}b")
        await played.pilot.pause()
        assert not set(UNSEEN) & set(played.screen)
        assert "␀␇␛" in played.screen
        assert played.composer.text == f"a{UNSEEN}b"
        played.composer.empty()
        played.host.answer(AskPaths, (FoundPath(path=name, folder=False),))
        await played.pilot.press("@", "z")
        await played.see("a.txt")
        await played.pilot.press("enter")
        await played.until(lambda: "\x1b]52" in played.composer.text)
        assert not set("\x1b\x07") & set(played.screen)
        # a shell line pasted in one piece does not go to the model
        played.composer.set_text("!true")
        played.composer.action_submit()
        await played.until(lambda: isinstance(played.app.screen, ShellScreen))
        assert played.host.sent == []


async def test_a_question_that_is_not_visible_takes_no_answer():
    async with play() as played:
        asking_about_a_command(played.host)
        panel = played.panel
        for size in ((1, 1), (3, 10), (4, 10), (20, 6), (80, 5)):
            await played.pilot.resize_terminal(*size)
            await played.until(lambda: panel._live and not panel.live)
            panel.focus()
            await played.press("y")
            assert played.sent(Answer) == [], size
            resized = time.monotonic()
            await played.pilot.resize_terminal(80, 24)
            await played.until(lambda: panel.live)
            assert time.monotonic() - resized >= 0.5, size


async def test_a_long_title_scrolls_with_the_rest():
    async with play() as played:
        await played.ask(replace(EDIT, title="Edit " + "x" * 1000 + " END"))
        assert "Allow this?" in played.screen
        lines = played.panel.query_one(TextScrollView)._lines
        assert "END?" in "".join(lines.strip(at).text for at in range(lines.height))
