"""Text typed while a question has the focus approves nothing."""

import time
from itertools import pairwise

import pytest
from msgspec.structs import replace

from rookery.core.commands import Answer
from support.tui_scenes import COMMAND, EDIT, FOLLOWUP
from support.tui_session import play

pytestmark = pytest.mark.anyio

ROUNDING = 1e-6
"""Tolerance for sums of seconds."""


async def test_words_typed_at_a_question_are_text():
    async with play() as it:
        for question in (COMMAND, EDIT):
            for words in ("hey wait", "nay", "any", "yes!", "always"):
                await it.ask(question)
                await it.key_by_key(words, pause=0.12)
                assert it.composer.text == words
                await it.until(lambda: not it.panel._held_letter.is_waiting)
                assert it.sent(Answer) == [], (words, question.ask)
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


async def test_an_early_answer_says_why_it_does_not_count():
    async with play() as it:
        it.host.tell(replace(COMMAND, ask_id="early"))
        await it.until(lambda: it.panel.asked is not None)
        await it.key_by_key("y")
        await it.see("Ignored y: the question had just appeared. Press it again")
        assert it.composer.text == ""
        assert it.sent(Answer) == []
