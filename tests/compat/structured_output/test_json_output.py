"""The exact output of `--output-format json` and `stream-json`."""

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rookery.compat.structured_output.writer import JsonOutput, ReaderLeft
from rookery.core.asks import AskKind
from rookery.core.blocks import Text, Thinking, ToolCall
from rookery.core.event_list import EventList
from rookery.core.facts import (
    Answered,
    Asked,
    AssistantSpoke,
    CallStreamed,
    CompletionOffered,
    Ending,
    Event,
    Fact,
    Governed,
    Noted,
    OutputStreamed,
    RequestFailed,
    RequestStarted,
    TaskFailed,
    TaskOpened,
    TextStreamed,
    ThinkingStreamed,
    ToolFinished,
    ToolStarted,
    Usage,
    next_event,
)
from rookery.core.limits import FailureKind
from rookery.protocol.outcomes import CHOOSE_A_LEVEL
from support.each_row import each_row

PAGE = Path(__file__).parents[3] / "docs" / "structured-output.md"
BEGUN = 1_700_000_000_000
USAGE = Usage(tokens_in=5120, tokens_out=210, cache_reads=4096, cost=0.0123)
EDIT = {"path": "a.py", "content": "y\n"}
EDIT_PAYLOAD = json.dumps(
    {
        "tool": "editedExistingFile",
        "path": "a.py",
        "content": "@@ -1 +1 @@\n-x\n+y\n",
        "diffStats": {"added": 1, "removed": 1},
    }
)
FOLLOWUP = json.dumps({"question": "Which port?", "suggest": [{"answer": "8080"}]})

STORY: list[Fact] = [
    TaskOpened(text="Make the tests pass."),
    RequestStarted(request_id="r1", model="m"),
    RequestFailed(
        request_id="r1", error=FailureKind.BUSY, message="The provider is overloaded.", status=529
    ),
    Noted(text="Older messages are left out of what is sent."),
    RequestStarted(request_id="r2", model="m", attempt=2),
    ThinkingStreamed(request_id="r2", text="One test fails"),
    ThinkingStreamed(request_id="r2", text=" on the port."),
    TextStreamed(request_id="r2", text="I will"),
    TextStreamed(request_id="r2", text=" edit a.py."),
    CallStreamed(request_id="r2", index=0, name="write_to_file", arguments='{"path": "a.py", '),
    CallStreamed(request_id="r2", index=0, name="write_to_file", arguments='"content": "y\\n"}'),
    CallStreamed(request_id="r2", index=1, name="execute_command", arguments='{"command": "py'),
    CallStreamed(request_id="r2", index=1, name="execute_command", arguments='test -q"}'),
    AssistantSpoke(
        request_id="r2",
        blocks=(
            Thinking(text="One test fails on the port."),
            Text(text="I will edit a.py."),
            ToolCall(id="c1", name="write_to_file", arguments=EDIT),
            ToolCall(id="c2", name="execute_command", arguments={"command": "pytest -q"}),
        ),
        usage=USAGE,
    ),
    Asked(ask_id="q1", ask=AskKind.TOOL, text=EDIT_PAYLOAD, title="Replace a.py", call_id="c1"),
    Answered(ask_id="q1", ask=AskKind.TOOL, reply="yes"),
    ToolStarted(call_id="c1", tool="write_to_file", title="Replace a.py", text=EDIT_PAYLOAD),
    ToolFinished(call_id="c1", text="Replaced a.py."),
    ToolStarted(
        call_id="c2",
        tool="execute_command",
        title="Run pytest -q",
        ask=AskKind.COMMAND,
        text="pytest -q",
        command="pytest -q",
    ),
    OutputStreamed(call_id="c2", text="1 passed\n"),
    ToolFinished(call_id="c2", text="Exit code 0. Output:\n1 passed\n", exit_code=0),
    Asked(ask_id="q2", ask=AskKind.FOLLOWUP, text=FOLLOWUP),
    Answered(ask_id="q2", ask=AskKind.FOLLOWUP, reply="message", text="8080"),
    CompletionOffered(result="The tests pass."),
]


NOT_APPROVED = (
    "Not interactive: this needs approval, so it was skipped. "
    "Do without it, or finish. Do not claim that it was done."
)
REFUSED: list[Fact] = [
    AssistantSpoke(
        request_id="r1",
        blocks=(ToolCall(id="c1", name="write_to_file", arguments=EDIT),),
        usage=USAGE,
    ),
    ToolFinished(call_id="c1", text=NOT_APPROVED, ending=Ending.DENIED, would_change=True),
    CompletionOffered(result="Done."),
]


