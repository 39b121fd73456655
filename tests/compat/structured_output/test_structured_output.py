"""The events of structured output, fact by fact."""

import os
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.compat.structured_output.output_events import StructuredOutput
from rookery.core.asks import AskKind
from rookery.core.blocks import Block, Text, Thinking, ToolCall
from rookery.core.facts import (
    Answered,
    Asked,
    AssistantSpoke,
    CallStreamed,
    CompletionOffered,
    Ending,
    Event,
    Fact,
    Noted,
    OutputStreamed,
    RequestFailed,
    RequestStarted,
    Rewound,
    StepCancelled,
    TaskFailed,
    TaskOpened,
    TaskReopened,
    TextStreamed,
    ThinkingStreamed,
    ToolFinished,
    ToolStarted,
    Usage,
    UserSpoke,
    next_event,
)
from rookery.core.limits import FailureKind
from rookery.core.replies import NEVER_RUN
from support.each_row import each_row

JsonEvent = dict[str, Any]


def placed(facts: Iterable[Fact]) -> list[Event]:
    events: list[Event] = []
    for fact in facts:
        events.append(next_event(events[-1] if events else None, fact, 1))
    return events


def reported(
    *facts: Fact, stream: bool = True, automatic: bool = True, after: int = 0
) -> list[JsonEvent]:
    output = StructuredOutput(session_id="t1", stream=stream, automatic=automatic, after=after)
    return [one for event in placed(facts) for one in output.see(event)]


def text(words: str) -> TextStreamed:
    return TextStreamed(request_id="r", text=words)


def thought(words: str) -> ThinkingStreamed:
    return ThinkingStreamed(request_id="r", text=words)


def piece(arguments: str, name: str = "read_file", index: int = 0) -> CallStreamed:
    return CallStreamed(request_id="r", index=index, name=name, arguments=arguments)


def answer(*blocks: Any, interrupted: bool = False, usage: Usage | None = None) -> AssistantSpoke:
    return AssistantSpoke(
        request_id="r", blocks=blocks, interrupted=interrupted, usage=usage or Usage()
    )


TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))
REQUEST = RequestStarted(request_id="r", model="m")
READ = ToolCall(id="c1", name="read_file", arguments={"path": "a.py"})
RUN = ToolCall(id="c1", name="execute_command", arguments={"command": "ls -l"})
PAYLOAD = '{"tool": "readFile", "path": "a.py"}'
READING = ToolStarted(call_id="c1", tool="read_file", title="Read a.py", text=PAYLOAD)
RUNNING = ToolStarted(
    call_id="c1",
    tool="execute_command",
    title="Run ls -l",
    ask=AskKind.COMMAND,
    text="ls -l",
    command="ls -l",
)
FAILED = RequestFailed(request_id="r", error=FailureKind.DROPPED, message="The answer was cut off.")


@each_row(
    "fact",
    [
        TaskOpened(text="fix it"),
        UserSpoke(message_id="m1", text="fix it"),
        Answered(ask_id="q", ask=AskKind.FOLLOWUP, reply="message", text="fix it"),
        Answered(ask_id="q", ask=AskKind.TOOL, reply="no", text="fix it"),
    ],
)
def test_a_user_message_is_a_user_event(fact: Fact):
    assert reported(fact) == [{"type": "user", "id": 1, "content": "fix it", "done": True}]


@each_row(
    "fact",
    [
        Answered(ask_id="q", ask=AskKind.TOOL, reply="yes"),
        Answered(ask_id="q", ask=AskKind.TOOL, reply="yes", text="by rule", by="policy"),
    ],
)
def test_an_answer_without_a_text_from_the_user_is_not_reported(fact: Fact):
    assert reported(fact) == reported(fact, stream=False) == []


def test_each_block_of_an_answer_is_its_own_row():
    facts = [
        thought("hm"),
        text("a"),
        piece('{"path": "a.py"}'),
        text("b"),
        answer(Thinking(text="hm"), Text(text="a"), READ, Text(text="b")),
    ]
    closed = [(one["type"], one["id"], one["content"]) for one in reported(*facts) if "done" in one]
    assert closed == [("thinking", 1, "hm"), ("assistant", 2, "a"), ("assistant", 4, "b")]


