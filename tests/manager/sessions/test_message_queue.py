"""The states of words on their way."""

import pytest

from rookery.errors import CommandRejected
from rookery.manager.sessions.message_queue import (
    MOST,
    MOST_RETRIES,
    SHOWN,
    MessageQueue,
    check,
    images_of,
)
from rookery.manager.sessions.session_events import UserMessage


def posted(*texts: str) -> MessageQueue:
    box = MessageQueue(3, ())
    box.post([UserMessage(text=text) for text in texts])
    return box


def test_letters_keep_their_order_and_their_numbers():
    box = posted("a", "b")
    box.post([UserMessage(text="c")])
    assert [(mail.number, mail.letter.text) for mail in box.mail] == [(3, "a"), (4, "b"), (5, "c")]
    first = box.next()
    assert first
    assert (first.number, first.state) == (3, "sending")
    box.sent(3)
    assert [mail.state for mail in box.mail] == ["sent", "queued", "queued"]
    assert [mail.number for mail in box.unsent] == [4, 5]


def test_what_was_being_sent_when_its_manager_died_is_sent_again():
    box = posted("a")
    box.next()
    again = MessageQueue(box.taken, box.unsent).next()
    assert again
    assert again.number == 3


def test_a_refusal_stops_the_delivery_until_the_user_wants_it():
    box = posted("a", "b")
    box.next()
    box.refused(3, "no")
    assert (following := box.next())
    assert following.number == 4
    box.sent(4)
    assert box.next() is None
    for _ in range(MOST_RETRIES):
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
def test_only_what_failed_is_retried_or_discarded(act, number: int):
    with pytest.raises(CommandRejected):
        act(posted("a"), number)


def test_what_was_sent_is_not_remembered_for_ever():
    box = posted(*"abc" * SHOWN)
    while mail := box.next():
        box.sent(mail.number)
    box.post([UserMessage(text="z")])
    assert len(box.mail) == SHOWN + 1


def test_pictures_are_data_uris_and_few():
    uri = "data:image/PNG;base64,aGk="
    assert images_of(check(UserMessage(images=(uri,))))[0].media_type == "image/png"
    for images in ((uri,) * (MOST + 1), ("/etc/passwd",), ("data:text/html;base64,aGk=",)):
        with pytest.raises(CommandRejected):
            check(UserMessage(images=images))