def placed(facts: list[Fact]) -> list[Event]:
    events: list[Event] = []
    for fact in facts:
        events.append(next_event(events[-1] if events else None, fact, BEGUN))
    return events


def written(facts: list[Fact], *, stream: bool, code: str | None = None, reason: str = "") -> str:
    out = io.StringIO()
    output = JsonOutput(out, stream=stream, session_id="3f2a")
    output.begin()
    for event in placed(facts):
        output.show(event)
    output.end(code is None, code, reason)
    return out.getvalue()


@each_row("governed", [False, True])
@each_row("stream", [False, True])
def test_a_resumed_run_counts_old_events_and_reads_the_last_ones(stream: bool, governed: bool):
    lasting = [each.fact for each in placed(STORY) if each.fact.lasting]
    earlier = [Governed(mode="enforce"), *lasting] if governed else lasting
    stored = placed([*earlier, *lasting, *lasting])
    begun = replace(stored[-1], ts=BEGUN + 60_000)
    new = [next_event(begun, fact, BEGUN + 60_000) for fact in lasting[1:2]]
    read: list[int] = []

    def read_places(places: Iterable[int]) -> Iterator[Event]:
        for place in places:
            read.append(place)
            yield stored[place]

    def output(events: Sequence[Event]) -> str:
        out = io.StringIO()
        output = JsonOutput(out, stream=stream, session_id="3f2a", after=stored[-1].seq)
        output.resume(events)
        for event in new:
            output.show(event)
        output.end(True)
        return out.getvalue()

    codes = EventList(stored).codes
    assert output(EventList(codes=codes, stored=read_places)) == shown_whole(stored, new, stream)
    finished = {at for at, each in enumerate(stored) if isinstance(each.fact, ToolFinished)}
    assert finished <= set(read) if governed else len(finished & set(read)) == len(finished) / 3


def shown_whole(stored: Sequence[Event], new: Sequence[Event], stream: bool) -> str:
    out = io.StringIO()
    output = JsonOutput(out, stream=stream, session_id="3f2a", after=stored[-1].seq)
    for event in [*stored, *new]:
        output.show(event)
    output.end(True)
    return out.getvalue()


def examples(fence: str) -> list[str]:
    """The page's code blocks in one language."""
    blocks = re.findall(r"^```(.+)\n((?:.*\n)*?)```$", PAGE.read_text(encoding="utf-8"), re.M)
    return [text.rstrip("\n") for kind, text in blocks if kind == fence]


def shape(line: str) -> tuple[Any, ...]:
    event = json.loads(line)
    return event["type"], event.get("subtype"), "done" in event


def test_every_example_line_on_the_page_is_really_written():
    lines = written(STORY, stream=True).splitlines()
    failure = written([TaskFailed(message="KeyError: 'x'")], stream=True, code="task_failed")
    why = "Nothing was changed: 1 action was refused (write_to_file). This run is not interactive."
    refused = written(
        REFUSED,
        stream=True,
        code="policy_denied",
        reason=f"{why} {CHOOSE_A_LEVEL}",
    )
    lines += [*failure.splitlines(), *refused.splitlines()]
    assert [each for each in examples("json") if each not in lines] == []


def test_the_page_has_an_example_of_every_kind_of_event():
    lines = written(STORY, stream=True).splitlines()
    assert {shape(line) for line in lines} - {shape(line) for line in examples("json")} == set()


def test_the_page_shows_a_whole_json_output():
    (example,) = examples("json pretty")
    said = [TaskOpened(text="Say hello."), CompletionOffered(result="Hello.")]
    assert written(said, stream=False).strip() == example


def test_stream_json_is_one_compact_object_per_line_from_init_to_result():
    text = written(STORY, stream=True)
    lines = text.split("\n")
    assert lines.pop() == ""
    events = [json.loads(line) for line in lines]
    assert [json.dumps(e, ensure_ascii=False, separators=(",", ":")) for e in events] == lines
    assert (events[0]["subtype"], events[-1]["type"]) == ("init", "result")