def test_blocks_that_were_never_streamed_get_their_own_ids():
    facts = [answer(Text(text="a"), Thinking(text="hm"), Text(text="b")), Noted(text="n")]
    assert [(one["type"], one["id"], one["content"]) for one in reported(*facts)] == [
        ("assistant", 1, "a"),
        ("thinking", 2, "hm"),
        ("assistant", 3, "b"),
        ("assistant", 4, "n"),
    ]


def test_blank_texts_are_not_reported_and_do_not_shift_other_blocks():
    facts = [
        text("\n"),
        thought("hm"),
        text("\n"),
        text("a"),
        answer(Thinking(text="hm"), Text(text="\na")),
    ]
    assert reported(*facts) == [
        {"type": "thinking", "id": 2, "content": "hm"},
        {"type": "assistant", "id": 4, "content": "\na"},
        {"type": "thinking", "id": 2, "content": "hm", "done": True},
        {"type": "assistant", "id": 4, "content": "\na", "done": True},
    ]


def test_text_of_an_interrupted_answer_is_closed_before_the_error():
    assert reported(text("Hel"), FAILED) == [
        {"type": "assistant", "id": 1, "content": "Hel"},
        {"type": "assistant", "id": 1, "content": "Hel", "done": True},
        {"type": "error", "id": 2, "code": "dropped", "content": "The answer was cut off."},
    ]


def test_a_payload_that_is_not_a_json_object_is_given_raw():
    facts = [answer(READ), ToolStarted(call_id="c1", tool="read_file", title="", text="[1]")]
    assert reported(*facts)[0]["tool_use"] == {"name": "read_file", "input": {"raw": "[1]"}}


def test_an_unknown_call_is_named_by_its_payload():
    question = Asked(ask_id="q", ask=AskKind.TOOL, text=PAYLOAD, call_id="c9")
    assert reported(question)[0]["tool_use"]["name"] == "readFile"
    assert reported(ToolFinished(call_id="c9", text="?"))[0]["tool_use"]["name"] == "unknown_tool"


def test_output_is_streamed_and_the_closing_event_adds_only_the_exit_code():
    end = ToolFinished(call_id="c1", text="Exit code 0. Output:\nab", exit_code=0)
    facts = [answer(RUN), RUNNING, *(OutputStreamed(call_id="c1", text=t) for t in "ab"), end]
    row = {"type": "tool_result", "subtype": "command", "id": 2}
    assert reported(*facts)[1:] == [
        {**row, "tool_result": {"name": "execute_command", "output": "a"}},
        {**row, "tool_result": {"name": "execute_command", "output": "b"}},
        {**row, "tool_result": {"name": "execute_command", "exitCode": 0}, "done": True},
    ]
    assert reported(*facts, stream=False)[1:] == [
        {
            **row,
            "tool_result": {"name": "execute_command", "output": "ab", "exitCode": 0},
            "done": True,
        },
    ]


def test_a_command_without_output_reports_none_whatever_the_model_receives():
    end = ToolFinished(call_id="c1", text="It ended with 0 and wrote nothing.", exit_code=0)
    assert reported(answer(RUN), RUNNING, end)[-1]["tool_result"] == {
        "name": "execute_command",
        "exitCode": 0,
    }


def test_a_command_that_was_stopped_keeps_its_output_beside_the_error():
    end = ToolFinished(call_id="c1", text="stopped", ending=Ending.FAILED)
    facts = [answer(RUN), RUNNING, OutputStreamed(call_id="c1", text="ab"), end]
    error = {"name": "execute_command", "error": "stopped"}
    assert reported(*facts)[-1]["tool_result"] == error
    assert reported(*facts, stream=False)[-1]["tool_result"] == {**error, "output": "ab"}


def test_a_result_that_extends_the_stream_closes_with_the_rest():
    end = ToolFinished(call_id="c1", text="abc")
    facts = [answer(READ), READING, OutputStreamed(call_id="c1", text="ab"), end]
    assert reported(*facts)[-1]["tool_result"] == {"name": "read_file", "output": "c"}
    assert reported(*facts, stream=False)[-1]["tool_result"]["output"] == "abc"


@each_row("ending", [ending for ending in Ending if ending is not Ending.DONE])
def test_a_call_that_never_started_is_shown_with_the_reason(ending: Ending):
    end = ToolFinished(call_id="c1", text="no", ending=ending)
    assert reported(answer(READ), end) == [
        {
            "type": "tool_use",
            "subtype": "tool",
            "id": 2,
            "tool_use": {"name": "read_file", "input": {"path": "a.py"}},
            "done": True,
        },
        {
            "type": "tool_result",
            "subtype": "tool",
            "id": 2,
            "tool_result": {"name": "read_file", "error": "no"},
            "done": True,
        },
    ]


