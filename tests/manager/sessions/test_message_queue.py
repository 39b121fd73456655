"""The states of queued messages, and answers held for the same question."""

import pytest
from msgspec.structs import replace

from rookery.core.message import Message
from rookery.errors import CommandRejected
from rookery.manager.sessions.message_queue import (
    MAX_IMAGES,
    MAX_RETRIES,
    Terms,
    all_messages,
    check,
    discarded,
    held_answer,
    images_of,
    next_message,
    queued,
    requeued,
    retried,
    with_message,
    without_message,
)
from rookery.manager.sessions.session_events import (
    ActivityEvent,
    AgentAsked,
    ApiReqStarted,
    ApproveEvent,
    UserMessage,
)
from rookery.manager.sessions.session_record import SessionRecord


def posted(*texts: str) -> SessionRecord:
    record = SessionRecord(session_id="s", taken=3, announced=True)
    return queued(record, [UserMessage(text=text) for text in texts])


def refused(record: SessionRecord, problem: str) -> SessionRecord:
    message = next_message(record)
    assert message
    return with_message(record, replace(message, state="failed", problem=problem))


def test_messages_keep_their_order_and_numbers():
    record = queued(posted("a", "b"), [UserMessage(text="c")])
    assert [(each.number, each.message.text) for each in record.undelivered] == [
        (3, "a"),
        (4, "b"),
        (5, "c"),
    ]
    assert next_message(record) == record.undelivered[0]
    assert [each.number for each in without_message(record, 3).undelivered] == [4, 5]
    waiting = replace(record, outbox=(UserMessage(text="d"),))
    assert [each.number for each in all_messages(waiting)] == [3, 4, 5, 6]
    assert len(all_messages(replace(waiting, announced=False))) == 3, "without the prompt"


def test_a_message_being_sent_when_the_manager_died_is_sent_again():
    (message,) = posted("a").undelivered
    died = with_message(posted("a"), replace(message, state="sending"))
    assert requeued(died) == posted("a")


def test_a_refused_message_is_not_resent_until_the_user_retries():
    record = refused(posted("a", "b"), "no")
    assert (following := next_message(record))
    assert following.number == 4
    record = without_message(record, 4)
    assert next_message(record) is None
    for _ in range(MAX_RETRIES):
        record = refused(retried(record, 3), "still no")
    with pytest.raises(CommandRejected):
        retried(record, 3)
    assert record.undelivered[0].problem == "still no"
    assert discarded(record, 3).undelivered == ()


@pytest.mark.parametrize("act", [retried, discarded])
@pytest.mark.parametrize("number", [3, 99])
def test_only_failed_messages_can_be_retried_or_discarded(act, number: int):
    with pytest.raises(CommandRejected):
        act(posted("a"), number)


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
    """A streamed row is older than its question; when reported again it is not."""
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
