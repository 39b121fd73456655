"""Events become rows, and the rows keep their promises after every event of every log."""

import json
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.core.asks import AskKind, is_non_blocking_ask
from rookery.core.blocks import Image, Text, Thinking, ToolCall
from rookery.core.facts import (
    Answered,
    Asked,
    AssistantSpoke,
    CallStreamed,
    CompletionOffered,
    Condensed,
    Ending,
    Event,
    Fact,
    Noted,
    OfferWithdrawn,
    OutputStreamed,
    Pausing,
    QueueEdited,
    RequestFailed,
    RequestStarted,
    Rewound,
    StepCancelled,
    TaskClosed,
    TaskFailed,
    TaskOpened,
    TaskReopened,
    TextStreamed,
    ThinkingStreamed,
    ToolFinished,
    ToolStarted,
    Usage,
    UserSpoke,
)
from rookery.core.folds.transcript import Transcript
from rookery.core.limits import FailureKind
from rookery.core.message import CallText, Message, Pieces, detect
from rookery.core.replies import denied, failed
from support.each_row import each_row
from support.sample_logs import ANY_LOG, IMPLAUSIBLE, log, messages, plausible

OPENED = TaskOpened(text="do it")
STARTED = RequestStarted(request_id="r", model="m")
READ = ToolCall(id="c", name="read_file", arguments={"path": "a.py"})


def text(piece: str) -> TextStreamed:
    return TextStreamed(request_id="r", text=piece)


def call(piece: str, name: str = "read_file", index: int = 0) -> CallStreamed:
    return CallStreamed(request_id="r", index=index, name=name, arguments=piece)


def spoke(*blocks: Text | Thinking | ToolCall, **more: Any) -> AssistantSpoke:
    return AssistantSpoke(request_id="r", blocks=blocks, **more)


def asked(ask: AskKind = AskKind.TOOL, **more: Any) -> Asked:
    return Asked(ask_id="q", ask=ask, **more)


def answered(reply: Any = "yes", words: str = "", ask: AskKind = AskKind.TOOL) -> Answered:
    return Answered(ask_id="q", ask=ask, reply=reply, text=words)


def brief(message: Message) -> str:
    """A row as text: its kind, `~` while it streams, `?` while it waits, and its content."""
    mark = "~" if message.partial else "?" if message.type == "ask" and message.open else ""
    return f"{message.say or message.ask}{mark} {message.text or ''}".rstrip()


def rows(*facts: Fact) -> list[str]:
    """All rows but those of requests, in brief."""
    return [brief(message) for message in messages(log(*facts)) if message.say != "api_req_started"]


def request_info(*facts: Fact) -> dict[str, Any]:
    (row,) = [row for row in messages(log(*facts)) if row.say == "api_req_started"]
    info = json.loads(row.text or "")
    assert isinstance(info, dict)
    return info


# ── promises that hold for every prefix of every log ────────────────────────────────────


@given(ANY_LOG)
def test_rows_keep_their_invariants_for_every_log_prefix(events: list[Event]):
    transcript = Transcript()
    named: dict[int, str] = {}
    last_new = 0
    for event in events:
        transcript.add(event)
        shown = transcript.messages
        names = [row.ts for row in shown]
        assert names == sorted(set(names)), "row ids are unique and in order"
        for row in shown:
            if row.ts not in named:
                assert row.ts > last_new, "a row id is never reused"
                named[row.ts] = row.type
        last_new = max(named, default=0)
        waiting = [
            row
            for row in shown
            if row.type == "ask"
            and row.open
            and not row.partial
            and not is_non_blocking_ask(row.ask)
        ]
        assert waiting in ([], [shown[-1]] if shown else []), "only the last row can be waiting"
        assert transcript.open_ask is None or transcript.open_ask in list(shown)
        if isinstance(event.fact, StepCancelled | TaskClosed | TaskReopened | TaskFailed | Rewound):
            assert not any(row.open for row in shown), "a stopped task has no open row"
            requests = [row for row in shown if row.say == "api_req_started"]
            assert all("cost" in json.loads(row.text or "") for row in requests)
            assert detect(shown).state in ("no_task", "running")