def test_a_call_gets_one_result_even_if_it_seems_to_end_twice():
    end = ToolFinished(call_id="c1", text="done")
    late = OutputStreamed(call_id="c1", text="more")
    types = [one["type"] for one in reported(answer(READ), READING, end, late, end)]
    assert types == ["tool_use", "tool_result"]


def test_a_reused_call_id_is_another_call():
    end = ToolFinished(call_id="c1", text="done")
    ids = [one["id"] for one in reported(answer(READ), end, answer(READ), end)]
    assert ids == [2, 2, 4, 4]


def test_a_malformed_call_is_shown_as_received():
    broken = ToolCall(id="c1", name="read_file", problem="It is no JSON.")
    end = ToolFinished(call_id="c1", text="no", ending=Ending.MISTAKEN)
    shown = reported(piece('{"path'), answer(broken), end)[1]
    assert shown["tool_use"] == {"name": "read_file", "input": {"raw": '{"path'}}


def test_a_call_that_was_not_streamed_gets_its_own_row():
    shown = reported(piece("{}", "list_files", 1), answer(READ), READING)
    assert [(one["id"], one.get("tool_use", {}).get("name")) for one in shown] == [
        (1, "list_files"),
        (1, "list_files"),
        (1, None),
        (3, "read_file"),
    ]


def test_a_piece_that_adds_nothing_is_not_reported():
    assert len(reported(piece(""), piece(""))) == 1


def test_after_a_rewind_a_call_is_reported_again_under_another_id():
    end = ToolFinished(call_id="c1", text="done")
    ids = [one["id"] for one in reported(answer(READ), READING, end, Rewound(to=1), READING, end)]
    assert ids == [2, 2, 5, 5]


@pytest.mark.parametrize(
    "facts",
    [
        [piece('{"pa'), answer(interrupted=True), StepCancelled()],
        [piece('{"pa'), answer(READ, interrupted=True)],
        [piece('{"pa'), FAILED],
        [piece('{"pa'), answer(Text(text="never mind"))],
    ],
    ids=["cancelled", "cancelled at its end", "failed", "not on record"],
)
def test_an_interrupted_call_is_closed_as_never_run(facts: list[Fact]):
    rows = [one for one in reported(*facts) if one["type"].startswith("tool") and "done" in one]
    assert [one.get("tool_use") or one["tool_result"] for one in rows] == [
        {"name": "read_file", "input": {"raw": '{"pa'}},
        {"name": "read_file", "error": NEVER_RUN},
    ]


def test_abandoned_calls_are_closed_by_the_next_request():
    resumed = Answered(ask_id="q", ask=AskKind.RESUME_TASK, reply="message", text="no, b.py")
    assert [one["type"] for one in reported(answer(READ), StepCancelled(), resumed, REQUEST)] == [
        "user",
        "tool_use",
        "tool_result",
    ]


@each_row("name", ["attempt_completion", "ask_followup_question"])
def test_a_call_addressed_to_the_user_is_reported_as_a_call_only_if_it_fails(name: str):
    call = ToolCall(id="c1", name=name, arguments={"result": "ok"})
    start = ToolStarted(call_id="c1", tool=name, title="", text="{}")
    before = [piece('{"result"', name), answer(call), start]
    said = OutputStreamed(call_id="c1", text="ok")
    assert reported(*before, said, ToolFinished(call_id="c1", text="ok")) == []
    failed = reported(*before, ToolFinished(call_id="c1", text="no", ending=Ending.MISTAKEN))
    assert [one["type"] for one in failed] == ["tool_use", "tool_result"]


ASKS = """
followup                        answer                 assistant
api_req_failed                  retry_or_new_task      assistant
mistake_limit_reached           proceed_or_new_task    assistant
auto_approval_max_req_reached   start_new_task         assistant
payment_required_prompt         retry_or_new_task      assistant
invalid_model                   retry_or_new_task      assistant
resume_task                     resume_or_abandon      assistant
resume_completed_task           start_new_task         assistant
"""


