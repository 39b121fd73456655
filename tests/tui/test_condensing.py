"""While the conversation is condensed, the screen says so and messages wait."""

import pytest

from rookery.core.asks import AskKind
from rookery.core.commands import Answer, Condense, Speak
from rookery.core.facts import Asked, CompletionOffered, Condensed, Condensing, UserSpoke
from support.tui_session import Play, play

pytestmark = pytest.mark.anyio
SUMMARISING = "Summarising the conversation"


def done(ask_id: str) -> Asked:
    return Asked(ask_id=ask_id, ask=AskKind.COMPLETION_RESULT, digest=ask_id)


async def condense(played: Play) -> None:
    played.host.tell(CompletionOffered(result="Done."), done("a1"))
    await played.see("What next? Or /new")
    await played.type("/condense")
    await played.press("enter")
    await played.until(lambda: played.sent(Condense) != [])


async def test_the_screen_shows_condensing_until_the_question_returns():
    async with play() as played:
        await condense(played)
        await played.see(SUMMARISING)
        played.host.tell(Condensing(tokens=1_000))
        await played.settle()
        assert SUMMARISING in played.screen
        played.host.tell(Condensed(upto=1, summary="Shorter."), done("a2"))
        await played.see("What next? Or /new")
        assert SUMMARISING not in played.screen


async def test_a_message_sent_while_condensing_becomes_the_follow_up():
    async with play() as played:
        await condense(played)
        await played.type("more")
        await played.press("enter")
        (sent,) = played.sent(Speak)
        assert sent.text == "more"
        assert played.sent(Answer) == []
        played.host.tell(UserSpoke(message_id=sent.message_id, text="more"))
        await played.see("⋯ more")
        played.host.tell(Condensed(upto=1, summary="Shorter."), done("a2"))
        await played.until(lambda: played.sent(Answer) != [])
        (answer,) = played.sent(Answer)
        assert (answer.ask_id, answer.text) == ("a2", "more")


async def test_a_refused_message_is_back_in_the_input():
    async with play() as played:
        played.host.tell(CompletionOffered(result="Done."), done("a1"))
        await played.see("What next? Or /new")
        played.host.refusal = "No question is open."
        await played.type("some words")
        await played.press("enter")
        await played.see("› some words")
