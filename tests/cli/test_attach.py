"""A client that attaches during an answer gets the rest of it, and nothing twice."""

import pytest

from rookery.cli.attach import CatchUpDisplay
from rookery.core.blocks import Text, Thinking
from rookery.core.facts import AssistantSpoke, Event, Fact, RequestStarted, TextStreamed

WHOLE = AssistantSpoke(request_id="r", blocks=(Thinking(text="Hm."), Text(text="One two three.")))


class Words:
    def __init__(self) -> None:
        self.own = ""
        self.childs = ""

    def show(self, event: Event, child: str = "") -> None:
        if isinstance(event.fact, TextStreamed) and child:
            self.childs += event.fact.text
        elif isinstance(event.fact, TextStreamed):
            self.own += event.fact.text


@pytest.mark.parametrize(
    ("received", "reported"),
    [
        ([], "One two three."),
        (["One "], "One two three."),
        (["One ", "two three."], "One two three."),
        (["three."], "three."),
        (["two "], "two One two three."),
    ],
    ids=["nothing", "the beginning", "all", "the end", "the middle"],
)
def test_attaching_shows_the_missed_text(received: list[str], reported: str):
    words = Words()
    retelling = CatchUpDisplay(words)
    started = RequestStarted(request_id="r", model="m")
    news = [TextStreamed(request_id="r", text=text) for text in received]
    facts: list[Fact] = [started, *news, WHOLE, started, *news, WHOLE]
    for number, fact in enumerate(facts):
        retelling.show(Event(number, 0, number, fact))
        retelling.show(Event(number, 0, number, fact), "c")
    assert (words.own, words.childs) == (reported * 2, reported * 2)
