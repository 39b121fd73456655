"""Intents on the full screen: the header, the picker and the questions."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.console import Console
from rich.text import Text

from rookery.core.asks import AskedReason, AskedTarget, AskKind
from rookery.core.commands import Answer, OpenTask, SelectIntent, Speak
from rookery.core.facts import Asked, IntentCleared
from rookery.core.message import Message
from rookery.core.queries import About, AskIntents
from rookery.tui.question_page import QuestionStep, answer_letters, body_of, footing_of, page_of
from rookery.tui.rows.lines import ShownRow, all_lines
from rookery.tui.screens.choice_screens import IntentScreen
from rookery.tui.status_bars import HeaderFacts, header_line
from rookery.tui.theme import DARK, THEMES
from support.each_row import each_row
from support.tui_bare_app import handler
from support.tui_intent_scenes import (
    GOVERNED,
    INTENTS,
    OUTSIDE,
    SELECTED,
    WHY,
    asking_beyond_the_scope,
)
from support.tui_rows import draw_row
from support.tui_scenes import COMMAND
from support.tui_session import Play, play

pytestmark = pytest.mark.anyio
LOOK = THEMES[DARK]
CONSOLE = Console()
ONLY_STOPPING = replace(GOVERNED, governance=replace(OUTSIDE, choices=("halt",)))
UNKNOWN = replace(
    COMMAND,
    text="make all",
    governance=replace(
        OUTSIDE,
        reasons=(AskedReason(code="REQ-002", error_type="", text="make may change anything."),),
        targets=(),
        pattern="",
        grant="make all",
        choices=("task", "halt"),
    ),
)


def plain(lines: list[Text]) -> str:
    return "\n".join(line.plain for line in lines)


def colour_of(words: str, lines: list[Text]) -> str:
    """The colour of a text."""
    for line in lines:
        if (at := line.plain.find(words)) >= 0:
            colour = line.get_style_at_offset(CONSOLE, at).color
            return colour.name if colour else ""
    raise AssertionError(f"Nowhere is {words!r} in: {plain(lines)}")


# the header


ABOUT = About(workspace="/home/ada/shop", model="anthropic/claude-opus-4.6", mode="code")
AROUND = HeaderFacts(about=ABOUT, home="/home/ada", intent="INT-001", intent_name="JWT migration")


@each_row(
    ("width", "reported"),
    [
        (160, "code · INT-001 JWT migration · anthropic/claude-opus-4.6 · ~/shop"),
        (100, "code · INT-001 JWT migration · anthropic/claude-opus-4.6"),
        (90, "code · INT-001 · anthropic/claude-opus-4.6"),
        (80, "code · INT-001 · claude-opus-4.6"),
        (70, "code · INT-001 · claude-"),
        (66, "code · INT-001 "),
        (44, "rookery  INT-001 "),
    ],
)
def test_the_header_names_the_intent_and_its_title_if_there_is_room(width: int, reported: str):
    line = header_line(AROUND, LOOK, width)
    assert reported in line.plain
    assert line.cell_len <= width


def test_without_an_intent_the_header_does_not_change():
    line = header_line(replace(AROUND, intent="", intent_name="x"), LOOK, 100).plain
    assert "code · anthropic/claude-opus-4.6 · ~/shop" in line


# choosing an intent


async def test_an_intent_is_picked_for_the_task_unless_it_has_a_problem():
    async with handler() as it:
        it.host.answer(AskIntents, ())
        await it.open(IntentScreen)
        await it.sees("This project has no intents")
        await it.press("escape")
        await it.until(lambda: it.closed)
        it.host.answer(AskIntents, INTENTS)
        await it.open(IntentScreen)
        shown = await it.sees("INT-002")
        assert "nothing in particular" not in shown
        screen = it.app.screen
        assert isinstance(screen, IntentScreen)
        bad, good = ([screen.draw(each, 70, LOOK)] for each in (INTENTS[2], INTENTS[1]))
        assert colour_of("INT-002", bad) == colour_of("User interface", bad) == LOOK.muted
        assert colour_of("INT-003", good) == LOOK.text
        await it.press("escape")
        await it.until(lambda: it.closed)

        it.host.tell(SELECTED)
        await it.until(lambda: it.app.intent == "INT-001")
        await it.open(IntentScreen)
        shown = await it.sees(
            "▸ INT-001  JWT auth migration  now  src/auth/**, tests/auth/**",
            "INT-003  割引 in percent  prices.py",
            "INT-002  User interface  it is PENDING",
            "none     nothing in particular",
        )
        assert shown.count("now") == 1
        await it.press("down", "down", "enter")
        await it.until(lambda: it.app.toasts)
        assert it.app.toasts == ["INT-002 cannot be selected: it is PENDING."]
        assert it.host.sent == []
        assert not it.closed
        await it.press("up", "enter")
        await it.until(lambda: it.closed)
        assert it.host.sent == [SelectIntent(task_id="t1", intent_id="INT-003")]
        await it.open(IntentScreen)
        await it.sees("nothing in particular")
        await it.press("up", "enter")
        await it.until(lambda: len(it.host.sent) == 2)
        assert it.host.sent[1] == SelectIntent(task_id="t1", intent_id="")


async def _say(played: Play, line: str) -> None:
    await played.type(line)
    await played.press("enter")
    await played.settle()


async def test_an_intent_chosen_before_a_task_applies_to_that_task_only():
    async with play(task=False) as played:
        played.host.answer(AskIntents, INTENTS)
        await _say(played, "/intent INT-002")
        await played.see("INT-002 cannot be selected: it is PENDING.")
        await _say(played, "/intent INT-9")
        await played.see("No such intent: INT-9.")
        assert "INT-" not in played.lines[0]
        await _say(played, "/intent INT-001")
        assert "INT-001" in played.lines[0]
        await _say(played, "/intent")
        await played.see("INT-001  JWT auth migration  now")
        await played.press("escape")
        await _say(played, "one")
        (opened,) = played.sent(OpenTask)
        assert opened.intent == "INT-001"
        played.host.tell(Asked(ask_id="a8", ask=AskKind.RESUME_TASK), task=opened.task_id)
        await played.settle()
        await played.app.new_task()
        await played.settle()
        assert "INT-" not in played.lines[0]
        await _say(played, "two")
        assert played.sent(OpenTask)[-1].intent == ""


# questions


async def test_the_header_follows_the_intent_and_a_command_selects_another():
    async with play() as played:
        assert "INT-" not in played.lines[0]
        played.host.tell(SELECTED)
        await played.settle()
        assert "code · INT-001 · " in played.lines[0]
        played.host.tell(IntentCleared(reason="It was paused."))
        await played.settle()
        assert "INT-" not in played.lines[0]
        played.host.answer(AskIntents, INTENTS)
        await _say(played, "/intent INT-003")
        assert played.sent(SelectIntent) == [SelectIntent(task_id="t1", intent_id="INT-003")]


def test_the_reasons_have_their_codes_and_each_target_its_verdict():
    body = all_lines(body_of(GOVERNED, QuestionStep.ANSWER, 0, 74, LOOK))
    assert "✓ modify src/auth/jwt.py  in scope" in plain(body)
    assert "✗ modify src/api/user.py  out of scope; nearest: src/auth/**" in plain(body)
    assert colour_of("out of scope", body) == LOOK.bad
    assert colour_of("in scope", body) == LOOK.good
    footing = footing_of(GOVERNED, QuestionStep.ANSWER, 74, LOOK)
    assert [line.plain for line in footing] == [
        f"! REQ-001 {WHY}",
        '  Scope of INT-001 "JWT auth migration": src/auth/**, tests/auth/**',
    ]


def test_a_reason_shown_with_its_code_is_not_repeated_as_a_note():
    noted = replace(GOVERNED, notes=(WHY, "deletes 3 files"))
    footing = plain(footing_of(noted, QuestionStep.ANSWER, 74, LOOK))
    assert footing.count(WHY) == 1
    assert "! deletes 3 files" in footing


def test_the_real_path_of_a_target_is_shown():
    target = AskedTarget(path="a", op="create", verdict="outside", real_path="/etc/a\u202e")
    asked = replace(GOVERNED, governance=replace(OUTSIDE, targets=(target,)))
    assert "✗ create a  outside; it is /etc/a<U+202E>" in plain(
        all_lines(body_of(asked, QuestionStep.ANSWER, 0, 74, LOOK))
    )


@given(st.text(max_size=200), st.integers(12, 80))
def test_a_governance_question_is_shown_in_full_and_fits(text: str, width: int):
    target = AskedTarget(path=f"{'x' * 90}{text}", op="create", verdict="out_of_scope")
    reason = AskedReason(code="REQ-001", error_type="", text=f"{'y' * 90}{text}")
    pattern = f"{'z' * 90}{text}"
    question = replace(
        OUTSIDE,
        targets=(target,),
        reasons=(reason,),
        scope=(pattern,),
        pattern=pattern,
        grant=pattern,
    )
    asked = replace(GOVERNED, diff="", governance=question)
    body = all_lines(body_of(asked, QuestionStep.ANSWER, 0, width, LOOK))
    footing = footing_of(asked, QuestionStep.ANSWER, width, LOOK)
    task, more = (
        all_lines(body_of(asked, step, 0, width, LOOK))
        for step in (QuestionStep.TASK, QuestionStep.EXPAND)
    )
    for letter, lines in (("x", body), ("y", footing), ("z", footing), ("z", task), ("z", more)):
        assert plain(lines).count(letter) >= 90
        assert all(line.cell_len <= width for line in lines)


@pytest.mark.parametrize(
    ("asked", "letters"),
    [(GOVERNED, "yntesr"), (UNKNOWN, "yntsr"), (ONLY_STOPPING, "ynsr"), (COMMAND, "ynr")],
    ids=["all", "no pattern", "only stopping", "no intent"],
)
def test_only_offered_choices_have_a_key(asked: Asked, letters: str):
    assert "".join(answer_letters(asked, QuestionStep.ANSWER)) == letters
    assert "".join(answer_letters(asked, QuestionStep.TASK)) == "yn"


@pytest.mark.parametrize(
    ("asked", "step", "title", "what", "allowed"),
    [
        (
            GOVERNED,
            QuestionStep.TASK,
            "Approve this for the rest of the task?",
            "counts as in scope",
            "user.py",
        ),
        (
            GOVERNED,
            QuestionStep.EXPAND,
            "Add this to the scope of INT-001?",
            "is added to the scope",
            "user.py",
        ),
        (
            UNKNOWN,
            QuestionStep.TASK,
            "Approve this for the rest of the task?",
            "exactly this command",
            "make all",
        ),
    ],
    ids=["files", "scope", "commands"],
)
def test_a_choice_shows_what_it_would_allow(
    asked: Asked, step: QuestionStep, title: str, what: str, allowed: str
):
    assert page_of(asked, step).title == title
    reported, pattern = all_lines(body_of(asked, step, 0, 74, LOOK))
    assert what in reported.plain
    assert pattern.plain.endswith(allowed)
    assert footing_of(asked, step, 74, LOOK) == []


def answers(played: Play) -> list[tuple[Any, ...]]:
    return [(each.reply, each.choice, each.digest) for each in played.sent(Answer)]


async def test_a_choice_must_be_confirmed_after_showing_what_it_allows():
    async with play() as played:
        for key, choice, shown in (
            ("t", "task", "this counts as in scope:"),
            ("e", "expand", "This is added to the scope of INT-001 for every task:"),
        ):
            await played.ask(GOVERNED)
            assert "t this task…   e add to scope…   s stop   r no, because…" in played.screen
            await played.press(key)
            await played.see(shown)
            assert "src/api/user.py" in played.screen
            await played.press("y")  # too early: it was not visible for long enough
            assert answers(played) == []
            await played.ripen()
            await played.press("n")
            await played.ripen()
            assert "Edit 2 files?" in played.screen
            assert answers(played) == []
            await played.press(key)
            await played.ripen()
            await played.press("y")
            assert answers(played) == [("yes", choice, "d6")]
        await played.ask(GOVERNED)
        await played.press("s")
        assert answers(played) == [("no", "halt", "d6")]


async def test_a_choice_inside_a_word_or_not_offered_is_text():
    async with play() as played:
        for words in ("test it", "else", "stop that"):
            await played.ask(GOVERNED)
            await played.type(words)
            assert played.composer.text == words
            await played.press("enter")
            assert [(each.reply, each.text) for each in played.sent(Answer)] == [("no", words)]
        await played.ask(ONLY_STOPPING)
        await played.press("e")
        await played.until(lambda: played.composer.text == "e")
        assert answers(played) == []


async def test_a_letter_in_the_input_is_not_an_answer_except_as_a_reason():
    async with play() as played:
        asking_beyond_the_scope(played.host)
        await played.ripen()
        played.app._page.composer.focus()
        await played.type("t")
        await played.press("enter")
        await played.see("To answer with t, press Tab first.")
        assert played.sent(Answer) == played.sent(Speak) == []
        played.app._page.panel.focus()
        await played.until(lambda: played.app._page.panel.has_focus)
        await played.press("r")
        await played.type("s")
        await played.press("enter")
        assert [(each.reply, each.text) for each in played.sent(Answer)] == [("no", "s")]


# results


CRITERIA = """\
Acceptance criteria of INT-001:
  ✓ A1 passed (0.1 s): the file says two, and goes on for longer than one line has room
  ✗ A2 FAILED (make test): all tests pass
  ? A3 claimed, not checked: Somebody has read it."""


def test_acceptance_criteria_are_listed_in_their_colours():
    row = ShownRow(message=Message(ts=1, type="say", say="note", content=CRITERIA))
    strips = draw_row(row, 60, LOOK)
    assert [strip.text.rstrip() for strip in strips] == [
        "  · Acceptance criteria of INT-001:",
        "    ✓ A1 passed (0.1 s): the file says two, and goes on for",
        "      longer than one line has room",
        "    ✗ A2 FAILED (make test): all tests pass",
        "    ? A3 claimed, not checked: Somebody has read it.",
    ]
    inks = [
        {part.style.color.name for part in strip if part.style and part.style.color}
        for strip in strips[1:]
    ]
    assert inks == [{LOOK.good}, {LOOK.good}, {LOOK.bad}, {LOOK.warning}]