def test_json_writes_nothing_before_the_end_and_then_one_indented_object():
    out = io.StringIO()
    output = JsonOutput(out, stream=False, session_id="3f2a")
    output.begin()
    for event in placed(STORY):
        output.show(event)
    assert out.getvalue() == ""
    output.end(True)
    summary = json.loads(out.getvalue())
    assert out.getvalue() == json.dumps(summary, ensure_ascii=False, indent=2) + "\n"
    assert list(summary) == ["type", "taskId", "success", "content", "cost", "events"]
    assert (summary["type"], summary["taskId"], summary["success"]) == ("result", "3f2a", True)
    assert summary["content"] == "The tests pass."
    assert all("done" in e or e["type"] in ("system", "error") for e in summary["events"])


@each_row("code", ["task_aborted", "task_failed", "timeout"])
def test_json_is_written_even_if_the_run_fails(code: str):
    said: list[Fact] = [TaskOpened(text="x"), TextStreamed(request_id="r", text="So far")]
    summary = json.loads(written(said, stream=False, code=code))
    assert (summary["success"], summary["code"], summary["content"]) == (False, code, "So far")
    [error] = [event for event in summary["events"] if "code" in event]
    assert (error["type"], error["code"], error["content"]) == ("error", code, summary["error"])
    assert summary["taskId"] == "3f2a"


@each_row("stream", [True, False])
def test_an_automatic_answer_is_not_a_user_event(stream: bool):
    said: list[Fact] = [
        Asked(ask_id="q", ask=AskKind.FOLLOWUP, text=FOLLOWUP),
        Answered(ask_id="q", ask=AskKind.FOLLOWUP, reply="message", text="8080", by="policy"),
    ]
    text = written(said, stream=stream)
    assert '"user"' not in text
    assert '"user"' in written([TaskOpened(text="x")], stream=stream)


def test_stream_json_ends_with_the_reason_and_a_result_without_success():
    lines = written([], stream=True, code="timeout", reason="Five minutes are over.").splitlines()
    assert [json.loads(line) for line in lines[1:]] == [
        {"type": "error", "code": "timeout", "content": "Five minutes are over."},
        {
            "type": "result",
            "taskId": "3f2a",
            "done": True,
            "success": False,
            "code": "timeout",
            "error": "Five minutes are over.",
        },
    ]


def test_a_failed_run_has_a_default_code():
    out = io.StringIO()
    JsonOutput(out, stream=True, session_id="3f2a").end(False)
    assert json.loads(out.getvalue().splitlines()[-1])["code"] == "task_failed"


@each_row("stream", [True, False])
def test_the_output_is_utf_8_whatever_the_terminal_is_set_to(stream: bool):
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii", newline="\r\n")
    output = JsonOutput(out, stream=stream, session_id="3f2a")
    output.show(Event(1, 0, 1, TaskOpened(text="Grüße 🦜")))
    output.end(True)
    assert "Grüße 🦜".encode() in raw.getvalue()
    assert b"\r" not in raw.getvalue()


def test_no_character_of_a_text_ends_a_line_or_the_run():
    text = "a\u2028b\u2029c\x85d\r\ne\udc80f"
    lines = written([TaskOpened(text=text)], stream=True).splitlines()
    assert [json.loads(line)["type"] for line in lines] == ["system", "user", "result"]
    assert json.loads(lines[1])["content"] == text.replace("\udc80", "\ufffd")


class _CountsFlushes(io.StringIO):
    flushes = 0

    def flush(self) -> None:
        self.flushes += 1


def test_every_line_is_flushed_at_once():
    out = _CountsFlushes()
    JsonOutput(out, stream=True, session_id="3f2a").begin()
    assert out.flushes == 1


@each_row("stream", [True, False])
def test_a_reader_that_leaves_ends_the_run_without_an_error(stream: bool):
    script = f"""
import sys
from rookery.compat.structured_output.writer import (JsonOutput, ReaderLeft)
output = JsonOutput(sys.stdout, stream={stream}, session_id="3f2a")
try:
    output.begin()
    output.end(True)
except ReaderLeft:
    output.end(False, "task_aborted")
    sys.exit(0)
sys.exit(7)
"""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ended = subprocess.run(
            [sys.executable, "-c", script],
            stdout=writing,
            stderr=subprocess.PIPE,
            check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
    finally:
        os.close(writing)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_reader_left_is_raised_from_the_broken_pipe():
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w", encoding="utf-8") as out, pytest.raises(ReaderLeft) as left:
        JsonOutput(out, stream=True, session_id="3f2a").begin()
    assert isinstance(left.value.__cause__, BrokenPipeError)
