"""What the question panel shows."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rookery.core.asks import AskKind
from rookery.core.commands import Answer
from rookery.core.facts import Asked
from rookery.core.text.terminal_text import approvable
from rookery.tui.question_page import QuestionStep, body_of, footing_of, has_panel, page_of
from rookery.tui.rows.lines import all_lines
from rookery.tui.theme import DARK, THEMES
from support.each_row import each_row
from support.tui_scenes import COMMAND, EDIT, FOLLOWUP
from support.tui_session import play

LOOK = THEMES[DARK]


def shown(asked: Asked, width: int = 60) -> str:
    return "".join(
        line.plain for line in all_lines(body_of(asked, QuestionStep.ANSWER, 0, width, LOOK))
    )


@each_row("width", [20, 60, 200])
def test_an_action_is_shown_in_full(width: int):
    long = "x" * 9_000
    command = replace(COMMAND, text=f"echo {long}", notes=(long,))
    assert shown(command, width).count("x") == 9_000
    edit = replace(EDIT, diff=f"@@ -1,0 +1,1 @@\n+{long}")
    assert shown(edit, width).count("x") == 9_000
    notes = footing_of(command, QuestionStep.ANSWER, width, LOOK)
    assert sum(line.plain.count("x") for line in notes) >= 9_000


def test_invisible_characters_are_drawn():
    hidden = replace(COMMAND, text="ls\u200b \u202ex          y\x1b[2K")
    text = shown(hidden)
    for part in ("<U+200B>", "<U+202E>", "␣", "␛"):
        assert part in text


def test_a_carriage_return_in_a_diff_is_drawn_and_tabs_keep_their_columns():
    assert "a␍b" in shown(replace(EDIT, diff="@@ -1,0 +1,1 @@\n+a\rb"))
    for asked in (replace(EDIT, diff="+\tx"), replace(COMMAND, text="\tx")):
        assert "\t" not in shown(asked)


def test_the_folder_of_a_command_is_shown():
    assert "in sub/dir" in shown(replace(COMMAND, cwd="sub/dir"))


def test_the_always_key_is_offered_only_with_a_rule():
    assert "a" in dict(page_of(EDIT, QuestionStep.ANSWER).keys)
    assert "a" not in dict(page_of(COMMAND, QuestionStep.ANSWER).keys)
    rule = all_lines(body_of(EDIT, QuestionStep.RULE, 0, 60, LOOK))
    assert EDIT.rule in [line.plain for line in rule]


@each_row("kind", AskKind)
def test_every_question_has_a_title_and_those_with_a_panel_have_keys(kind: AskKind):
    asked = Asked(ask_id="a", ask=kind, text="why")
    page = page_of(asked, QuestionStep.ANSWER)
    assert page.title
    assert page.keys or not has_panel(asked)
    assert body_of(asked, QuestionStep.ANSWER, 0, 60, LOOK) is not None


def test_resuming_shows_no_dialog():
    for kind in (AskKind.RESUME_TASK, AskKind.RESUME_COMPLETED_TASK, AskKind.COMPLETION_RESULT):
        assert not has_panel(Asked(ask_id="a", ask=kind))
    assert has_panel(FOLLOWUP)
    assert not has_panel(replace(FOLLOWUP, text="A plain question?"))


@given(st.text(max_size=300), st.integers(12, 80))
def test_any_action_fits_the_width(text: str, width: int):
    for asked in (replace(COMMAND, text=text), replace(EDIT, diff=f"+{text}")):
        for line in all_lines(body_of(asked, QuestionStep.ANSWER, 0, width, LOOK)):
            assert line.cell_len <= width


NEW_TASK = Asked(
    ask_id="a9",
    ask=AskKind.TOOL,
    title="Start a task in mode code",
    text=json.dumps({"tool": "newTask", "mode": "code"}),
)
SWITCH = replace(NEW_TASK, text=json.dumps({"tool": "switchMode", "mode": "code"}))
DIFF_ROWS = st.lists(
    st.sampled_from(
        [
            "Write part one",
            "@@ -1,9 +1,9 @@ and delete the database",
            "@@ -1,2 +1,2 @@",
            "+added",
            "-gone",
            " kept",
            "\\ No newline at end of file",
            "*** Edit b.py",
            "@@ looks like one",
            "",
        ]
    )
    | st.text(max_size=30)
).map("\n".join)


def without_blanks(text: str) -> str:
    return "".join(text.split())


@given(DIFF_ROWS, st.sampled_from([NEW_TASK, SWITCH, EDIT]), st.integers(12, 80))
def test_every_line_to_approve_is_on_the_panel(text: str, asked: Asked, width: int):
    on_panel = without_blanks(shown(replace(asked, diff=text), width))
    for line in approvable(text).split("\n"):
        if asked is EDIT:  # line numbers are drawn instead of hunk headers
            line = re.sub(r"^@@ -\d+(,\d+)? \+\d+(,\d+)? @@", "", line)
        assert without_blanks(line) in on_panel


def test_text_that_is_not_a_file_change_is_not_drawn_as_a_diff():
    words = "Write part one\n@@ -1,9 +1,9 @@ and delete the database\n+ done"
    for asked in (NEW_TASK, SWITCH):
        lines = all_lines(body_of(replace(asked, diff=words), QuestionStep.ANSWER, 0, 60, LOOK))
        assert [line.plain for line in lines] == words.split("\n")


@pytest.mark.anyio
async def test_a_question_without_a_body_shows_its_title_and_notes():
    fetch = Asked(
        ask_id="f", ask=AskKind.TOOL, text="{}", title="Fetch http://a.example/x", notes=("One.",)
    )
    async with play(size=(80, 24)) as it:
        await it.ask(fetch)
        assert "Fetch http://a.example/x?" in it.screen
        assert "! One." in it.screen
        await it.press("y")
        await it.until(lambda: bool(it.sent(Answer)))