@each_row("row", ASKS.strip().splitlines())
@each_row("words", ["Why?", ""])
def test_a_question_that_stops_the_task_is_reported_with_the_expected_action(row: str, words: str):
    ask, action, type = row.split()
    question = Asked(ask_id="q", ask=AskKind(ask), text=words)
    shown = {"type": type, "subtype": ask, "id": 1, "content": words, "done": True}
    waiting = {"type": "system", "subtype": "waiting", "id": 1, "code": ask, "content": action}
    assert reported(question, automatic=False) == [shown, waiting]
    assert reported(question, automatic=True) == [shown]
    assert reported(question, automatic=False, stream=False) == [shown]


@each_row(("ask", "text_"), [(AskKind.TOOL, PAYLOAD), (AskKind.COMMAND, "ls")])
def test_an_approval_question_has_the_id_of_its_call(ask: AskKind, text_: str):
    question = Asked(ask_id="q", ask=ask, text=text_, call_id="c1")
    assert reported(piece("{}"), answer(READ), question, automatic=False)[-1] == {
        "type": "system",
        "subtype": "waiting",
        "id": 1,
        "code": ask.value,
        "content": "approve",
    }


@each_row("ask", [AskKind.COMPLETION_RESULT, AskKind.COMMAND_OUTPUT])
def test_a_question_that_needs_no_driver_is_not_reported(ask: AskKind):
    assert reported(Asked(ask_id="q", ask=ask), automatic=False) == []


def ended(
    *facts: Fact, success: bool = True, code: str | None = None, stream: bool = True
) -> tuple[list[JsonEvent], JsonEvent]:
    output = StructuredOutput(session_id="t1", stream=stream)
    for event in placed(facts):
        output.see(event)
    return output.settle(code), output.result(success, code)


def test_the_result_has_the_completion_and_the_cost_of_all_requests():
    one = Usage(tokens_in=10, tokens_out=2, cache_reads=4, cost=0.1)
    lost = RequestFailed(
        request_id="r", error=FailureKind.BUSY, message="", usage=Usage(tokens_in=1, cost=0.2)
    )
    facts = [answer(Text(text="hi"), usage=one), lost, CompletionOffered(result="Done.")]
    assert ended(*facts)[1] == {
        "type": "result",
        "id": 3,
        "taskId": "t1",
        "content": "Done.",
        "done": True,
        "success": True,
        "cost": {"totalCost": 0.3, "inputTokens": 11, "outputTokens": 2, "cacheReads": 4},
    }


def test_only_the_cost_of_a_child_is_reported():
    output = StructuredOutput(session_id="t1", stream=True)
    lost = RequestFailed(
        request_id="r", error=FailureKind.BUSY, message="Busy.", usage=Usage(tokens_in=1, cost=0.25)
    )
    used = Usage(tokens_in=10, tokens_out=2, cost=0.5)
    of_child = [TaskOpened(text="x"), lost, answer(READ, usage=used), CompletionOffered(result="y")]
    for event in placed([TaskOpened(text="a"), answer(Text(text="b"), usage=used)]):
        output.see(event)
    for event in placed(of_child):
        output.see_of_child(event)
    assert output.settle() == []
    result = output.result(True)
    assert result["content"] == "b"
    assert result["cost"] == {"totalCost": 1.25, "inputTokens": 21, "outputTokens": 4}


@pytest.mark.parametrize(
    ("facts", "content"),
    [
        ([CompletionOffered(result="a"), Asked(ask_id="q", ask=AskKind.COMPLETION_RESULT)], "a"),
        (
            [
                CompletionOffered(result="a"),
                Asked(ask_id="q", ask=AskKind.COMPLETION_RESULT, text="b"),
            ],
            "b",
        ),
        ([CompletionOffered(result="a"), REQUEST, answer(Text(text="c"))], "c"),
        ([text("as far as it ca")], "as far as it ca"),
        ([answer(Text(text="x"), Thinking(text="y"))], "x"),
        ([], None),
    ],
    ids=["offered", "asked", "outdated", "broken off", "no thinking", "nothing"],
)
def test_the_result_shows_the_latest_text(facts: list[Fact], content: str | None):
    assert ended(*facts)[1].get("content") == content


def test_a_later_result_omits_the_earlier_text_but_keeps_the_cost():
    output = StructuredOutput(session_id="t1", stream=True)
    usage = Usage(tokens_in=1)
    for event in placed([answer(Text(text="a"), usage=usage), CompletionOffered(result="b")]):
        output.see(event)
    output.result(True)
    later = output.result(False, "timeout")
    assert "content" not in later
    assert later["cost"] == {"inputTokens": 1, "outputTokens": 0}


