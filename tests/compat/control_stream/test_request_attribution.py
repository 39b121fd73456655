"""Which request an event is due to."""

from rookery.compat.control_stream.followed_task import Attribution


def started() -> Attribution:
    by = Attribution()
    by.start("s")
    by.queue("id1", "m1")
    by.queue("id2", "m2")
    return by


def test_nobody_is_behind_what_happens_before_the_first_request():
    assert Attribution().active == ""


def test_a_queued_message_takes_over_when_it_is_heard_and_not_before():
    by = started()
    assert by.active == "s"
    by.receive("id1")
    assert (by.active, by.knows("id1"), by.knows("id2")) == ("m1", False, True)


def test_words_of_nobody_known_change_nothing():
    by = started()
    by.receive("id9")
    assert by.active == "s"


def test_when_a_turn_is_complete_the_oldest_that_waits_is_next():
    by = started()
    by.complete()
    assert by.active == "m1"
    by.receive("id1")
    by.receive("id2")
    by.complete()
    assert by.active == "m2"


def test_a_message_that_could_not_be_queued_never_takes_over():
    by = started()
    by.forget("id1")
    by.complete()
    assert by.active == "m2"


def test_another_start_forgets_what_waited():
    by = started()
    by.start("s2")
    by.complete()
    assert (by.active, by.knows("id1")) == ("s2", False)


def test_a_cancellation_remembers_whom_it_took_over_from_until_something_new_is_asked():
    by = started()
    by.cancel("c1")
    by.cancel("c2")
    assert (by.active, by.interrupted) == ("c2", "s")
    by.take_over("m3")
    assert (by.active, by.interrupted) == ("m3", "")
