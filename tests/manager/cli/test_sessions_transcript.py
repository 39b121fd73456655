"""What `rookery sessions follow` prints of rows, however they arrive."""

from typing import Any

import pytest
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


def reported(transcript: FollowedTranscript, **how: bool) -> str:
    return "".join(transcript.new_text(PLAIN, **how))


@given(st.lists(st.tuples(KINDS, TEXTS), min_size=1, max_size=4))
def test_streamed_text_prints_the_same_as_complete_text(rows: list[tuple[str, list[str]]]):
    growing, whole = FollowedTranscript(), FollowedTranscript()
    received = ""
    for ts, (say, pieces) in enumerate(rows, 1):
        growing.apply(news(added=[said(ts, pieces[0], partial=True, say=say)]))
        received += reported(growing)
        for piece in pieces[1:]:
            growing.apply(news(changed=[{"ts": ts, "append": piece}]))
            received += reported(growing)
        growing.apply(news(changed=[{"ts": ts, "partial": False}]))
        received += reported(growing)
    whole.apply(
        news(
            added=[
                said(ts, "".join(reported), say=say) for ts, (say, reported) in enumerate(rows, 1)
            ]
        )
    )
    assert received == reported(whole)
    assert reported(growing, finish=True) == ""


def test_text_is_printed_as_it_streams():
    transcript = FollowedTranscript()
    transcript.apply(news(added=[said(1, "Do it"), said(2, "one\ntw", partial=True)]))
    assert reported(transcript) == "\n> Do it\n\none\ntw"
    transcript.apply(news(changed=[{"ts": 2, "append": "o\nthree"}]))
    assert reported(transcript) == "o\nthree"
    assert reported(transcript) == ""
    assert reported(transcript, finish=True) == "\n"


@pytest.mark.parametrize("say", ["text", "command_output", "completion_result"])
def test_control_characters_from_the_model_are_escaped(say: str):
    transcript = FollowedTranscript()
    evil = "\x1b]0;owned\a\u202eword\n\x1b[2Jline two"
    transcript.apply(news(added=[said(1, "Do it"), said(2, evil, say=say)]))
    printed = reported(transcript, finish=True)
    assert "␛]0;owned␇<U+202E>word\n" in printed
    assert "␛[2Jline two" in printed


def test_command_output_is_printed_line_by_line():
    transcript = FollowedTranscript()
    output = said(2, "one\ntw", partial=True, say="command_output")
    transcript.apply(news(added=[said(1, "Do it"), output]))
    assert reported(transcript) == "\n> Do it\n\n  one\n"
    transcript.apply(news(changed=[{"ts": 2, "append": "o\nthree"}]))
    assert reported(transcript) == "  two\n"
    assert reported(transcript, finish=True) == "  three\n"


def test_a_rejected_call_is_marked_whether_known_early_or_late():
    row = {"ts": 2, "type": "ask", "ask": "tool", "text": "{}", "call_id": "c1", "ask_id": "q1"}
    asked = {**row, "title": "Create a", "diff": "+x"}
    late, early = FollowedTranscript(), FollowedTranscript()
    late.apply(news(added=[said(1, "Do it"), asked]))
    assert "● Create a\n  +x\n" in reported(late)
    late.apply(news(changed=[{"ts": 2, "answered": True, "outcome": "denied"}]))
    late.apply(news(added=[{"ts": 3, "type": "say", "say": "user_feedback", "text": "not so"}]))
    assert reported(late) == "\n✗ rejected: Create a\n\n> not so\n"
    assert reported(late, finish=True) == ""
    early.apply(news(added=[said(1, "Do it"), {**asked, "answered": True, "outcome": "failed"}]))
    assert reported(early) == "\n> Do it\n\n✗ failed: Create a\n  +x\n"
    assert reported(early, finish=True) == ""


def test_later_rows_wait_for_an_incomplete_row():
    transcript = FollowedTranscript()
    transcript.apply(news(added=[said(1, "Do it"), said(2, "on", partial=True), said(3, "next")]))
    assert reported(transcript) == "\n> Do it\n\non"
    transcript.apply(news(changed=[{"ts": 2, "append": "ce", "partial": False}]))
    assert reported(transcript) == "ce\n\nnext\n"


def test_the_first_row_is_not_a_prompt_if_earlier_rows_exist():
    transcript = FollowedTranscript()
    transcript.apply({"seq": 1, "earlier": 5, "change": {"added": [said(9, "and so on")]}})
    assert reported(transcript) == "\nand so on\n"


def test_removed_rows_are_not_printed():
    transcript = FollowedTranscript()
    transcript.apply(news(added=[said(1, "Do it"), said(2, "on", partial=True)]))
    transcript.apply(news(removed=[2]))
    assert reported(transcript, finish=True) == "\n> Do it\n"


def test_a_question_is_printed_once_it_is_complete():
    transcript = FollowedTranscript()
    row = {"ts": 2, "type": "ask", "ask": "tool", "text": "{}", "call_id": "c1", "partial": True}
    transcript.apply(news(added=[said(1, "Do it"), row]))
    reported(transcript)
    assert not transcript.is_idle
    whole = {"ts": 2, "partial": False, "title": "Create a", "diff": "+x"}
    transcript.apply(news(changed=[whole], parts={"open_ask": 2}))
    assert reported(transcript) == "\n● Create a\n  +x\n"
    assert transcript.is_idle
    transcript.apply(news(changed=[{"ts": 2, "answered": True}], parts={"open_ask": None}))
    assert (reported(transcript), transcript.is_idle) == ("", False)
