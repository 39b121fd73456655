"""The question panel: its title, its key line and its height."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rookery.core.asks import AskKind
from rookery.core.facts import Asked
from rookery.tui.question_page import QuestionStep, answer_letters, page_of
from rookery.tui.shown_question import (
    MIN_BODY_LINES,
    OUTSIDE_LINES,
    KeyState,
    keys_line,
    long_title,
    panel_size,
    short_title,
    title_line,
)
from rookery.tui.theme import DARK, THEMES
from support.each_row import each_row
from support.tui_scenes import COMMAND, EDIT, FOLLOWUP

LOOK = THEMES[DARK]
FAILED = Asked(ask_id="a", ask=AskKind.API_REQ_FAILED, text="why")
ANY_QUESTION = st.sampled_from([COMMAND, EDIT, FOLLOWUP, FAILED])


def reported(standing: KeyState, asked: Asked = EDIT, unread: int = 0, counting: str = "") -> str:
    keys = page_of(asked, QuestionStep.ANSWER).keys
    return keys_line(keys, standing, unread=unread, counting=counting, theme=LOOK).plain


@pytest.mark.parametrize(
    ("standing", "words"),
    [
        (KeyState.TOO_NEW, "…   "),
        (KeyState.NOT_VISIBLE, "the window is too small to answer   "),
        (KeyState.TYPING, "enter sends   esc back   "),
        (KeyState.UNFOCUSED, "tab to answer   y yes   n no   a always…   r no, because…   "),
        (KeyState.READY, "y yes   n no   a always…   r no, because…   "),
    ],
    ids=lambda each: each.name if isinstance(each, KeyState) else "",
)
def test_only_keys_that_work_now_are_shown(standing: KeyState, words: str):
    assert reported(standing) == words
    assert reported(standing, counting="answers 1 in 5 s") == f"{words}answers 1 in 5 s"


def test_unread_lines_are_shown_before_the_keys():
    assert reported(KeyState.READY, unread=1).startswith("↓ or End: 1 more line, then y yes")
    assert reported(KeyState.READY, unread=7).startswith("↓ or End: 7 more lines, then y yes")
    assert "more line" not in reported(KeyState.UNFOCUSED, unread=7)


@pytest.mark.parametrize(
    ("position", "line"),
    [
        ((1, 5, 5), "Run?"),
        ((1, 5, 9), "Run?  ↑↓ 1-5 of 9"),
        ((5, 9, 9), "Run?  ↑↓ 5-9 of 9"),
    ],
    ids=["all visible", "more below", "more above"],
)
def test_the_title_shows_the_scroll_position(position: tuple[int, int, int], line: str):
    assert title_line("Run?", position, LOOK).plain == line


def test_an_overlong_title_moves_into_the_body():
    long = replace(EDIT, title="Edit " + "deep/" * 40)
    assert short_title(long, QuestionStep.ANSWER, 40) == "Allow this?"
    text = "".join(line.plain for line in long_title(long, QuestionStep.ANSWER, 40))
    assert text.count("deep/") == 40
    assert short_title(EDIT, QuestionStep.ANSWER, 40) == "Edit prices.py?"
    assert long_title(EDIT, QuestionStep.ANSWER, 40) == []


@pytest.mark.parametrize(
    ("asked", "step", "letters"),
    [
        (COMMAND, QuestionStep.ANSWER, "ynr"),
        (EDIT, QuestionStep.ANSWER, "ynar"),
        (EDIT, QuestionStep.RULE, "yn"),
        (FOLLOWUP, QuestionStep.CHOICE, "123"),
        (FAILED, QuestionStep.ANSWER, "yn"),
    ],
    ids=["command", "edit with a rule", "the rule", "suggestions", "a failure"],
)
def test_each_question_accepts_only_its_letters(asked: Asked, step: QuestionStep, letters: str):
    assert "".join(answer_letters(asked, step)) == letters


@given(ANY_QUESTION, st.integers(0, 30), st.integers(20, 200), st.integers(16, 100))
def test_a_panel_leaves_room_for_the_rest_of_the_screen(
    asked: Asked, notes: int, width: int, height: int
):
    room = panel_size(asked, QuestionStep.ANSWER, notes=notes, width=width, height=height)
    below = notes + 1 if notes and not room.cramped else 0
    assert room.body + below < height - OUTSIDE_LINES
    assert room.cramped or room.body >= MIN_BODY_LINES


@each_row("notes", [0, 3])
def test_an_action_gets_as_much_room_as_possible(notes: int):
    action = panel_size(COMMAND, QuestionStep.ANSWER, notes=notes, width=80, height=40)
    other = panel_size(FAILED, QuestionStep.ANSWER, notes=notes, width=80, height=40)
    assert action.body > other.body
    assert not action.cramped


def test_notes_scroll_with_the_text_if_there_is_no_room_for_both():
    assert panel_size(COMMAND, QuestionStep.ANSWER, notes=6, width=80, height=18).cramped
    assert not panel_size(COMMAND, QuestionStep.ANSWER, notes=0, width=80, height=18).cramped