@each_row("code", ["task_aborted", "task_failed", "timeout", "limit_reached"])
def test_a_failed_run_reports_an_error_before_its_result(code: str):
    reported, result = ended(success=False, code=code)
    assert [(one["type"], one["code"], bool(one["content"])) for one in reported] == [
        ("error", code, True)
    ]
    assert (result["success"], result["code"]) == (False, code)
    assert result["error"] == reported[0]["content"]


def test_a_reported_failure_is_not_repeated_but_is_in_the_result():
    reported, result = ended(TaskFailed(message="broke"), success=False, code="task_failed")
    assert (reported, result["error"]) == ([], "broke")


def test_a_failure_of_an_earlier_run_does_not_count():
    facts = [TaskFailed(message="broke"), TaskReopened()]
    reported, result = ended(*facts, success=False, code="task_failed")
    assert result["error"] == reported[0]["content"] != "broke"


def test_open_rows_are_closed_when_the_run_ends():
    facts = [answer(RUN), RUNNING, OutputStreamed(call_id="c1", text="a"), text("b")]
    error = {"name": "execute_command", "error": "The run ended before this call finished."}
    row = {"type": "tool_result", "subtype": "command", "id": 2, "done": True}
    words = {"type": "assistant", "id": 4, "content": "b", "done": True}
    assert ended(*facts)[0] == [words, {**row, "tool_result": error}]
    whole = {**row, "tool_result": {**error, "output": "a"}}
    assert ended(*facts, stream=False)[0] == [words, whole]


def test_events_before_a_resume_are_not_repeated_but_their_cost_counts():
    facts = [
        TaskOpened(text="fix it"),
        answer(READ, usage=Usage(tokens_in=5, cost=0.5)),
        Asked(ask_id="q", ask=AskKind.TOOL, text=PAYLOAD, call_id="c1"),
        TaskReopened(),
        Asked(ask_id="q2", ask=AskKind.RESUME_TASK),
        Asked(ask_id="q3", ask=AskKind.TOOL, text=PAYLOAD, call_id="c1"),
    ]
    output = StructuredOutput(session_id="t1", stream=True, automatic=True, after=3)
    news = [one for event in placed(facts) for one in output.see(event)]
    assert [(one["type"], one["subtype"]) for one in news] == [
        ("assistant", "resume_task"),
        ("tool_use", "tool"),
    ]
    assert news[1]["tool_use"]["name"] == "read_file"
    assert output.result(True)["cost"]["totalCost"] == 0.5


# ── any order of events that a task can produce ─────────────────────────────────────────

unhurried = settings(max_examples=1000 if TORTURE else 40, deadline=None)

words = st.text("ab \n\U0001f600", max_size=4)
said = st.tuples(st.sampled_from(["text", "thinking"]), words, st.booleans())
names = st.sampled_from(["read_file", "execute_command", "attempt_completion", ""])
called = st.tuples(st.just("call"), st.integers(0, 2), words, names)
chunks = st.lists(said | called, max_size=8)
fates = st.sampled_from(["spoke", "spoke", "spoke", "failed", "interrupted", "lost"])
call_fates = st.lists(
    st.sampled_from(["run", "asked and run", "denied", "skipped", "dropped", "run again"]),
    min_size=8,
    max_size=8,
)
turns = st.lists(st.tuples(chunks, fates, call_fates, st.lists(words, max_size=3)), max_size=4)


def played(turns: Any) -> list[Fact]:
    """The facts of a task that plays these turns."""
    facts: list[Fact] = [TaskOpened(text="go")]
    for number, (chunks, fate, call_fates, outputs) in enumerate(turns):
        facts += [REQUEST, *(queued_row(chunk) for chunk in chunks)]
        blocks = assembled(chunks, str(number))
        calls = [block for block in blocks if isinstance(block, ToolCall)]
        match fate:
            case "failed":
                facts.append(FAILED)
            case "interrupted":
                kept = [block for block in blocks if block not in calls]
                facts += [answer(*kept, interrupted=True), StepCancelled()]
            case "spoke":
                facts.append(answer(*blocks, usage=Usage(tokens_in=1)))
                for call, call_fate in zip(calls, call_fates, strict=False):
                    facts += lived(call, call_fate, outputs)
    return facts


