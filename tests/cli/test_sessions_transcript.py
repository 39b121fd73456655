"""What `rookery sessions follow` tells of rows, however they come."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rookery.cli.sessions_transcript import Transcript
from rookery.clients.terminal_text import Paint

PLAIN = Paint(False)
TEXTS = st.lists(st.text("ab\n\r\x1b\u202e🙂", max_size=12), min_size=1, max_size=4)


def news(**change: Any) -> dict[str, Any]:
    return {"seq": 1, "earlier": 0, "change": change}


def said(ts: int, text: str, **more: Any) -> dict[str, Any]:
    return {"ts": ts, "type": "say", "say": "text", "text": text, **more}


def told(transcript: Transcript, **how: bool) -> str:
    return "".join(f"{piece}\n" for piece in transcript.fresh(PLAIN, **how))


@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_a_text_that_grows_is_told_once_and_as_if_it_had_come_whole(rows: list[list[str]]):
    growing, whole = Transcript(), Transcript()
    heard = ""
    for ts, pieces in enumerate(rows, 1):
        growing.take(news(added=[said(ts, pieces[0], partial=True)]))
        heard += told(growing)
        for piece in pieces[1:]:
            growing.take(news(changed=[{"ts": ts, "append": piece}]))
            heard += told(growing)
        growing.take(news(changed=[{"ts": ts, "partial": False}]))
        heard += told(growing)
    whole.take(news(added=[said(ts, "".join(pieces)) for ts, pieces in enumerate(rows, 1)]))
    assert heard == told(whole)
    assert told(growing, to_the_end=True) == ""


def test_lines_are_told_as_soon_as_they_are_whole():
    transcript = Transcript()
    transcript.take(news(added=[said(1, "Do it"), said(2, "one\ntw", partial=True)]))
    assert told(transcript) == "\n> Do it\n\none\n"
    transcript.take(news(changed=[{"ts": 2, "append": "o\nthree"}]))
    assert told(transcript) == "two\n"
    assert told(transcript, to_the_end=True) == "three\n"


def test_what_comes_later_waits_for_what_is_not_whole():
    transcript = Transcript()
    transcript.take(news(added=[said(1, "Do it"), said(2, "on", partial=True), said(3, "next")]))
    assert told(transcript) == "\n> Do it\n"
    transcript.take(news(changed=[{"ts": 2, "drop": 1, "append": "nce", "partial": False}]))
    assert told(transcript) == "\nonce\n\nnext\n"


def test_the_first_row_of_a_window_is_no_prompt_if_others_came_before():
    transcript = Transcript()
    transcript.take({"seq": 1, "earlier": 5, "change": {"added": [said(9, "and so on")]}})
    assert told(transcript) == "\nand so on\n"


def test_what_was_taken_back_is_not_told():
    transcript = Transcript()
    transcript.take(news(added=[said(1, "Do it"), said(2, "on", partial=True)]))
    transcript.take(news(removed=[2]))
    assert told(transcript, to_the_end=True) == "\n> Do it\n"


def test_a_question_is_told_when_it_is_whole_and_rests():
    transcript = Transcript()
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
