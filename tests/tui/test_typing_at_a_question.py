"""Words that are typed while a question has the keys approve nothing."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
from msgspec.structs import replace
from textual.events import Key

from rookery.core.commands import Answer, OpenTask
from rookery.core.facts import Asked
from rookery.tui.app import FullScreen, Opening
from rookery.tui.ask_panel import AskPanel
from rookery.tui.composer import Composer
from support.scripted_host import PlayedHost
from support.tui_scenes import COMMAND, EDIT, FOLLOWUP, TASK
from support.tui_waiting import until

pytestmark = pytest.mark.anyio

ROUNDING = 1e-6
"""Of seconds that are added up."""


class Asking:
    """An app with a question that takes keys, and what it sent."""

    def __init__(self, app: FullScreen, host: PlayedHost, pilot: object) -> None:
        self.app, self.host, self.pilot = app, host, pilot

    @property
    def panel(self) -> AskPanel:
        return self.app._page.panel

    @property
    def composer(self) -> Composer:
        return self.app._page.composer

    @property
    def answers(self) -> list[Answer]:
        return [each for each in self.host.sent if isinstance(each, Answer)]

    async def type(self, text: str, pause: float) -> None:
        """As a person does, key by key."""
        for letter in text:
            self.app.post_message(Key(letter, letter))
            await self.pilot.pause(pause)

    async def ripen(self) -> None:
        await until(self.pilot, lambda: self.panel.live and self.panel.has_focus)


@asynccontextmanager
async def asked(*questions: Asked) -> AsyncIterator[Asking]:
    host = PlayedHost()
    app = FullScreen(host, Opening(first=OpenTask(task_id="t1", text=TASK), home="/home/ada"))
    async with app.run_test(size=(80, 24)) as pilot:
        asking = Asking(app, host, pilot)
        await until(pilot, lambda: app.has_begun)
        host.tell(*questions)
        await until(pilot, lambda: app._page.panel.asked)
        await asking.ripen()
        yield asking


@pytest.mark.parametrize("question", [COMMAND, EDIT], ids=["command", "edit"])
@pytest.mark.parametrize("words", ["hey wait", "nay", "any", "yes!", "always"])
async def test_words_that_begin_at_a_question_are_words(words: str, question: Asked):
    async with asked(question) as it:
        await it.type(words, pause=0.12)
        assert it.composer.text == words
        await until(it.pilot, lambda: not it.panel.has_waiting_letter)
        assert it.answers == []


async def test_a_number_with_words_behind_it_is_no_choice():
    async with asked(FOLLOWUP) as it:
        await it.type("2 of them", pause=0.02)
        assert it.composer.text == "2 of them"
        assert it.answers == []


@pytest.mark.parametrize(("key", "reply"), [("y", "yes"), ("n", "no")])
async def test_a_key_that_stands_alone_is_an_answer(key: str, reply: str):
    async with asked(COMMAND) as it:
        await it.type(key, pause=0)
        assert it.answers == []
        await until(it.pilot, lambda: it.answers)
        assert [each.reply for each in it.answers] == [reply]


async def test_a_key_that_answers_nothing_is_text():
    async with asked(COMMAND) as it:
        assert not COMMAND.rule
        await it.type("a", pause=0)
        await until(it.pilot, lambda: it.composer.text == "a" and it.composer.has_focus)


async def test_escape_takes_back_a_key_that_waits():
    async with asked(COMMAND) as it:
        await it.pilot.press("y", "escape")
        assert not it.panel.has_waiting_letter
        assert it.answers == []


async def test_typing_yes_at_a_question_and_enter_says_yes():
    async with asked(COMMAND) as it:
        await it.type("yes", pause=0.02)
        await it.pilot.press("enter")
        await until(it.pilot, lambda: it.answers)
        assert [each.reply for each in it.answers] == ["yes"]


async def test_back_from_the_rule_the_question_has_to_be_seen_again():
    async with asked(EDIT) as it:
        await it.type("a", pause=0)
        await until(it.pilot, lambda: not it.panel.has_waiting_letter and it.panel.live)
        back = time.monotonic()
        await it.pilot.press("escape")
        await until(it.pilot, lambda: it.panel.live)
        assert time.monotonic() - back >= 0.5 - ROUNDING
        assert it.answers == []


async def test_a_question_that_comes_back_has_to_be_seen_again():
    first, second = COMMAND, replace(COMMAND, ask_id="other", text="rm -rf /")
    async with asked(first) as it:
        questions = it.app._questions
        since = questions._shown_at[first.ask_id]
        session = it.app._session
        other = replace(session.question, asked=second)
        shown = []
        for question in (other, session.question):
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
