"""Text typed while a question has the focus approves nothing."""

import time
from collections.abc import Sequence
from itertools import pairwise

import pytest
from msgspec.structs import replace

from rookery.core.commands import Answer
from rookery.core.facts import Asked
from rookery.tui.pickers import Picker
from support.tui_scenes import COMMAND, EDIT, FOLLOWUP
from support.tui_session import play

pytestmark = pytest.mark.anyio

ROUNDING = 1e-6
"""Tolerance for sums of seconds."""


async def test_words_typed_at_a_question_are_text():
    async with play() as it:
        for words in ("hey wait", "nay", "any", "yes!", "always"):
            await it.ask(EDIT if words in ("any", "always") else COMMAND)
            await it.key_by_key(words, pause=0.12)
            assert it.composer.text == words
            await it.until(lambda: not it.panel._held_letter.is_waiting)
            assert it.sent(Answer) == [], words
        await it.ask(FOLLOWUP)
        await it.key_by_key("2 of them", pause=0.02)
        assert it.composer.text == "2 of them"
        assert it.sent(Answer) == []


async def test_a_single_key_is_an_answer_or_text():
    async with play() as it:
        for key, reply in (("y", "yes"), ("n", "no")):
            await it.ask(COMMAND)
            await it.key_by_key(key)
            assert it.sent(Answer) == []
            await it.until(lambda: bool(it.sent(Answer)))
            assert [each.reply for each in it.sent(Answer)] == [reply]
        await it.ask(COMMAND)
        assert not COMMAND.rule
        await it.key_by_key("a")
        await it.until(lambda: it.composer.text == "a" and it.composer.has_focus)
        await it.ask(COMMAND)
        await it.pilot.press("y", "escape")
        assert not it.panel._held_letter.is_waiting
        assert it.sent(Answer) == []
        await it.ask(COMMAND)
        await it.key_by_key("yes", pause=0.02)
        await it.press("enter")
        await it.until(lambda: bool(it.sent(Answer)))
        assert [each.reply for each in it.sent(Answer)] == ["yes"]


async def test_a_bare_number_and_enter_answer_nothing():
    """Other agents number the answers, and take Enter for a yes."""
    async with play() as it:
        await it.ask(COMMAND)
        await it.press("1", "enter")
        await it.see("Nothing was answered. Press y for yes or n for no.")
        await it.until(lambda: it.panel.has_focus)
        await it.press("enter")
        assert it.sent(Answer) == []
        await it.press("y")
        await it.until(lambda: bool(it.sent(Answer)))
        assert [each.reply for each in it.sent(Answer)] == ["yes"]
        await it.ask(COMMAND)
        await it.press("1", "0", "!", "enter")
        await it.until(lambda: bool(it.sent(Answer)))
        assert [(each.reply, each.text) for each in it.sent(Answer)] == [("no", "10!")]


async def test_keys_answer_again_once_the_typed_text_is_deleted():
    async with play() as it:
        for words, deletes in (("x", ["backspace"]), ("wait", ["ctrl+u"]), ("/m", ["ctrl+w"] * 2)):
            await it.ask(COMMAND)
            await it.key_by_key(words, pause=0.02)
            await it.until(lambda: it.composer.has_focus)
            await it.press(*deletes)
            await it.until(lambda: it.panel.has_focus)
            await it.key_by_key("y")
            await it.until(lambda: bool(it.sent(Answer)))
            assert [each.reply for each in it.sent(Answer)] == ["yes"]


@pytest.mark.parametrize("keys", [("?", "escape"), ("/", "c", "o", "n", "f", "i", "g", "enter")])
async def test_keys_answer_again_after_a_list_or_a_command(keys: Sequence[str]):
    async with play() as it:
        await it.ask(COMMAND)
        await it.key_by_key(keys[0])
        await it.until(lambda: bool(it.app.query(Picker)))
        await it.press(*keys[1:])
        await it.until(lambda: it.panel.has_focus)
        await it.press("y")
        await it.until(lambda: bool(it.sent(Answer)))
        assert [each.reply for each in it.sent(Answer)] == ["yes"]


async def test_a_reason_that_is_deleted_is_typed_again():
    async with play() as it:
        await it.ask(COMMAND)
        await it.key_by_key("r")
        await it.until(lambda: it.composer.has_focus)
        await it.press("y", "backspace", "y", "e", "s", "enter")
        await it.until(lambda: bool(it.sent(Answer)))
        assert [(each.reply, each.text) for each in it.sent(Answer)] == [("no", "yes")]


@pytest.mark.parametrize("keys", [("backspace", "backspace"), ("escape",)])
async def test_a_draft_that_is_deleted_gives_the_keys_to_the_question(keys: Sequence[str]):
    async with play() as it:
        await it.type("ab")
        it.host.tell(replace(COMMAND, ask_id="later"))
        await it.ripen()
        assert it.composer.has_focus
        await it.press(*keys)
        await it.until(lambda: it.panel.has_focus)
        await it.press("y")
        await it.until(lambda: bool(it.sent(Answer)))
        assert [each.reply for each in it.sent(Answer)] == ["yes"]


async def test_returning_from_the_rule_restarts_the_answer_delay():
    async with play() as it:
        await it.ask(EDIT)
        await it.key_by_key("a")
        await it.until(lambda: not it.panel._held_letter.is_waiting and it.panel.live)
        back = time.monotonic()
        await it.pilot.press("escape")
        await it.until(lambda: it.panel.live)
        assert time.monotonic() - back >= 0.5 - ROUNDING
        assert it.sent(Answer) == []


async def test_a_question_that_reappears_restarts_the_answer_delay():
    async with play() as it:
        await it.ask(COMMAND)
        questions, session = it.app._questions, it.app._session
        first = session.question
        since = questions._shown_at[first.asked.ask_id]
        other = replace(first, asked=replace(COMMAND, ask_id="other", text="rm -rf /"))
        shown = []
        for question in (other, first):
            questions._session = _Stub(question)
            questions.show()
            assert not it.panel.live
            shown.append(questions._shown_at[question.asked.ask_id])
        assert all(before <= after for before, after in pairwise([since, *shown]))
        assert shown[1] > since
        questions._session = session


class _Stub:
    def __init__(self, question: object) -> None:
        self.question = question


@pytest.mark.parametrize(("question", "key"), [(COMMAND, "y"), (FOLLOWUP, "2")])
async def test_an_early_answer_says_why_it_does_not_count(question: Asked, key: str):
    async with play() as it:
        it.host.tell(replace(question, ask_id="early"))
        await it.until(lambda: it.panel.asked is not None)
        await it.key_by_key(key)
        await it.see(f"Ignored {key}: the question had just appeared. Press it again")
        assert it.composer.text == ""
        assert it.sent(Answer) == []
