"""An answer is given again to the same question, and to no other."""

import pytest
from msgspec.structs import replace

from rookery.core.message import Message
from rookery.errors import CommandRejected
from rookery.manager.sessions.message_queue import Terms, held_answer
from rookery.manager.sessions.session_events import (
    ActivityEvent,
    AgentAsked,
    ApiReqStarted,
    ApproveEvent,
)

BEFORE = Message(ts=5, type="ask", ask="command", content="ls", digest="d")
YES = ApproveEvent(ask_ts=5)


@pytest.mark.parametrize(
    ("before", "now", "fits"),
    [
        (BEFORE, Message(ts=9, type="ask", ask="command", content="ls", digest="d"), True),
        (BEFORE, Message(ts=9, type="ask", ask="command", content="ls", digest="e"), False),
        (BEFORE, Message(ts=9, type="ask", ask="tool", content="ls", digest="d"), False),
        (BEFORE, None, False),
        (
            Message(ts=5, type="ask", ask="followup", content="Which?"),
            Message(ts=9, type="ask", ask="followup", content="Which?"),
            True,
        ),
        (
            Message(ts=5, type="ask", ask="followup", content="Which?"),
            Message(ts=9, type="ask", ask="followup", content="Why?"),
            False,
        ),
    ],
)
def test_only_the_same_question_gets_the_answer(before: Message, now: Message | None, fits: bool):
    again = held_answer(YES, Terms(always=True), before).again(now)
    if not fits:
        assert again is None
        return
    assert now
    assert again == (ApproveEvent(ask_ts=9), Terms(digest=now.digest, always=True))


def test_the_question_itself_is_known_again_whatever_its_time():
    """A row that was streamed is older than the question in it; told again, it is not."""
    asked = replace(BEFORE, ask_id="a")
    held = held_answer(YES, Terms(), asked)
    assert held.answers(replace(asked, ts=9))
    assert not held.answers(replace(asked, ts=9, ask_id="b"))
    assert not held.answers(None)


def test_an_answer_to_what_was_not_shown_is_refused():
    with pytest.raises(CommandRejected, match="changed since you saw it"):
        held_answer(YES, Terms(digest="other"), BEFORE)


@pytest.mark.parametrize(
    ("said", "over"),
    [
        (AgentAsked(generation=1, ts=9, ask="command"), True),
        (AgentAsked(generation=1, ts=9, ask="completion_result"), True),
        (AgentAsked(generation=1, ts=9, ask="resume_task"), False),
        (AgentAsked(generation=1, ts=5, ask="command"), False),
        (ApiReqStarted(generation=1, ts=9), True),
        (ApiReqStarted(generation=1, ts=4), False),
        (ActivityEvent(generation=1, ts=9), False),
    ],
)
def test_a_call_of_the_model_or_another_question_ends_it(said: AgentAsked, over: bool):
    assert held_answer(YES, Terms(), BEFORE).ends_with(said) is over
