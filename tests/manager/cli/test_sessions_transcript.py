"""What `rookery sessions follow` tells of rows, however they come."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rookery.core.text.terminal_text import Paint
from rookery.manager.cli.sessions_follow import FollowedTranscript

PLAIN = Paint(False)
TEXTS = st.lists(st.text("ab\n\r\x1b\u202e🙂\u200d", max_size=12), min_size=1, max_size=4)
KINDS = st.sampled_from(["text", "reasoning", "command_output", "completion_result"])


def news(**change: Any) -> dict[str, Any]:
    return {"seq": 1, "earlier": 0, "change": change}


def said(ts: int, text: str, **more: Any) -> dict[str, Any]:
    return {"ts": ts, "type": "say", "say": "text", "text": text, **more}


def told(transcript: FollowedTranscript, **how: bool) -> str:
    return "".join(transcript.fresh(PLAIN, **how))


@given(st.lists(st.tuples(KINDS, TEXTS), min_size=1, max_size=4))
def test_a_text_that_grows_is_told_once_and_as_if_it_had_come_whole(
    rows: list[tuple[str, list[str]]],
):
    growing, whole = FollowedTranscript(), FollowedTranscript()
    heard = ""
    for ts, (say, pieces) in enumerate(rows, 1):
        growing.take(news(added=[said(ts, pieces[0], partial=True, say=say)]))
        heard += told(growing)
        for piece in pieces[1:]:
            growing.take(news(changed=[{"ts": ts, "append": piece}]))
            heard += told(growing)
        growing.take(news(changed=[{"ts": ts, "partial": False}]))
        heard += told(growing)
    whole.take(
        news(added=[said(ts, "".join(told), say=say) for ts, (say, told) in enumerate(rows, 1)])
    )
    assert heard == told(whole)
    assert told(growing, to_the_end=True) == ""


def test_words_are_told_as_they_are_spoken():
    transcript = FollowedTranscript()
    transcript.take(news(added=[said(1, "Do it"), said(2, "one\ntw", partial=True)]))
    assert told(transcript) == "\n> Do it\n\none\ntw"
    transcript.take(news(changed=[{"ts": 2, "append": "o\nthree"}]))
    assert told(transcript) == "o\nthree"
    assert told(transcript) == ""
    assert told(transcript, to_the_end=True) == "\n"


def test_what_a_command_prints_is_told_line_by_line():
    transcript = FollowedTranscript()
    output = said(2, "one\ntw", partial=True, say="command_output")
    transcript.take(news(added=[said(1, "Do it"), output]))
    assert told(transcript) == "\n> Do it\n\n  one\n"
    transcript.take(news(changed=[{"ts": 2, "append": "o\nthree"}]))
    assert told(transcript) == "  two\n"
    assert told(transcript, to_the_end=True) == "  three\n"


def test_a_call_that_came_to_nothing_says_so_whenever_that_is_known():
    row = {"ts": 2, "type": "ask", "ask": "tool", "text": "{}", "call_id": "c1", "ask_id": "q1"}
    asked = {**row, "title": "Create a", "diff": "+x"}
    late, early = FollowedTranscript(), FollowedTranscript()
    late.take(news(added=[said(1, "Do it"), asked]))
    assert "● Create a\n  +x\n" in told(late)
    late.take(news(changed=[{"ts": 2, "answered": True, "outcome": "denied"}]))
    late.take(news(added=[{"ts": 3, "type": "say", "say": "user_feedback", "text": "not so"}]))
    assert told(late) == "\n✗ rejected: Create a\n\n> not so\n"
    assert told(late, to_the_end=True) == ""
    early.take(news(added=[said(1, "Do it"), {**asked, "answered": True, "outcome": "failed"}]))
    assert told(early) == "\n> Do it\n\n✗ failed: Create a\n  +x\n"
    assert told(early, to_the_end=True) == ""


def test_what_comes_later_waits_for_what_is_not_whole():
    transcript = FollowedTranscript()
    transcript.take(news(added=[said(1, "Do it"), said(2, "on", partial=True), said(3, "next")]))
    assert told(transcript) == "\n> Do it\n\non"
    transcript.take(news(changed=[{"ts": 2, "append": "ce", "partial": False}]))
    assert told(transcript) == "ce\n\nnext\n"


def test_the_first_row_of_a_window_is_no_prompt_if_others_came_before():
    transcript = FollowedTranscript()
    transcript.take({"seq": 1, "earlier": 5, "change": {"added": [said(9, "and so on")]}})
    assert told(transcript) == "\nand so on\n"


def test_what_was_taken_back_is_not_told():
    transcript = FollowedTranscript()
    transcript.take(news(added=[said(1, "Do it"), said(2, "on", partial=True)]))
    transcript.take(news(removed=[2]))
    assert told(transcript, to_the_end=True) == "\n> Do it\n"


def test_a_question_is_told_when_it_is_whole_and_rests():
    transcript = FollowedTranscript()
    row = {"ts": 2, "type": "ask", "ask": "tool", "text": "{}", "call_id": "c1", "partial": True}
    transcript.take(news(added=[said(1, "Do it"), row]))
    told(transcript)
    assert not transcript.rests
    whole = {"ts": 2, "partial": False, "title": "Create a", "diff": "+x"}
    transcript.take(news(changed=[whole], parts={"open_ask": 2}))
    assert told(transcript) == "\n● Create a\n  +x\n"
    assert transcript.rests
    transcript.take(news(changed=[{"ts": 2, "answered": True}], parts={"open_ask": None}))
    assert (told(transcript), transcript.rests) == ("", False)
