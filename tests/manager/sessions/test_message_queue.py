"""The states of words on their way; and an answer that is given again to the same question only."""

import pytest
from msgspec.structs import replace

from rookery.core.message import Message
from rookery.errors import CommandRejected
from rookery.manager.sessions.message_queue import (
    MAX_IMAGES,
    MAX_RETRIES,
    SENT_KEPT,
    MessageQueue,
    Terms,
    check,
    held_answer,
    images_of,
)
from rookery.manager.sessions.session_events import (
    ActivityEvent,
    AgentAsked,
    ApiReqStarted,
    ApproveEvent,
    UserMessage,
)


def posted(*texts: str) -> MessageQueue:
    box = MessageQueue(3, ())
    box.add([UserMessage(text=text) for text in texts])
    return box


def test_messages_keep_their_order_and_numbers():
    box = posted("a", "b")
    box.add([UserMessage(text="c")])
    assert [(mail.number, mail.letter.text) for mail in box.messages] == [
        (3, "a"),
        (4, "b"),
        (5, "c"),
    ]
    first = box.next()
    assert first
    assert (first.number, first.state) == (3, "sending")
    box.sent(3)
    assert [mail.state for mail in box.messages] == ["sent", "queued", "queued"]
    assert [mail.number for mail in box.unsent] == [4, 5]


def test_a_message_being_sent_when_the_manager_died_is_sent_again():
    box = posted("a")
    box.next()
    again = MessageQueue(box.next_number, box.unsent).next()
    assert again
    assert again.number == 3


def test_a_refused_message_is_not_resent_until_the_user_retries():
    box = posted("a", "b")
    box.next()
    box.refused(3, "no")
    assert (following := box.next())
    assert following.number == 4
    box.sent(4)
    assert box.next() is None
    for _ in range(MAX_RETRIES):
        box.retry(3)
        assert box.next()
        box.refused(3, "still no")
    with pytest.raises(CommandRejected):
        box.retry(3)
    assert box.unsent[0].problem == "still no"
    box.discard(3)
    assert box.unsent == ()


@pytest.mark.parametrize("act", [MessageQueue.retry, MessageQueue.discard])
@pytest.mark.parametrize("number", [3, 99])
def test_only_failed_messages_can_be_retried_or_discarded(act, number: int):
    with pytest.raises(CommandRejected):
        act(posted("a"), number)


def test_only_the_latest_sent_messages_are_kept():
    box = posted(*"abc" * SENT_KEPT)
    while mail := box.next():
        box.sent(mail.number)
    box.add([UserMessage(text="z")])
    assert len(box.messages) == SENT_KEPT + 1


def test_images_must_be_data_uris_and_are_limited_in_number():
    uri = "data:image/PNG;base64,aGk="
    assert images_of(check(UserMessage(images=(uri,))))[0].media_type == "image/png"
    for images in ((uri,) * (MAX_IMAGES + 1), ("/etc/passwd",), ("data:text/html;base64,aGk=",)):
        with pytest.raises(CommandRejected):
            check(UserMessage(images=images))


BEFORE = Message(ts=5, type="ask", ask="command", content="ls", digest="d")
WHICH = Message(ts=5, type="ask", ask="followup", content="Which?")
YES = ApproveEvent(ask_ts=5)


@pytest.mark.parametrize(
    ("before", "now", "fits"),
    [
        (BEFORE, replace(BEFORE, ts=9), True),
        (BEFORE, replace(BEFORE, ts=9, digest="e"), False),
        (BEFORE, replace(BEFORE, ts=9, ask="tool"), False),
        (BEFORE, None, False),
        (WHICH, replace(WHICH, ts=9), True),
        (WHICH, replace(WHICH, ts=9, content="Why?"), False),
    ],
)
def test_a_held_answer_applies_only_to_the_same_question(
    before: Message, now: Message | None, fits: bool
):
    again = held_answer(YES, Terms(always=True), before).for_question(now)
    if not fits:
        assert again is None
        return
    assert now
    assert again == (ApproveEvent(ask_ts=9), Terms(digest=now.digest, always=True))


def test_a_held_answer_matches_its_question_by_id_not_time():
    """A row that was streamed is older than the question in it; told again, it is not."""
    asked = replace(BEFORE, ask_id="a")
    held = held_answer(YES, Terms(), asked)
    assert held.answers(replace(asked, ts=9))
    assert not held.answers(replace(asked, ts=9, ask_id="b"))
    assert not held.answers(None)


def test_an_answer_with_another_digest_is_refused():
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
def test_a_model_call_or_another_question_settles_a_held_answer(said: AgentAsked, over: bool):
    assert held_answer(YES, Terms(), BEFORE).is_settled_by(said) is over