@given(ANY_LOG)
def test_a_copy_does_not_change_with_later_events(events: list[Event]):
    transcript = Transcript()
    looks: list[tuple[Transcript, list[Message]]] = []
    for event in events:
        looks.append((transcript.copy(), list(transcript.messages)))
        transcript.add(event)
    for copy, seen in looks:
        assert list(copy.messages) == seen


@given(st.one_of(IMPLAUSIBLE, plausible()))
def test_transient_events_do_not_change_the_final_state(facts: list[Fact]):
    events = log(OPENED, *facts, StepCancelled(), Asked(ask_id="z", ask=AskKind.RESUME_TASK))
    kept = [event for event in events if event.fact.lasting]
    for seen in (messages(events), messages(kept)):
        assert detect(seen).state == "resumable"
        assert all(row is seen[-1] or not row.open for row in seen)


# ── answers of the model ────────────────────────────────────────────────────────────────


def test_the_task_is_the_first_row():
    image = Image(media_type="image/png", data="AA==")
    (row,) = messages(log(TaskOpened(text="do it", images=(image,))))
    assert row == Message(ts=1000, seq=1, type="say", say="text", content="do it", images=(image,))


def test_text_streams_into_one_row_with_a_stable_id():
    events = log(OPENED, STARTED, text("Hel"), text("lo"), spoke(Text(text="Hello")))
    arriving, whole = messages(events[:4])[-1], messages(events)[-1]
    assert (arriving.text, arriving.partial) == ("Hello", True)
    assert (whole.text, whole.partial) == ("Hello", False)
    assert arriving.ts == whole.ts == events[2].ts


def test_text_after_a_call_gets_its_own_row():
    facts = (OPENED, STARTED, text("First."), call('{"path": "a.py"}'), text("Then."))
    assert rows(*facts) == [
        "text do it",
        "text First.",
        'tool~ {"tool": "read_file", "path": "a.py"}',
        "text~ Then.",
    ]
    whole = spoke(Text(text="First."), READ, Text(text="Then."))
    assert rows(*facts, whole) == ["text do it", "text First.", "text Then."]


def test_reasoning_and_text_alternate_in_rows():
    thought = ThinkingStreamed(request_id="r", text="Hm.")
    facts = (OPENED, STARTED, thought, text("So."), thought, text("Yes."))
    assert rows(*facts)[1:] == ["reasoning Hm.", "text So.", "reasoning Hm.", "text~ Yes."]


def test_blank_text_shows_no_row_until_more_text_follows():
    assert rows(OPENED, STARTED, text("\n"), text("\n")) == ["text do it"]
    assert messages(log(OPENED, STARTED, text("\n"), text("a")))[-1].text == "\na"
    assert rows(OPENED, STARTED, text("\n"), call(""), text("a"))[-1] == "text~ a"


def test_an_answer_is_complete_without_its_stream_events():
    whole = spoke(Thinking(text="Hm."), Text(text="Hi."), Thinking(text="", signature="s"))
    assert rows(OPENED, STARTED, whole) == ["text do it", "reasoning Hm.", "text Hi."]


def test_the_final_answer_replaces_the_streamed_one():
    facts = (OPENED, STARTED, text("Hel"), ThinkingStreamed(request_id="r", text="x"))
    assert rows(*facts, spoke(Text(text="Hello"))) == ["text do it", "text Hello"]


def test_stream_events_of_another_request_are_ignored():
    stray = TextStreamed(request_id="old", text="late")
    assert rows(OPENED, stray, STARTED, stray) == ["text do it"]


def test_a_request_row_shows_its_usage():
    usage = Usage(tokens_in=5120, tokens_out=210, cache_reads=4096, cost=0.0123)
    assert request_info(OPENED, STARTED) == {"model": "m"}
    assert request_info(OPENED, STARTED, spoke(Text(text="x"), usage=usage)) == {
        "model": "m",
        "tokensIn": 5120,
        "tokensOut": 210,
        "cacheWrites": 0,
        "cacheReads": 4096,
        "cost": 0.0123,
    }