def queued_row(chunk: Any) -> Fact:
    match chunk:
        case "text", words, _:
            return text(words)
        case "thinking", words, _:
            return thought(words)
        case _, index, arguments, name:
            return piece(arguments, name, index)


def assembled(chunks: list[Any], mark: str) -> list[Block]:
    """The blocks recorded for an answer: signatures end thoughts, blank texts are dropped."""
    parts: list[list[Any]] = []
    for chunk in chunks:
        match chunk:
            case "call", index, arguments, name:
                known = next((part for part in parts if part[0] == index), None)
                if known is None:
                    parts.append([index, "", "", False])
                    known = parts[-1]
                known[1] += arguments
                known[2] = name or known[2]
            case speaker, words, signed if words:
                if not parts or parts[-1][0] != speaker or parts[-1][3]:
                    parts.append([speaker, "", "", False])
                parts[-1][1] += words
                parts[-1][3] = signed and speaker == "thinking"
    blocks: list[Block] = []
    for kind, words, name, _ in parts:
        if isinstance(kind, int):
            blocks.append(ToolCall(id=f"c{mark}-{kind}", name=name, problem="It is no JSON."))
        elif words.strip():
            blocks.append(Text(text=words) if kind == "text" else Thinking(text=words))
    return blocks


def lived(call: ToolCall, fate: str, outputs: list[str]) -> list[Fact]:
    ask = AskKind.COMMAND if call.name == "execute_command" else AskKind.TOOL
    question = Asked(ask_id="q", ask=ask, text="{}", call_id=call.id)
    start = ToolStarted(call_id=call.id, tool=call.name, title="", ask=ask, text="{}")
    news: list[Fact] = [OutputStreamed(call_id=call.id, text=words) for words in outputs]
    done = ToolFinished(call_id=call.id, text="".join(outputs) + "!", exit_code=0)
    no = ToolFinished(call_id=call.id, text="no", ending=Ending.DENIED)
    match fate:
        case "run":
            return [start, *news, done]
        case "asked and run":
            return [question, start, *news, done]
        case "denied":
            return [question, no]
        case "skipped":
            return [no]
        case "run again":
            return [start, *news, StepCancelled(), TaskReopened(), start, done]
        case _:
            return [StepCancelled()]


def run(facts: list[Fact], *, stream: bool) -> list[JsonEvent]:
    output = StructuredOutput(session_id="t1", stream=stream)
    news = [one for event in placed(facts) for one in output.see(event)]
    return [*news, *output.settle(), output.result(True)]


def by_row(rows: list[JsonEvent], type: str) -> dict[int, list[JsonEvent]]:
    found: dict[int, list[JsonEvent]] = defaultdict(list)
    for one in rows:
        if one["type"] == type:
            found[one["id"]].append(one)
    return found


@unhurried
@given(turns)
def test_rows_are_closed_once_in_order_and_add_up_whatever_a_task_does(turns: Any):
    facts = played(turns)
    rows = run(facts, stream=True)
    for type in ("user", "assistant", "thinking", "tool_use", "tool_result"):
        for parts in by_row(rows, type).values():
            assert [("done" in part) for part in parts] == [False] * (len(parts) - 1) + [True]
    for type in ("assistant", "thinking"):
        for *deltas, closing in by_row(rows, type).values():
            assert not deltas or "".join(d["content"] for d in deltas) == closing["content"]
    _demand_results_after_calls(rows)
    named = [one["id"] for one in rows[:-1] if "done" in one and one["type"] != "tool_result"]
    assert len(named) == len(set(named)), "two rows share an id"
    _demand_json_without_parts(rows, run(facts, stream=False))


def _demand_results_after_calls(rows: list[JsonEvent]) -> None:
    closed: set[int] = set()
    for one in rows:
        if one["type"] == "tool_use" and "done" in one:
            closed.add(one["id"])
        if one["type"] == "tool_result":
            assert one["id"] in closed
    assert by_row(rows, "tool_result").keys() == by_row(rows, "tool_use").keys()


def _demand_json_without_parts(streamed: list[JsonEvent], whole: list[JsonEvent]) -> None:
    outputs: dict[int, str] = defaultdict(str)
    for one in streamed:
        if one["type"] == "tool_result":
            outputs[one["id"]] += one["tool_result"].pop("output", "")
    for one in whole:
        if one["type"] == "tool_result":
            assert one["tool_result"].pop("output", "") == outputs[one["id"]]
    assert whole == [one for one in streamed if "done" in one or one["type"] == "error"]
