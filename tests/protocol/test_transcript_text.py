"""A session as text and as Markdown."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rookery.core.message import Message
from rookery.core.text.terminal_text import Paint
from rookery.protocol.transcript_text import (
    PassageKind,
    TranscriptPassage,
    as_markdown,
    as_text,
    fenced,
    passages,
)
from support.each_row import each_row

PLAIN = Paint(False)


def say(ts: int, kind: str, text: str, **fields: str) -> Message:
    return Message(ts=ts, type="say", say=kind, content=text, **fields)  # type: ignore[arg-type]


def ask(ts: int, kind: str, text: str, *, answered: bool = True, **fields: str) -> Message:
    return Message(ts=ts, type="ask", ask=kind, content=text, answered=answered, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("row", "reported"),
    [
        (say(2, "text", "words\n"), TranscriptPassage(kind=PassageKind.WORDS, text="words")),
        (say(2, "reasoning", "hm"), TranscriptPassage(kind=PassageKind.THOUGHT, text="hm")),
        (say(2, "user_feedback", "no!"), TranscriptPassage(kind=PassageKind.PROMPT, text="no!")),
        (say(2, "error", "bad"), TranscriptPassage(kind=PassageKind.TROUBLE, text="bad")),
        (say(2, "note", "oh"), TranscriptPassage(kind=PassageKind.NOTE, text="oh")),
        (say(2, "completion_result", "ok"), TranscriptPassage(kind=PassageKind.RESULT, text="ok")),
        (say(2, "command_output", "out"), TranscriptPassage(kind=PassageKind.OUTPUT, text="out")),
        (
            say(2, "api_req_started", '{"streamingFailedMessage": "lost"}'),
            TranscriptPassage(kind=PassageKind.TROUBLE, text="lost"),
        ),
        (
            ask(2, "followup", '{"question": "Which?", "suggest": [{"answer": "this"}]}'),
            TranscriptPassage(kind=PassageKind.QUESTION, text="Which?", below="- this"),
        ),
        (
            ask(2, "tool", '{"tool": "appliedDiff"}', call_id="c", title="Edit a", diff="-a\n+b"),
            TranscriptPassage(kind=PassageKind.CALL, text="Edit a", diff="-a\n+b"),
        ),
        (
            ask(2, "command", "rm\n-r x", call_id="c", title="Run rm"),
            TranscriptPassage(kind=PassageKind.CALL, text="Run rm", below="rm\n-r x"),
        ),
        (
            ask(
                2,
                "tool",
                '{"tool": "updateTodoList", "todos": [{"content": "a", "status": "completed"}]}',
                call_id="c",
                title="Update",
            ),
            TranscriptPassage(kind=PassageKind.CALL, text="Update", below="- [x] a"),
        ),
        (
            ask(2, "resume_task", "Go on?", answered=False),
            TranscriptPassage(kind=PassageKind.QUESTION, text="Go on?"),
        ),
    ],
    ids=lambda each: each.say or each.ask if isinstance(each, Message) else "",
)
def test_each_row_is_written_according_to_its_kind(row: Message, reported: TranscriptPassage):
    first, passage = passages([say(1, "text", "the task"), row])
    assert first == TranscriptPassage(kind=PassageKind.PROMPT, text="the task")
    assert passage == reported


@each_row(
    "row",
    [
        say(2, "api_req_started", '{"model": "m"}'),
        say(2, "checkpoint_saved", "abc"),
        ask(2, "completion_result", ""),
        ask(2, "resume_task", "Go on?"),
        say(2, "text", "\n"),
    ],
)
def test_empty_rows_are_omitted(row: Message):
    assert len(list(passages([say(1, "text", "the task"), row]))) == 1


def test_text_marks_the_speaker_and_indents_call_output():
    reported = [
        TranscriptPassage(kind=PassageKind.PROMPT, text="two\nlines"),
        TranscriptPassage(kind=PassageKind.CALL, text="Edit a", diff="-a\n+b"),
        TranscriptPassage(kind=PassageKind.RESULT, text="done"),
    ]
    assert list(as_text(reported, PLAIN)) == ["> two\n> lines", "● Edit a\n  -a\n  +b", "✔ done"]
    assert "\x1b[32m+b" in list(as_text(reported, Paint(True)))[1]


def test_markdown_has_diffs_and_output_in_fences():
    reported = [
        TranscriptPassage(kind=PassageKind.PROMPT, text="two\n\nlines"),
        TranscriptPassage(kind=PassageKind.CALL, text="Edit `a`", diff="-a\n+b"),
        TranscriptPassage(kind=PassageKind.OUTPUT, text="out"),
        TranscriptPassage(kind=PassageKind.RESULT, text="done"),
    ]
    assert list(as_markdown(reported)) == [
        "> two\n>\n> lines",
        "- `` Edit `a` ``\n\n```diff\n-a\n+b\n```",
        "```\nout\n```",
        "## Result\n\ndone",
    ]


@given(st.text(alphabet="`a\n", max_size=30))
def test_no_text_can_end_its_fence(text: str):
    fence, *inside, end = fenced(text).split("\n")
    assert fence == end
    assert set(fence) == {"`"}
    assert len(fence) >= 3
    assert all(fence not in line for line in inside)


@example("\x1b[2J\r\x07\x9b\u202e", "text")
@given(st.text(max_size=40), st.sampled_from(["text", "error", "note", "command_output"]))
def test_no_text_can_move_the_cursor(text: str, kind: str):
    fields = {
        "tool": "appliedDiff",
        "content": f"@@ {text}",
        "question": text,
        "streamingFailedMessage": text,
        "suggest": [{"answer": text}],
    }
    todos = {"tool": "updateTodoList", "todos": [{"content": text, "status": "pending"}]}
    rows = [
        say(1, "text", "task"),
        say(2, kind, text),
        say(3, "api_req_started", json.dumps(fields)),
        ask(4, "command", text, call_id="c"),
        ask(5, "tool", json.dumps(fields), call_id="c", title=text),
        ask(6, "tool", json.dumps(todos), call_id="c"),
        ask(7, "tool", json.dumps({"tool": "newTask", "content": text}), call_id="c"),
        ask(8, "followup", json.dumps(fields)),
    ]
    reported = "\n".join(as_text(passages(rows), PLAIN))
    assert not set(reported) & {"\x1b", "\r", "\x07", "\x9b", "\u202e"}