@pytest.mark.parametrize(
    ("end", "reason", "message"),
    [
        (spoke(Text(text="x"), interrupted=True), "user_cancelled", None),
        (StepCancelled(), "user_cancelled", None),
        (TaskClosed(), "user_cancelled", None),
        (
            RequestFailed(request_id="r", error=FailureKind.BUSY, message="Busy."),
            "streaming_failed",
            "Busy.",
        ),
        (
            TaskReopened(),
            "streaming_failed",
            "The process ended before the answer was complete.",
        ),
        (TaskFailed(message="A bug."), "streaming_failed", "A bug."),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_request_that_ended_early_says_why_and_has_a_cost(
    end: Fact, reason: str, message: str | None
):
    info = request_info(OPENED, STARTED, text("x"), end)
    assert info["cancelReason"] == reason
    assert info.get("streamingFailedMessage") == message
    assert "cost" in info


def test_a_broken_off_answer_keeps_its_text_and_makes_no_calls():
    failure = RequestFailed(request_id="r", error=FailureKind.DROPPED, message="It broke.")
    assert rows(OPENED, STARTED, text("So."), call("{"), failure) == ["text do it", "text So."]


def test_a_pause_counts_down_in_one_row():
    pauses = (Pausing(seconds=2.4, reason="503\nBusy."), Pausing(seconds=1.2, reason="503\nBusy."))
    failure = RequestFailed(request_id="r", error=FailureKind.BUSY, message="Busy.")
    assert rows(OPENED, STARTED, failure, *pauses)[1:] == [
        "api_req_retry_delayed~ 503\nBusy.\n<retry_timer>1</retry_timer>"
    ]
    again = RequestStarted(request_id="r2", model="m", attempt=2)
    assert rows(OPENED, STARTED, failure, *pauses, again)[1:] == [
        "api_req_retry_delayed 503\nBusy."
    ]


# ── calls and questions ─────────────────────────────────────────────────────────────────


def test_a_call_arrives_is_asked_and_answered_in_one_row():
    payload = '{"tool": "readFile", "path": "a.py"}'
    question = asked(text=payload, title="Read a.py", call_id="c", digest="d", diff="@@")
    facts = [OPENED, STARTED, call('{"path": "a'), spoke(READ), question, answered()]
    seen = [messages(log(*facts[:length]))[-1] for length in range(3, 7)]
    assert [brief(row) for row in seen] == [
        'tool~ {"tool": "read_file"}',
        'tool~ {"tool": "read_file", "path": "a.py"}',
        f"tool? {payload}",
        f"tool {payload}",
    ]
    assert len({row.ts for row in seen}) == 1
    row = seen[2]
    assert (row.ask_id, row.call_id, row.digest, row.title, row.diff) == (
        "q",
        "c",
        "d",
        "Read a.py",
        "@@",
    )


def test_a_path_is_shown_when_it_is_complete_and_a_content_as_it_grows():
    facts = (OPENED, STARTED, call('{"path": "a.p', "write_to_file"))
    assert rows(*facts)[-1] == 'tool~ {"tool": "write_to_file"}'
    more = call('y", "content": "imp', "write_to_file")
    assert rows(*facts, more)[-1] == (
        'tool~ {"tool": "write_to_file", "path": "a.py", "content": "imp"}'
    )


@each_row(
    ("name", "arguments", "row"),
    [
        ("execute_command", '{"command": "ls -l', "command~ ls -l"),
        ("ask_followup_question", '{"question": "Which', "followup~ Which"),
        ("attempt_completion", '{"result": "Done', "completion_result~ Done"),
    ],
)
def test_calls_with_text_show_that_text(name: str, arguments: str, row: str):
    assert rows(OPENED, STARTED, call(arguments, name))[-1] == row


def test_a_question_is_the_last_row_though_other_calls_came_after_it():
    list_files = ToolCall(id="d", name="list_files", arguments={"path": "."})
    facts = (OPENED, STARTED, call("{}"), call("{}", "list_files", 1), spoke(READ, list_files))
    assert rows(*facts)[1:] == ['tool~ {"tool": "read_file", "path": "a.py"}']
    assert rows(*facts, asked(text="T", call_id="c"))[1:] == ["tool? T"]
    assert rows(
        *facts,
        asked(text="T", call_id="c"),
        answered(),
        ToolStarted(call_id="c", tool="read_file", title="Read"),
        ToolFinished(call_id="c", text="x"),
        Asked(ask_id="q2", ask=AskKind.TOOL, call_id="d", text="U"),
    )[1:] == ["tool T", "tool? U"]


def test_notes_during_a_question_appear_after_its_answer():
    facts = (OPENED, asked(text="T"), Noted(text="By the way."))
    assert rows(*facts) == ["text do it", "tool? T"]
    assert rows(*facts, answered("message", "No, that.")) == [
        "text do it",
        "tool T",
        "note By the way.",
        "user_feedback No, that.",
    ]


def test_text_with_an_answer_is_shown_unless_it_came_from_a_rule():
    assert rows(OPENED, asked(), answered("yes", "but slowly"))[-1] == "user_feedback but slowly"
    by_rule = Answered(ask_id="q", ask=AskKind.TOOL, reply="no", text="rule 3", by="policy")
    assert rows(OPENED, asked(), by_rule)[-1] == "tool"


@each_row("end", [StepCancelled(), TaskReopened(), TaskClosed(), STARTED])
def test_an_open_question_is_withdrawn_when_the_loop_moves_on(end: Fact):
    assert "tool T" in rows(OPENED, asked(text="T"), end)


def test_another_question_withdraws_the_first():
    second = Asked(ask_id="q2", ask=AskKind.RESUME_TASK)
    assert rows(OPENED, asked(text="T"), second) == ["text do it", "tool T", "resume_task?"]


def test_an_offer_stays_open_while_output_comes_until_it_is_withdrawn():
    facts = (
        OPENED,
        ToolStarted(
            call_id="c", tool="execute_command", title="Run", ask=AskKind.COMMAND, command="ls"
        ),
        asked(AskKind.COMMAND_OUTPUT),
        OutputStreamed(call_id="c", text="a\n"),
    )
    assert rows(*facts)[1:] == ["command ls", "command_output?", "command_output~ a\n".rstrip()]
    assert rows(*facts, OfferWithdrawn(ask_id="q"))[2] == "command_output"


def test_text_that_ends_the_turn_becomes_the_result_in_its_row():
    facts = [OPENED, STARTED, text("It is 4."), spoke(Text(text="It is 4."))]
    assert rows(*facts)[1:] == ["text It is 4."]
    offered = [CompletionOffered(result="It is 4.", spoken=True), asked(AskKind.COMPLETION_RESULT)]
    assert rows(*facts, *offered)[1:] == ["completion_result It is 4.", "completion_result?"]
    before, after = messages(log(*facts)), messages(log(*facts, *offered))
    assert before[-1].ts == after[-2].ts


def test_a_pause_between_requests_is_a_row_until_the_next_request():
    pausing = Pausing(seconds=2.4, reason="", paced=True)
    assert rows(OPENED, pausing)[1:] == ["api_req_rate_limit_wait~ Next request in 3 s."]
    assert rows(OPENED, pausing, STARTED)[1:] == []
    assert rows(OPENED, pausing, StepCancelled())[1:] == []


def test_a_completion_that_was_not_offered_has_no_row():
    block = ToolCall(id="c", name="attempt_completion", arguments={"result": "Done."})
    facts = (OPENED, STARTED, call('{"result": "Done."}', "attempt_completion"), spoke(block))
    skipped = ToolFinished(call_id="c", text=failed("Too early."), ending=Ending.SKIPPED)
    assert rows(*facts, skipped) == ["text do it"]


# ── facts that no engine writes in this order ───────────────────────────────────────────


def test_an_interrupted_answer_makes_no_calls():
    facts = (OPENED, STARTED, call("{}"), spoke(READ, interrupted=True))
    assert rows(*facts) == ["text do it"]


def test_a_question_during_an_answer_gets_its_own_row():
    facts = (OPENED, STARTED, call("{"), asked(text="T"))
    assert rows(*facts)[1:] == ['tool~ {"tool": "read_file"}', "tool? T"]
    assert rows(*facts, call("}"))[1:] == ['tool~ {"tool": "read_file"}', "tool T"]


def test_a_completion_during_an_answer_gets_its_own_row():
    begun = call('{"result": "', "attempt_completion")
    facts = (OPENED, STARTED, begun, CompletionOffered(result="Done."))
    assert rows(*facts)[1:] == ["completion_result~", "completion_result Done."]
    assert rows(*facts, call("x", "attempt_completion"))[1] == "completion_result~ x"


def test_a_question_stays_open_while_another_call_runs():
    run = ToolStarted(
        call_id="d", tool="execute_command", title="Run", ask=AskKind.COMMAND, command="ls"
    )
    facts = (
        OPENED,
        asked(text="T", call_id="c"),
        run,
        OutputStreamed(call_id="d", text="a"),
        ToolFinished(call_id="d", text="a"),
    )
    assert rows(*facts) == ["text do it", "tool? T"]
    assert rows(*facts, answered())[1:] == ["tool T", "command ls", "command_output a"]


@pytest.mark.parametrize(
    "fact",
    [
        text("x"),
        ThinkingStreamed(request_id="r", text="x"),
        call("{}"),
        spoke(Text(text="x")),
        RequestFailed(request_id="r", error=FailureKind.BUSY, message="x"),
        Pausing(seconds=1, reason="x"),
        CompletionOffered(result="x"),
        Asked(ask_id="q2", ask=AskKind.COMMAND_OUTPUT),
        ToolStarted(call_id="c", tool="read_file", title="Read"),
        ToolFinished(call_id="c", text="x"),
    ],
    ids=lambda fact: type(fact).__name__,
)
def test_any_next_step_of_the_loop_withdraws_a_question(fact: Fact):
    assert "tool T" in rows(OPENED, STARTED, asked(text="T", call_id="c"), fact)


def test_a_call_that_is_asked_about_again_after_condensing_has_one_row():
    asking = [OPENED, STARTED, asked(text="T", call_id="c")]
    again = [
        Condensed(upto=1),
        Noted(text="N"),
        Asked(ask_id="q2", ask=AskKind.TOOL, text="T", call_id="c"),
    ]
    assert rows(*asking, *again) == ["text do it", "sliding_window_truncation", "note N", "tool? T"]


# ── tools ───────────────────────────────────────────────────────────────────────────────


def test_a_call_that_needed_no_question_is_shown_as_answered():
    start = ToolStarted(call_id="c", tool="read_file", title="Read a.py", text='{"tool": "r"}')
    row = messages(log(OPENED, STARTED, spoke(READ), start))[-1]
    assert (row.ask, row.answered, row.partial, row.text, row.title) == (
        "tool",
        True,
        False,
        '{"tool": "r"}',
        "Read a.py",
    )
    assert rows(OPENED, STARTED, call("{}"), spoke(READ), start)[1:] == ['tool {"tool": "r"}']


RUN = ToolStarted(
    call_id="c", tool="execute_command", title="Run ls", ask=AskKind.COMMAND, command="ls"
)


def test_output_streams_and_ends_with_the_command():
    facts = (OPENED, RUN, OutputStreamed(call_id="c", text="a\nb"))
    assert rows(*facts)[1:] == ["command ls", "command_output~ a\nb"]
    end = ToolFinished(call_id="c", text="exit 1", exit_code=1, ending=Ending.FAILED)
    assert rows(*facts, end)[1:] == ["command ls", "command_output a\nb"]


def test_command_output_is_shown_without_its_stream_events():
    assert rows(OPENED, RUN, ToolFinished(call_id="c", text="a"))[1:] == [
        "command ls",
        "command_output a",
    ]


def test_output_of_a_finished_call_is_ignored():
    late = OutputStreamed(call_id="c", text="late")
    assert rows(OPENED, RUN, ToolFinished(call_id="c", text=""), late)[1:] == ["command ls"]


@pytest.mark.parametrize(
    ("end", "shown"),
    [
        (ToolFinished(call_id="c", text="fine"), []),
        (
            ToolFinished(call_id="c", text=failed("No such file."), ending=Ending.FAILED),
            ["error No such file."],
        ),
        (
            ToolFinished(call_id="c", text=failed("path is missing."), ending=Ending.MISTAKEN),
            ["error path is missing."],
        ),
        (
            ToolFinished(call_id="c", text="It may have happened.", ending=Ending.UNKNOWN),
            ["error It may have happened."],
        ),
        (
            ToolFinished(call_id="c", text=denied("Outside."), ending=Ending.DENIED),
            ["error Outside."],
        ),
        (ToolFinished(call_id="c", text=failed("Too many."), ending=Ending.SKIPPED), []),
    ],
    ids=lambda value: getattr(value, "ending", None),
)
def test_a_problem_with_a_call_is_shown_as_text(end: ToolFinished, shown: list[str]):
    facts = (OPENED, STARTED, call("{}"), spoke(READ))
    called = 'tool {"tool": "read_file", "path": "a.py"}'
    assert rows(*facts, end)[1:] == [called, *shown]


def test_a_denial_is_not_repeated_to_the_user():
    end = ToolFinished(call_id="c", text=denied("Not now."), ending=Ending.DENIED)
    assert rows(OPENED, asked(text="T", call_id="c"), answered("no", "Not now."), end)[1:] == [
        "tool T",
        "user_feedback Not now.",
    ]


@each_row(
    ("ending", "outcome"),
    [
        (Ending.DONE, ""),
        (Ending.DENIED, "denied"),
        (Ending.FAILED, "failed"),
        (Ending.MISTAKEN, "failed"),
        (Ending.UNKNOWN, "failed"),
        (Ending.SKIPPED, ""),
    ],
)
def test_the_row_of_a_call_shows_its_outcome(ending: Ending, outcome: str):
    begun = (OPENED, asked(text="T", call_id="c"), answered("no", "Not now."))
    facts = (*begun, ToolFinished(call_id="c", text=denied("Not now."), ending=ending))
    found = messages(Event(seq, 0, seq, fact) for seq, fact in enumerate(facts, 1))
    assert [row.outcome for row in found if row.ask] == [outcome]
    assert {row.outcome for row in found if row.say} == {""}


# ── the rest ────────────────────────────────────────────────────────────────────────────


def test_a_queued_message_becomes_a_row_when_it_is_sent():
    facts = (
        OPENED,
        UserSpoke(message_id="m1", text="one"),
        UserSpoke(message_id="m2", text="two"),
        QueueEdited(message_id="m1", text="uno"),
        QueueEdited(message_id="m2", text=None),
    )
    assert rows(*facts) == ["text do it"]
    assert rows(*facts, STARTED) == ["text do it", "user_feedback uno"]


def test_each_row_of_one_event_has_its_own_id():
    facts = (OPENED, UserSpoke(message_id="m", text="x"), STARTED)
    assert [row.ts for row in messages(log(*facts))] == [1000, 1200, 1201]


@each_row(
    ("fact", "row"),
    [
        (Condensed(upto=3), "sliding_window_truncation"),
        (Condensed(upto=3, summary="All went well."), "condense_context All went well."),
        (Noted(text="Look out."), "note Look out."),
        (TaskFailed(message="A bug."), "error A bug."),
    ],
)
def test_other_events_are_rows(fact: Fact, row: str):
    assert rows(OPENED, fact)[-1] == row


def test_a_rewind_removes_rows_and_keeps_the_ids_of_the_rest():
    events = log(OPENED, STARTED, text("Hi"), spoke(Text(text="Hi")), asked(), answered())
    before = messages(events)
    rewound = log(
        OPENED, STARTED, text("Hi"), spoke(Text(text="Hi")), asked(), answered(), Rewound(to=3)
    )
    after = messages(rewound)
    assert list(after) == list(before)[:3]
    again = messages([*rewound, *log(OPENED, start=1)])
    assert again[-1].ts > before[-1].ts


def test_a_rewind_into_an_answer_leaves_nothing_open():
    facts = (OPENED, STARTED, text("Hi"), call("{}"), spoke(Text(text="Hi"), READ), Rewound(to=2))
    assert rows(*facts) == ["text do it"]
    assert request_info(*facts)["cancelReason"] == "user_cancelled"


def test_a_rewind_and_later_events_can_be_rewound():
    facts = (OPENED, Noted(text="a"), Noted(text="b"), Rewound(to=2), Noted(text="c"))
    assert rows(*facts) == ["text do it", "note a", "note c"]
    assert rows(*facts, Rewound(to=3)) == ["text do it", "note a", "note b"]
    assert rows(*facts, Rewound(to=3), Rewound(to=5)) == ["text do it", "note a", "note c"]
    assert rows(*facts, Rewound(to=0)) == []


# ── what it costs ───────────────────────────────────────────────────────────────────────


def test_the_cost_of_a_stream_is_linear():
    pieces = Pieces()
    for _ in range(20_000):
        pieces = pieces.add("word ")
    assert len(pieces.since(0)) == 20_000
    assert len(pieces.text) == 100_000

    transcript = Transcript()
    for event in log(OPENED, STARTED, *[text("word ")] * 20_000):
        transcript.add(event)
    last = transcript.messages[-1]
    assert isinstance(last.content, Pieces)
    assert last.content.count == 20_000
    assert last.text == "word " * 20_000


def test_reading_a_growing_text_joins_only_new_parts():
    pieces, joined = Pieces(), []
    for number in range(100):
        pieces = pieces.add(str(number % 10))
        joined.append(pieces.text)
    assert joined[-1] == "0123456789" * 10
    older = Pieces("a")
    newer, other = older.add("b"), older.add("c")
    assert (newer.text, other.text, older.text) == ("ab", "ac", "a")


def test_arguments_are_parsed_only_once():
    shown = CallText("write_to_file", '{"content": "')
    early = shown
    for _ in range(2_000):
        shown = shown.add("x", "write_to_file")
        assert shown.text
    assert shown.scanned == len('{"content": "') + 2_000
    assert early.text == '{"tool": "write_to_file", "content": ""}'


def test_freeing_a_long_log_does_not_exhaust_the_stack():
    transcript = Transcript()
    for event in log(OPENED, *[Noted(text="x")] * 20_000):
        transcript.add(event)
    assert len(transcript.messages) == 20_001
    del transcript


def many_words(number: int) -> Iterator[Fact]:
    yield OPENED
    for each in range(number):
        yield UserSpoke(message_id=str(each), text="x")


def many_calls(number: int) -> Iterator[Fact]:
    yield OPENED
    yield STARTED
    for each in range(number):
        yield ToolStarted(call_id=str(each), tool="read_file", title="t", ask=AskKind.TOOL)
    for each in range(number):
        yield ToolFinished(call_id=str(each), text="t")


def bytes_to_fold(events: list[Event]) -> int:
    tracemalloc.start()
    try:
        messages(events)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@each_row("facts", [many_words, many_calls])
def test_memory_grows_linearly_with_the_log(
    facts: Callable[[int], Iterator[Fact]],
):
    few, many = (bytes_to_fold(log(*facts(number))) for number in (400, 1600))
    assert many < 7 * few


def test_a_rewind_restores_the_queued_messages():
    words = [UserSpoke(message_id=each, text=each) for each in ("a", "b", "c")]
    edit = QueueEdited(message_id="a", text="A")
    transcript = Transcript()
    for event in log(OPENED, *words, edit, STARTED, Rewound(to=5)):
        transcript.add(event)
    assert [spoken.text for spoken in transcript.queue] == ["A", "b", "c"]
